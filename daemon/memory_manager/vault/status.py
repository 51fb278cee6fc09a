"""What ``status`` says about the vault (vault.md 4.3, 14): states, and one frozen snapshot."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

from memory_manager.base.times import rfc3339
from memory_manager.vault.credential_slots import UnlockSource
from memory_manager.vault.slots import SlotType
from memory_manager.vault.state_rows import RecoveryState


class VaultState(enum.StrEnum):
    ABSENT = "absent"
    LOCKED = "locked"
    VERIFYING = "verifying"
    UNLOCKED = "unlocked"
    READ_ONLY = "read_only"
    ROLLED_BACK = "rolled_back"
    NEEDS_REPAIR = "needs_repair"


class KeyringCopyState(enum.StrEnum):
    """``none``: no keyring; ``unavailable``: there is one, but it does not answer."""

    OK = "ok"
    NONE = "none"
    UNAVAILABLE = "unavailable"


@dataclasses.dataclass(frozen=True, slots=True)
class VaultStatus:
    """A snapshot; safe to show and to log. ``reason`` is a lock reason or an error code."""

    state: VaultState
    reason: str | None = None
    unlock_source: UnlockSource | None = None
    reauth_due_at_ms: int | None = None
    recovery: RecoveryState | None = None  # None: unknown while locked
    generation: int | None = None
    keyring_copy: KeyringCopyState | None = None
    last_integrity_check_ms: int | None = None
    slots: tuple[SlotType, ...] = ()
    admin_seconds_left: int = 0

    @property
    def insecure(self) -> bool:
        return self.unlock_source is UnlockSource.INSECURE_KEY_FILE

    def as_json(self) -> dict[str, Any]:
        """The object under ``"vault"`` of a status answer."""
        anchor: dict[str, Any] | None = None
        if self.generation is not None:
            anchor = {"generation": self.generation, "keyring_copy": None}
            if self.keyring_copy is not None:
                anchor["keyring_copy"] = self.keyring_copy.value
        return {
            "state": self.state.value,
            "reason": self.reason,
            "unlock_source": None if self.unlock_source is None else self.unlock_source.value,
            "insecure": self.insecure,
            "reauth_due_at": _time(self.reauth_due_at_ms),
            "recovery": None if self.recovery is None else self.recovery.value,
            "anchor": anchor,
            "last_integrity_check": _time(self.last_integrity_check_ms),
            "slots": [slot.value for slot in self.slots],
            "admin_seconds_left": self.admin_seconds_left,
        }


def _time(unix_ms: int | None) -> str | None:
    return None if unix_ms is None else rfc3339(unix_ms)
