"""Seals every local write in the transaction that makes it (vault.md 9.1).

Payload, time, parents, content key, BODY, WRAP, log entry and outbox come into being with the row,
or not at all. A vault without sync pays one look at the database per connection.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_manager.vault.rows import MemoryRow, WriteStatus

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction


class SyncJournal:
    """The vault's ``RowJournal``: one per daemon, given to ``Memories``."""

    def turned_on(self) -> None:
        """Look at the database again with the next write: sync was just turned on or off."""
        raise NotImplementedError

    def row_written(self, transaction: Transaction, row: MemoryRow, action: WriteStatus) -> None:
        raise NotImplementedError

    def row_destroyed(self, transaction: Transaction, row: MemoryRow) -> None:
        raise NotImplementedError

    def is_on(self, connection: Connection) -> bool:
        raise NotImplementedError
