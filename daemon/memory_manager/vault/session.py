"""One open vault: its keys, its store, its anchor keeper and its background integrity check.

Made by ``VaultLifecycle`` after every check passed and closed by it once; closing zeroes the keys.
What may be written is decided here: a rolled back vault gets read-only connections.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from memory_manager.base.times import now_ms
from memory_manager.vault import integrity, kdf, process_memory, state_rows
from memory_manager.vault.anchor import Anchor, Freshness, SyncMark
from memory_manager.vault.anchor_keeper import AnchorKeeper
from memory_manager.vault.connection import SMALL_CACHE_KIB, disk_is_read_only, open_database
from memory_manager.vault.credential_slots import UnlockSource
from memory_manager.vault.errors import LockReason, NeedsRepair, VaultLocked
from memory_manager.vault.opening import Inspection, VaultKeys
from memory_manager.vault.os_keyring import OsKeyring
from memory_manager.vault.paths import VaultPaths
from memory_manager.vault.status import KeyringCopyState

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.store import Store

ConnectionFactory = Callable[[], "Connection"]
STORE_CLOSE_SECONDS = 10.0
_CHECK_STOP_SECONDS = 1.0

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class OpenContext:
    """What a store needs besides connections. With ``read_only`` every write is refused."""

    on_commit: Callable[[int, SyncMark | None], None]
    on_write_failure: Callable[[BaseException], None]
    on_write_recovered: Callable[[], None]
    on_damage: Callable[[], None]
    read_only: bool


OpenStore = Callable[[ConnectionFactory, OpenContext], "Store"]


class VaultSession:
    """An open vault. ``last_auth`` is the unix time of the last passphrase entry."""

    def __init__(
        self,
        paths: VaultPaths,
        keys: VaultKeys,
        source: UnlockSource,
        found: Inspection,
        last_auth: int,
    ) -> None:
        self.paths = paths
        self.keys = keys
        if not process_memory.keep_out_of_swap(keys.luk, keys.dbk):
            _log.info("keys_may_be_swapped_out")
        self.source = source
        self.found = found
        self.last_auth = last_auth
        self.recovery = found.recovery
        self.last_check_ms = found.last_check_ms
        self.frozen = disk_is_read_only(paths.database)
        self._store: Store | None = None
        self._keeper: AnchorKeeper | None = None
        self._closed = False
        self._check: threading.Thread | None = None
        self._check_connection: Connection | None = None

    @property
    def read_only(self) -> bool:
        """Whether the freshness check forbids writing, or the disk does."""
        return self.frozen or self.found.freshness is not Freshness.FRESH

    @property
    def insecure(self) -> bool:
        """Opened by an insecure key file."""
        return self.source is UnlockSource.INSECURE_KEY_FILE

    @property
    def trouble(self) -> str | None:
        """What the freshness check found, in one word for ``status``; None when all is well."""
        fresh = self.found.freshness is Freshness.FRESH
        return None if fresh else self.found.freshness.value

    @property
    def closing(self) -> bool:
        """Whether the session is closed or about to be; long work stops then."""
        return self._closed

    @property
    def store(self) -> Store:
        if self._store is None or self._closed:
            raise VaultLocked(LockReason.USER)
        return self._store

    @property
    def generation(self) -> int:
        """The newest generation known to be durable."""
        keeper = self._keeper
        if keeper is None:
            return self.found.progress.generation
        return keeper.anchor.progress.generation

    @property
    def copy_state(self) -> KeyringCopyState:
        """How the keyring copy of the anchor fares."""
        current = None if self._keeper is None else self._keeper.copy_is_current
        if current is None:
            return self.found.copy_state
        return KeyringCopyState.OK if current else KeyringCopyState.UNAVAILABLE

    def connect(self) -> Connection:
        """A new ordinary connection; VaultLocked once the session is closed."""
        if self._closed:
            raise VaultLocked(LockReason.USER)
        salt = self.keys.slot_file.salt
        return open_database(self.paths.database, self.keys.dbk, salt, read_only=self.read_only)

    def open(self, open_store: OpenStore, keyring: OsKeyring | None, events: OpenContext) -> None:
        """Start keeper and store; on an error everything is closed again.

        ``events`` are the owner's; the store gets the same with the anchor kept in between.
        """
        try:
            if not self.read_only and self.found.anchor is not None:
                self._keeper = self._start_keeper(self.found.anchor, keyring, events)

            def committed(generation: int, mark: SyncMark | None) -> None:
                if self._keeper is not None:
                    self._keeper.committed(generation, mark)
                events.on_commit(generation, mark)

            context = dataclasses.replace(events, on_commit=committed, read_only=self.read_only)
            self._store = open_store(self.connect, context)
        except BaseException:
            self.close()
            raise

    def _start_keeper(
        self, found: Anchor, keyring: OsKeyring | None, events: OpenContext
    ) -> AnchorKeeper:
        anchor = found.at(self.found.progress.generation, self.found.mark)
        anchor = dataclasses.replace(anchor, last_auth=self.last_auth)
        mac_key = kdf.anchor_key(self.keys.luk)
        process_memory.keep_out_of_swap(mac_key)
        keeper = AnchorKeeper(
            self.paths.anchor,
            anchor,
            mac_key,
            None if self.insecure else keyring,
            on_failure=events.on_write_failure,
        )
        keeper.start()
        return keeper

    def authenticated(self, unix_seconds: int) -> None:
        """A passphrase was entered; durable unless the vault may not be written."""
        self.last_auth = unix_seconds
        if self._keeper is not None:
            self._keeper.authenticated(unix_seconds)

    def write_anchor(self) -> None:
        """File and keyring copy name the newest commit when this returns: before every push."""
        if self._keeper is not None:
            self._keeper.flush(copy=True)

    def forget_sync(self) -> None:
        """``AnchorKeeper.forget_sync``, inside the unit of work that turns sync off."""
        if self._keeper is not None:
            self._keeper.forget_sync()

    def close(self) -> None:
        """Close the store, zero the keys, write the anchor a last time. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._stop_check()
        try:
            if self._store is not None:
                self._store.close(STORE_CLOSE_SECONDS)
        finally:
            self.keys.wipe()
            if self._keeper is not None:
                self._keeper.close()

    def check_in_background(self, on_damage: Callable[[], None]) -> None:
        """Run the integrity checks on a thread; a clean result is remembered in the database."""
        if self._check is not None and self._check.is_alive():
            return
        self._check = threading.Thread(
            target=self._run_check, args=(on_damage,), name="integrity", daemon=True
        )
        self._check.start()

    def check(self) -> integrity.IntegrityReport:
        """Run the integrity checks now, on connections of their own; nothing is written down.

        Raises NeedsRepair when not even the first page opens.
        """
        return integrity.check_and_list(self._checking)

    @contextlib.contextmanager
    def _checking(self) -> Generator[Connection]:
        """A read-only connection that a lock may interrupt."""
        salt = self.keys.slot_file.salt
        connection = open_database(
            self.paths.database, self.keys.dbk, salt, cache_kib=SMALL_CACHE_KIB, read_only=True
        )
        self._check_connection = connection
        try:
            yield connection
        finally:
            self._check_connection = None
            connection.close()

    def _run_check(self, on_damage: Callable[[], None]) -> None:
        try:
            report = self.check()
        except Exception as error:
            damaged = isinstance(error, NeedsRepair)
            if not self._closed:
                _log.error("integrity_check_failed", extra={"error_type": type(error).__name__})
                if damaged:
                    on_damage()
            return
        if self._closed:
            return  # interrupted by a lock: says nothing
        if not report.ok:
            _log.error("integrity_check_found_damage", extra={"pages": len(report.cipher)})
            on_damage()
            return
        self.last_check_ms = now_ms()
        if not self.read_only:
            self._remember_check(self.last_check_ms)

    def _remember_check(self, unix_ms: int) -> None:
        try:
            self.store.submit(
                lambda transaction: state_rows.write_last_check_ms(transaction.connection, unix_ms)
            ).result()
        except Exception as error:  # only a note about the check; the check itself was fine
            _log.info("integrity_note_not_written", extra={"error_type": type(error).__name__})

    def _stop_check(self) -> None:
        thread, connection = self._check, self._check_connection
        if thread is None or not thread.is_alive() or thread is threading.current_thread():
            return
        if connection is not None:
            with contextlib.suppress(Exception):  # it may close at this very moment
                connection.interrupt()
        thread.join(_CHECK_STOP_SECONDS)
