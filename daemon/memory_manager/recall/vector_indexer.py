"""A row's vectors die in the transaction that changes its text; the next ones are queued there.

Contract: recall.md 6.1, 10 (freshness).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from memory_manager.recall import embedding_models, near_pairs, vector_segments
from memory_manager.recall.fulltext import is_indexed
from memory_manager.recall.live_vectors import LiveVectors
from memory_manager.recall.text_rules import embedding_text

if TYPE_CHECKING:
    from memory_manager.vault.rows import MemoryRow
    from memory_manager.vault.transaction import Transaction


class VectorIndexer:
    """A ``RowIndexer``. ``on_queue_change`` gets the change of the queue's length after COMMIT."""

    def __init__(self, live: LiveVectors, on_queue_change: Callable[[int], None]) -> None:
        self._live = live
        self._on_queue_change = on_queue_change

    def row_changed(
        self, transaction: Transaction, before: MemoryRow | None, after: MemoryRow | None
    ) -> None:
        row = after or before
        if row is None:
            return
        wanted = after if after is not None and is_indexed(after) else None
        if (
            wanted is not None
            and before is not None
            and is_indexed(before)
            and embedding_text(before) == embedding_text(wanted)
        ):
            transaction.after_commit(lambda: self._live.move(wanted))
            return
        connection, rowid = transaction.connection, row.rowid
        vector_segments.remove(connection, rowid)
        near_pairs.remove(connection, rowid)
        connection.execute("DELETE FROM unembeddable WHERE record_rowid = ?", (rowid,))
        change = -int(embedding_models.unqueue_row(connection, rowid))
        if wanted is not None:
            embedding_models.queue_row(connection, rowid, transaction.now_ms)
            change += 1
        transaction.after_commit(lambda: self._live.drop(rowid))
        transaction.after_commit(lambda: self._on_queue_change(change))
