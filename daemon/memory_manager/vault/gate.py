"""Opening and locking the vault: the transitions of vault.md 4.3, one at a time.

``VaultLifecycle`` adds what time brings and the acts of the owner. ``status``, ``state`` and
``store`` never wait for a running transition.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from memory_manager.base.errors import MemlocketError
from memory_manager.vault import (
    ballast,
    kdf,
    opening,
    process_memory,
    slot_changes,
    state_rows,
)
from memory_manager.vault.anchor import Freshness, SyncMark
from memory_manager.vault.condition import Condition
from memory_manager.vault.connection import disk_is_read_only, is_write_failure, open_database
from memory_manager.vault.credential_slots import (
    Credential,
    KeyFile,
    KeyringItem,
    Passphrase,
    RecoveryWords,
    UnlockSource,
)
from memory_manager.vault.database_errors import typed_write_errors, write_error
from memory_manager.vault.errors import (
    AnchorDamaged,
    LockReason,
    NoVault,
    PassphraseRequired,
    ReadOnly,
    RolledBack,
    VaultLocked,
    WeakPassphrase,
    WrongPassphrase,
)
from memory_manager.vault.integrity import IntegrityReport
from memory_manager.vault.key_file import read_key_file
from memory_manager.vault.opening import Inspection, VaultKeys
from memory_manager.vault.os_keyring import OsKeyring
from memory_manager.vault.passphrase import check_strength
from memory_manager.vault.paths import VaultPaths
from memory_manager.vault.policy import RETRY_SECONDS, AttemptDelay, Deadlines, VaultPolicy
from memory_manager.vault.session import OpenContext, OpenStore, VaultSession
from memory_manager.vault.setup import shipped_migrations
from memory_manager.vault.slots import SlotType
from memory_manager.vault.status import VaultState, VaultStatus

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.store import Store

_log = logging.getLogger(__name__)


class VaultListener(Protocol):
    """Told on the thread that unlocks or locks; ``locking`` must not raise and must end soon."""

    def unlocked(self, store: Store) -> None: ...

    def locking(self, store: Store) -> None: ...


class VaultGate:
    """The one way to an open vault."""

    def __init__(
        self,
        vault_directory: Path,
        *,
        open_store: OpenStore,
        keyring: OsKeyring | None = None,
        listeners: Sequence[VaultListener] = (),
        policy: VaultPolicy | None = None,
        migrate: Callable[[Connection], object] | None = None,
        wall_clock: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.paths = VaultPaths(vault_directory)
        self.keyring = keyring
        self._open_store = open_store
        self._listeners = tuple(listeners)
        self._migrate = migrate or shipped_migrations()
        self._wall_clock = wall_clock
        self._clock = clock
        self._operation = threading.RLock()  # one transition at a time; may be held for seconds
        self._condition = Condition()
        self._deadlines = Deadlines(policy or VaultPolicy(), clock, wall_clock)
        self._delay = AttemptDelay(clock)
        self._session: VaultSession | None = None
        self._slot_types: tuple[SlotType, ...] = ()
        self._key_file: Path | None = None
        self._retry_at = float("-inf")

    # --- what others see, without waiting -----------------------------------------------------

    @property
    def state(self) -> VaultState:
        return self._condition.state

    @property
    def store(self) -> Store:
        """The store of an open vault; using it counts as activity.

        Raises NoVault, VaultLocked, or the error that keeps the vault shut.
        """
        session = self._session
        if session is None:
            raise self._condition.error()
        self._deadlines.used()
        return session.store

    def peek(self) -> Store | None:
        """The store without counting as activity, for status and chores; None while it is shut."""
        session = self._session
        return None if session is None else session.store

    def require_writable(self) -> None:
        """Raise what stops writes now: RolledBack, AnchorDamaged, or the errors of ``store``.

        A full disk is not asked here: the write itself finds out, and ends that state.
        """
        if self._session is None or self.state is VaultState.ROLLED_BACK:
            raise self._condition.error()

    def require_admin(self) -> None:
        """Raise PassphraseRequired unless a passphrase was entered in the last five minutes."""
        if self.state is VaultState.ABSENT:
            raise NoVault
        if self._deadlines.admin_seconds_left() <= 0:
            raise PassphraseRequired

    def status(self) -> VaultStatus:
        """A snapshot."""
        session, state, reason = self._session, self.state, self._condition.reason()
        if session is None:
            return VaultStatus(state, reason, slots=self._slot_types)
        due_ms = None
        if not session.insecure:
            due_ms = (session.last_auth + self._deadlines.policy.reauth_seconds) * 1000
        return VaultStatus(
            state=state,
            reason=session.trouble or reason,
            unlock_source=session.source,
            reauth_due_at_ms=due_ms,
            recovery=session.recovery,
            generation=session.generation,
            keyring_copy=session.copy_state,
            last_integrity_check_ms=session.last_check_ms,
            slots=self._slot_types,
            admin_seconds_left=int(self._deadlines.admin_seconds_left()),
        )

    def write_anchor(self) -> None:
        """The anchor and its keyring copy name what is committed: before every push."""
        session = self._session
        if session is None:
            raise self._condition.error()
        session.write_anchor()

    def forget_sync(self) -> None:
        """Inside the unit of work that turns sync off: the anchor forgets its numbers first."""
        session = self._session
        if session is None:
            raise self._condition.error()
        session.forget_sync()

    def recovery_commitment(self) -> bytes | None:
        """Which recovery words open the vault, as ``credential_slots.recovery_commitment``; None
        where none do, and while it is locked.
        """
        session = self._session
        slot = None if session is None else session.keys.slot_file.find(SlotType.RECOVERY)
        return None if slot is None else slot.kc

    def check_integrity(self) -> IntegrityReport:
        """Read every page of the open vault; the errors of ``store`` when it is not open."""
        session = self._session
        if session is None:
            raise self._condition.error()
        report = session.check()
        if not report.ok:
            self._condition.damaged()
        return report

    # --- unlocking ----------------------------------------------------------------------------

    def unlock_with_passphrase(self, passphrase: str) -> VaultStatus:
        """Open the vault, or confirm that the owner is here; opens the admin window either way.

        WrongPassphrase carries the seconds until the next try is looked at.
        """
        with self._operation:
            self._unlock(Passphrase(passphrase), fresh=True)
            self._deadlines.passphrase_seen()
            return self.status()

    def unlock_with_recovery_words(
        self, words: Sequence[str] | str, new_passphrase: str
    ) -> VaultStatus:
        """Open with the recovery words and put the new passphrase and a new GSK in place."""
        check_strength(new_passphrase)

        def set_passphrase(keys: VaultKeys) -> None:
            slot_changes.replace_passphrase(self.paths, keys, new_passphrase)

        with self._operation:
            self._unlock(RecoveryWords(words), fresh=True, prepare=set_passphrase)
            self._deadlines.passphrase_seen()
            return self.status()

    def unlock_with_key_file(self, path: Path) -> VaultStatus:
        """Open with an insecure key file, read anew."""
        with self._operation:
            with self._recording_refusal():
                credential = KeyFile(read_key_file(path))
            try:
                self._unlock(credential, fresh=False)
            finally:
                kdf.wipe(credential.kek)
            return self.status()

    def lock(self, reason: LockReason) -> None:
        """Close every connection and zero every key; listeners drop their plaintext first."""
        if self._lock(reason):
            process_memory.give_back_freed_memory()

    def _lock(self, reason: LockReason) -> bool:
        """Whether there was an open vault."""
        with self._operation:
            self._deadlines.closed()
            session = self._session
            if session is None:
                return False
            self._condition.set_locked(reason)
            self._close_session(session)
            _log.info("vault_locked", extra={"reason": reason.value})
            return True

    # --- for the owner's acts -----------------------------------------------------------------

    @contextlib.contextmanager
    def owner_act(self) -> Generator[VaultSession]:
        """Inside: a fresh passphrase, an open vault, and no other transition."""
        with self._operation, typed_write_errors():
            self.require_admin()
            if self._session is None:
                raise self._condition.error()
            yield self._session

    @contextlib.contextmanager
    def transition(self) -> Generator[VaultSession | None]:
        """Inside: no other transition; the open session, if any."""
        with self._operation, typed_write_errors():
            yield self._session

    def passphrase_seen(self, session: VaultSession) -> None:
        """A right passphrase was entered outside of unlocking."""
        session.authenticated(int(self._wall_clock()))
        self._deadlines.opened(session.last_auth)
        self._deadlines.passphrase_seen()

    def slots_changed(self, session: VaultSession) -> None:
        """The slot file of the open vault was rewritten."""
        self._slot_types = tuple(slot.type for slot in session.keys.slot_file.slots)

    @contextlib.contextmanager
    def counted_attempt(self) -> Generator[None]:
        """Inside: one look at a passphrase. A wrong one costs a growing delay."""
        remaining = self._delay.remaining()
        if remaining > 0:
            raise WrongPassphrase(
                "After a wrong passphrase the next one has to wait.",
                retry_after_seconds=remaining,
            )
        try:
            yield
        except WrongPassphrase as error:
            error.retry_after_seconds = self._delay.failed()
            raise
        self._delay.succeeded()

    @contextlib.contextmanager
    def exclusive(self, session: VaultSession) -> Generator[VaultKeys]:
        """Inside: no connection is open; afterwards the vault opens again, also after an error.

        The block gets copies of the keys and may put new ones in their place.
        """
        keys = VaultKeys(
            session.keys.slot_file, bytearray(session.keys.luk), bytearray(session.keys.dbk)
        )
        self._condition.set(VaultState.VERIFYING)
        self._close_session(session)
        try:
            yield keys
        finally:
            with self._recording_refusal():
                self._admit(keys, session.source, fresh=False)

    # --- inside -------------------------------------------------------------------------------

    def _open_unattended(self, has_terminal: bool) -> None:
        nobody = LockReason.NO_KEYRING if has_terminal else LockReason.NO_TERMINAL
        try:
            if self._key_file is not None:
                self.unlock_with_key_file(self._key_file)
                return
            with self._recording_refusal():
                opening.require_files(self.paths)
                self._slot_types = opening.slot_types(self.paths)
                if self.keyring is None or SlotType.OS_KEYRING not in self._slot_types:
                    raise VaultLocked(nobody)
            self._unlock(KeyringItem(self.keyring), fresh=False)
        except VaultLocked as error:
            if error.reason is LockReason.NO_KEYRING:
                self._condition.set_locked(nobody)
        except MemlocketError as error:
            # the daemon stays up; status and every answer carry the reason
            _log.warning("vault_not_opened", extra={"code": error.code})
        except Exception as error:  # no mistake of ours may take the daemon away from its status
            _log.error("vault_not_opened", extra={"error_type": type(error).__name__})

    def _unlock(
        self,
        credential: Credential,
        *,
        fresh: bool,
        prepare: Callable[[VaultKeys], None] = lambda _: None,
    ) -> None:
        """One attempt with one credential; ``prepare`` runs once the keys are known."""
        with self._recording_refusal():
            with self.counted_attempt():
                keys = opening.unwrap_keys(self.paths, credential)
            try:
                prepare(keys)
            except BaseException:
                keys.wipe()
                raise
            self._admit(keys, credential.source, fresh=fresh)

    @contextlib.contextmanager
    def _recording_refusal(self) -> Generator[None]:
        """Turn an error into the state that ``status`` shows; an open vault stays as it is.

        What the disk or the database said becomes an error of ours: ReadOnly, Busy, NeedsRepair.
        """
        try:
            yield
        except (WrongPassphrase, WeakPassphrase):
            raise
        except BaseException as error:
            known = write_error(error) or error
            if self._session is None:
                self._condition.set_refused(known)
            if known is not error:
                raise known from None
            raise

    def _admit(self, keys: VaultKeys, source: UnlockSource, *, fresh: bool) -> None:
        """Check the vault and open it; with a vault already open, only note the passphrase."""
        session = self._session
        if session is not None:
            session.keys.slot_file = keys.slot_file
            keys.wipe()
        else:
            self._condition.set(VaultState.VERIFYING)
            try:
                session = self._open_session(keys, source, fresh=fresh)
            except BaseException:
                keys.wipe()
                raise
            self._enter(session)
        if fresh:
            session.authenticated(int(self._wall_clock()))
        self.slots_changed(session)
        self._deadlines.opened(session.last_auth)

    def _open_session(self, keys: VaultKeys, source: UnlockSource, *, fresh: bool) -> VaultSession:
        found = self._inspect(keys, source)
        if fresh:
            last_auth = int(self._wall_clock())
        else:
            last_auth = 0 if found.anchor is None else found.anchor.last_auth
        if source is UnlockSource.OS_KEYRING and self._deadlines.too_old(last_auth):
            raise VaultLocked(LockReason.REAUTH_REQUIRED)
        writable = not disk_is_read_only(self.paths.database)
        if found.freshness is Freshness.FRESH and writable:
            found = self._bring_up_to_date(keys, found)
        opening.remove_temporaries(self.paths)
        session = VaultSession(self.paths, keys, source, found, last_auth)
        events = OpenContext(
            on_commit=self._committed,
            on_write_failure=self._write_failed,
            on_write_recovered=self._writes_work,
            on_damage=self._condition.damaged,
            read_only=session.read_only,
        )
        session.open(self._open_store, self.keyring, events)
        return session

    def _inspect(self, keys: VaultKeys, source: UnlockSource) -> Inspection:
        try:
            return opening.inspect(self.paths, keys, source, self.keyring)
        except ReadOnly:
            # even reading needs a little room, for the index of the write-ahead log
            if not ballast.free(self.paths):
                raise
            return opening.inspect(self.paths, keys, source, self.keyring)

    def _bring_up_to_date(self, keys: VaultKeys, found: Inspection) -> Inspection:
        """Run pending migrations on a checked vault, before anybody else connects."""
        salt = keys.slot_file.salt
        connection = open_database(self.paths.database, keys.dbk, salt, maintenance=True)
        try:
            self._migrate(connection)
            progress = state_rows.read_progress(connection)
            mark = state_rows.read_sync_mark(connection)
            return dataclasses.replace(found, progress=progress, mark=mark)
        finally:
            connection.close()

    def _enter(self, session: VaultSession) -> None:
        self._session = session
        found = session.found
        if found.freshness is Freshness.FRESH and session.frozen:
            self._condition.set(VaultState.READ_ONLY, ReadOnly())
        elif found.freshness is Freshness.FRESH:
            self._condition.set(VaultState.UNLOCKED)
            with contextlib.suppress(OSError):  # a read-only disk: they go at the next unlock
                opening.drop_leftovers(self.paths, self.keyring)
            ballast.ensure(self.paths)
        else:
            damaged = found.freshness is Freshness.ANCHOR_DAMAGED
            fault = AnchorDamaged() if damaged else RolledBack()
            self._condition.set(VaultState.ROLLED_BACK, fault)
            _log.warning("vault_rolled_back", extra={"reason": found.freshness.value})
        try:
            for listener in self._listeners:
                listener.unlocked(session.store)
        except BaseException:
            self._close_session(session)
            raise
        if found.unclean_shutdown:
            session.check_in_background(self._condition.damaged)

    def _close_session(self, session: VaultSession) -> None:
        for listener in self._listeners:
            try:
                listener.locking(session.store)
            except Exception as error:  # whatever a listener does, the keys must go
                _log.error("lock_listener_failed", extra={"error_type": type(error).__name__})
        self._session = None
        session.close()

    def _write_failed(self, error: BaseException) -> None:
        """The store or the anchor could not be written; called on their threads."""
        if not is_write_failure(error) and not isinstance(error, ReadOnly):
            _log.error("vault_write_failed", extra={"error_type": type(error).__name__})
            return
        if self._condition.disk_refused():
            self._retry_at = self._clock() + RETRY_SECONDS
            freed = ballast.free(self.paths)
            _log.warning("vault_read_only", extra={"ballast_freed": freed})

    def _committed(self, _generation: int, _mark: SyncMark | None) -> None:
        self._writes_work()

    def _writes_work(self) -> None:
        """A commit went through; called on the writer's thread."""
        if self._condition.disk_works():
            _log.info("vault_writable_again")
