"""What verification finds out, by the codes of sync.md 9.5. Nothing here holds row content."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import ClassVar

from memory_manager.base.errors import MemlocketError, Outcome


class SyncCode(enum.StrEnum):
    """Each appears in status with its time, the device and one sentence of advice."""

    BODY_HASH = "BODY_HASH"
    BREAKER = "BREAKER"
    CHAIN_BREAK = "CHAIN_BREAK"
    CLASS_POLICY = "CLASS_POLICY"
    CLONED = "CLONED"
    EQUIVOCATION = "EQUIVOCATION"
    FORK = "FORK"
    NOT_APPLIED = "NOT_APPLIED"  # a row opened, but the vault's own rules refuse what it says
    REVOKED_DEVICE = "REVOKED_DEVICE"
    ROLLBACK = "ROLLBACK"
    ROSTER_CHANGED = "ROSTER_CHANGED"
    ROSTER_FORK = "ROSTER_FORK"
    ROW_AUTH = "ROW_AUTH"
    ROW_FORMAT = "ROW_FORMAT"
    SERVER_KEY = "SERVER_KEY"
    SERVER_REFUSED = "SERVER_REFUSED"  # with a code that means nothing here
    STALE_EPOCH = "STALE_EPOCH"
    TRUNCATED = "TRUNCATED"
    UNKNOWN_DEVICE = "UNKNOWN_DEVICE"
    WAITING_KEY = "WAITING_KEY"
    WRONG_KEY = "WRONG_KEY"


class SyncRefused(MemlocketError):
    """The server's answer, or a part of it, is not accepted; nothing of it was stored."""

    code = "sync_refused"
    title = "Sync stopped"
    outcome = Outcome.ASK_USER
    exit_code = 16
    default_message = "What the server sent does not verify; nothing of it was stored."

    def __init__(
        self,
        reason: SyncCode,
        message: str | None = None,
        *,
        device: bytes | None = None,
        n: int | None = None,
    ) -> None:
        super().__init__(message or self.default_message)
        self.reason = reason
        self.device = device
        self.n = n


class ServerKeyChanged(SyncRefused):
    """Another key than the expected one: ``expected`` and ``seen`` are their six words."""

    def __init__(self, expected: Sequence[str], seen: Sequence[str]) -> None:
        self.expected, self.seen = " ".join(expected), " ".join(seen)
        super().__init__(
            SyncCode.SERVER_KEY,
            f"The server has another key. Expected: {self.expected}. Seen: {self.seen}.",
        )


class RowRefused(MemlocketError):
    """One row is quarantined with its code; the others go on (sync.md 3.3)."""

    code = "sync_row_refused"
    title = "Row quarantined"
    outcome = Outcome.RETRY_LATER
    default_message = "A row from another device cannot be opened; it is kept aside."
    alarming: ClassVar[frozenset[SyncCode]] = frozenset(
        {SyncCode.ROW_FORMAT, SyncCode.CLASS_POLICY}
    )

    def __init__(self, reason: SyncCode) -> None:
        super().__init__()
        self.reason = reason

    @property
    def names_author(self) -> bool:
        """Whether the author device is to be named in an alarm."""
        return self.reason in self.alarming


class MalformedMessage(MemlocketError):
    """Bytes that are no message of this protocol: wrong magic, version, count or length."""

    code = "sync_malformed"
    title = "Malformed sync message"
    default_message = "A sync message is malformed; nothing of it was read."
