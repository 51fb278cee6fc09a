"""The life of the vault in a daemon: ``VaultGate`` plus what time brings and the acts of the owner.

Synchronous and thread-safe; the service calls it from threads. What each act does and raises stands
in ``owner_acts`` and ``backup``. Contract: vault.md 4.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memory_manager.vault import backup, ballast, integrity, leftovers, owner_acts
from memory_manager.vault.backup import BackupSummary
from memory_manager.vault.errors import Busy, LockReason, ReadOnly
from memory_manager.vault.gate import VaultGate, VaultListener
from memory_manager.vault.os_keyring import OsKeyring
from memory_manager.vault.policy import RETRY_SECONDS, VaultPolicy
from memory_manager.vault.session import ConnectionFactory, OpenContext, OpenStore, VaultSession
from memory_manager.vault.slots import SlotType
from memory_manager.vault.status import VaultState, VaultStatus

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

__all__ = [
    "ConnectionFactory",
    "OpenContext",
    "VaultLifecycle",
    "VaultListener",
    "VaultState",
    "VaultStatus",
]

TICK_SECONDS = 1.0
_PASSING_REASONS = frozenset({LockReason.KEYRING_LOCKED.value, ReadOnly.code, Busy.code})
_log = logging.getLogger(__name__)


class VaultLifecycle(VaultGate):
    """The one owner of the vault in a process that holds ``vault.lock``."""

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
        tick_seconds: float | None = TICK_SECONDS,
    ) -> None:
        """With ``tick_seconds`` None nobody but the caller calls ``tick``."""
        super().__init__(
            vault_directory,
            open_store=open_store,
            keyring=keyring,
            listeners=listeners,
            policy=policy,
            migrate=migrate,
            wall_clock=wall_clock,
            clock=clock,
        )
        self._tick_seconds = tick_seconds
        self._stopping = threading.Event()
        self._ticker: threading.Thread | None = None

    def start(
        self, insecure_key_file: Path | None = None, has_terminal: bool = False
    ) -> VaultStatus:
        """Open with the named key file or the keyring, else stay locked and say why.

        Never raises for a vault that cannot be opened: the daemon stays up and ``status`` names the
        reason. Called again after setup.
        """
        with self._operation:
            self._key_file = insecure_key_file
            if self._session is None:
                with contextlib.suppress(OSError):  # a read-only disk keeps them
                    leftovers.settle(self.paths.directory)
                self._open_unattended(has_terminal)
        if self._tick_seconds is not None and self._ticker is None:
            self._ticker = threading.Thread(target=self._run, name="vault-clock", daemon=True)
            self._ticker.start()
        status = self.status()
        _log.info("vault_started", extra={"state": status.state.value, "reason": status.reason})
        return status

    def close(self) -> None:
        """Lock at the end of the process."""
        self._stopping.set()
        self._lock(LockReason.USER)  # the process gives its memory back by itself
        if self._ticker is not None and self._ticker is not threading.current_thread():
            self._ticker.join()

    # --- acts of the owner --------------------------------------------------------------------

    def change_passphrase(self, old: str | None, new: str) -> VaultStatus:
        """Set a new passphrase; ``old`` is None for a vault that has none yet."""
        if old is None:
            owner_acts.add_passphrase(self, new)
        else:
            owner_acts.change_passphrase(self, old, new)
        return self.status()

    def new_recovery_words(self) -> tuple[str, ...]:
        return owner_acts.issue_recovery_words(self)

    def take_recovery_words(self, words: Sequence[str] | str, *, confirmed: bool) -> VaultStatus:
        owner_acts.take_recovery_words(self, words, confirmed=confirmed)
        return self.status()

    def confirm_recovery(self) -> VaultStatus:
        owner_acts.confirm_recovery(self)
        return self.status()

    def enable_keyring(self) -> VaultStatus:
        owner_acts.enable_keyring(self)
        return self.status()

    def disable_keyring(self) -> VaultStatus:
        owner_acts.disable_keyring(self)
        return self.status()

    def accept_rollback(self) -> VaultStatus:
        owner_acts.accept_rollback(self)
        return self.status()

    def rekey(
        self,
        passphrase: str,
        *,
        recovery_words: Sequence[str] | str | None = None,
        key_file: Path | None = None,
    ) -> tuple[str, ...] | None:
        """Copy-rekey; returns new recovery words when the old ones were not given."""
        return owner_acts.change_database_key(
            self, passphrase, words=recovery_words, key_file=key_file
        )

    def backup(self, path: Path) -> BackupSummary:
        return backup.back_up(self, path)

    # --- time ---------------------------------------------------------------------------------

    def tick(self) -> None:
        """What time brings: re-authentication, idle lock, retries. Called every second."""
        if not self._operation.acquire(blocking=False):
            return
        try:
            session = self._session
            if session is None:
                self._retry_opening()
            elif not session.insecure and self._deadlines.reauth_is_due(session.last_auth):
                self.lock(LockReason.REAUTH_REQUIRED)
            elif self._idle_lock_applies(session) and self._deadlines.idle_is_over():
                self.lock(LockReason.IDLE)
            elif self._retry_is_due():
                self._retry_writing(session)
                self._check_if_old(session)
        finally:
            self._operation.release()

    def _run(self) -> None:
        while not self._stopping.wait(self._tick_seconds):
            try:
                self.tick()
            except Exception as error:  # one bad tick must not end the clock that locks the vault
                _log.error("vault_tick_failed", extra={"error_type": type(error).__name__})

    def _retry_is_due(self) -> bool:
        now = self._clock()
        if now < self._retry_at:
            return False
        self._retry_at = now + RETRY_SECONDS
        return True

    def _idle_lock_applies(self, session: VaultSession) -> bool:
        # the keyring would open it again at once, and a key file never locks by itself
        return not session.insecure and SlotType.OS_KEYRING not in self._slot_types

    def _retry_opening(self) -> None:
        if self._condition.reason() not in _PASSING_REASONS or not self._retry_is_due():
            return
        if self._key_file is not None or SlotType.OS_KEYRING in self._slot_types:
            self._open_unattended(has_terminal=True)

    def _retry_writing(self, session: VaultSession) -> None:
        if self.state is VaultState.READ_ONLY:
            if not (ballast.can_write(self.paths) and ballast.ensure(self.paths)):
                return
            if session.frozen:  # opened on a read-only disk: needs connections that can write
                with self.exclusive(session):
                    pass
            else:
                self._writes_work()
        elif self.state is VaultState.UNLOCKED:
            ballast.ensure(self.paths)

    def _check_if_old(self, session: VaultSession) -> None:
        age_ms = self._wall_clock() * 1000 - (session.last_check_ms or 0)
        if self.state is VaultState.UNLOCKED and age_ms >= integrity.CHECK_PERIOD_MS:
            session.check_in_background(self._condition.damaged)
