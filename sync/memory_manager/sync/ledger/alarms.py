"""What happened that a person should know, by code, time, device and row number; no content."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from memory_manager.sync.errors import SyncCode

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction


@dataclasses.dataclass(frozen=True, slots=True)
class Alarm:
    """``detail`` is evidence as JSON values: hashes, signatures, numbers (sync.md 4.4)."""

    code: SyncCode
    at_ms: int
    device: bytes | None
    n: int | None
    detail: dict[str, str | int]


def record(
    transaction: Transaction,
    code: SyncCode,
    *,
    device: bytes | None = None,
    n: int | None = None,
    detail: dict[str, str | int] | None = None,
) -> None:
    """Store an alarm; the same one again only renews its time."""
    raise NotImplementedError


def listed(connection: Connection, *, limit: int = 100) -> list[Alarm]:
    """Alarms that nobody has cleared, newest first."""
    raise NotImplementedError


def clear(transaction: Transaction, code: SyncCode | None = None) -> int:
    """The owner has seen them; with ``code`` only those. Returns how many."""
    raise NotImplementedError
