"""``roster_mark`` rows: a log entry that covers a new roster hash (sync.md 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_manager.sync.wire.envelope import Dot

if TYPE_CHECKING:
    from memory_manager.vault.transaction import Transaction


def write_mark(transaction: Transaction) -> Dot:
    """Append an entry with the newest roster hash to our own log."""
    raise NotImplementedError
