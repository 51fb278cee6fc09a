"""The vault's present state and why: one small value that every thread reads without waiting."""

from __future__ import annotations

import threading

from memory_manager.base.errors import MemlocketError
from memory_manager.base.private_files import UnsafeFile
from memory_manager.vault.errors import (
    LockReason,
    NeedsRepair,
    NoVault,
    ReadOnly,
    VaultError,
    VaultLocked,
)
from memory_manager.vault.status import VaultState


class Condition:
    """State, the error behind it if any, and the reason of the last lock."""

    def __init__(self) -> None:
        self._guard = threading.Lock()  # held for assignments only
        self.state = VaultState.ABSENT
        self.fault: MemlocketError | None = None
        self.lock_reason = LockReason.USER

    def set(self, state: VaultState, fault: MemlocketError | None = None) -> None:
        """Enter a state."""
        with self._guard:
            self.state, self.fault = state, fault

    def set_locked(self, reason: LockReason) -> None:
        """Enter ``locked``."""
        with self._guard:
            self.state, self.fault, self.lock_reason = VaultState.LOCKED, None, reason

    def set_refused(self, error: BaseException) -> None:
        """Enter the state that an error while opening leaves behind."""
        if isinstance(error, VaultLocked):
            self.set_locked(error.reason)
        elif isinstance(error, NoVault):
            self.set(VaultState.ABSENT)
        elif isinstance(error, NeedsRepair):
            self.set(VaultState.NEEDS_REPAIR, error)
        elif isinstance(error, UnsafeFile):
            # its own message names a path, and this one is told to anybody who asks
            hint = "Run: memlocket doctor; it names the file and the chmod that closes it."
            self.set(VaultState.LOCKED, UnsafeFile(hint=hint))
        elif isinstance(error, VaultError):
            self.set(VaultState.LOCKED, error)
        else:
            kind = type(error).__name__  # never its text
            message = f"The vault could not be opened ({kind}); it stays closed."
            self.set(VaultState.LOCKED, VaultError(message, hint="Run: memlocket logs"))

    def disk_refused(self) -> bool:
        """``unlocked`` -> ``read_only``; whether that was a change."""
        return self._change(VaultState.UNLOCKED, VaultState.READ_ONLY, ReadOnly())

    def disk_works(self) -> bool:
        """``read_only`` -> ``unlocked``; whether that was a change."""
        return self._change(VaultState.READ_ONLY, VaultState.UNLOCKED, None)

    def damaged(self) -> None:
        """An open vault turned out to have damaged pages; it keeps serving the rest."""
        for state in (VaultState.UNLOCKED, VaultState.READ_ONLY):
            if self._change(state, VaultState.NEEDS_REPAIR, NeedsRepair()):
                return

    def error(self) -> MemlocketError:
        """Why there is no open vault."""
        with self._guard:
            if self.fault is not None:
                return self.fault
            if self.state is VaultState.ABSENT:
                return NoVault()
            return VaultLocked(self.lock_reason)

    def reason(self) -> str | None:
        """A lock reason or an error code, for ``status``."""
        with self._guard:
            if self.fault is not None:
                return self.fault.code
            return self.lock_reason.value if self.state is VaultState.LOCKED else None

    def _change(self, before: VaultState, after: VaultState, fault: MemlocketError | None) -> bool:
        with self._guard:
            if self.state is not before:
                return False
            self.state, self.fault = after, fault
            return True
