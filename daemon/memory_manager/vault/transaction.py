"""One unit of work on the single writer, and the hook by which derived indexes take part in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.anchor import SyncMark
    from memory_manager.vault.memories import Memories
    from memory_manager.vault.rows import MemoryRow, WriteStatus


@dataclasses.dataclass(slots=True)
class Transaction:
    """Inside one savepoint of the writer: use ``connection`` and nothing that outlives the call.

    ``after_commit`` callbacks run on the writer thread after COMMIT, in commit order; they never
    run when the work is rolled back. They must not raise and must not write.
    """

    connection: Connection
    now_ms: int
    callbacks: list[Callable[[], None]] = dataclasses.field(default_factory=list)
    checkpoint_requested: bool = False
    mark: SyncMark | None = None

    def after_commit(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def sync_reached(self, mark: SyncMark) -> None:
        """Own log or verified log moved in this unit: the anchor follows after COMMIT."""
        self.mark = mark

    def request_checkpoint(self) -> None:
        """Ask for an empty write-ahead log after COMMIT: something in it was forgotten for good."""
        self.checkpoint_requested = True


class RowJournal(Protocol):
    """The log of local writes that other devices will read, kept in the row's own transaction.

    Never told of what came from them. An error it raises undoes the write.
    """

    def row_written(
        self, memories: Memories, transaction: Transaction, row: MemoryRow, action: WriteStatus
    ) -> MemoryRow:
        """``row`` is the new current version; a deleted one is a deletion that can be undone. The
        answer is what the record shows then: what other devices say beside it may be merged in.
        """
        ...

    def row_destroyed(self, memories: Memories, transaction: Transaction, row: MemoryRow) -> None:
        """The owner had it destroyed for good, here and everywhere."""

    def row_cleaned(
        self, memories: Memories, transaction: Transaction, row: MemoryRow, *, shown: bool
    ) -> None:
        """Versions of it now lie without what older rules let through; ``shown`` where ``row``
        itself says something else than before.
        """


class RowIndexer(Protocol):
    """A derived index kept in the row's own transaction (full text, vectors).

    ``before`` is None for a row that was not live, ``after`` for one that is no longer live. Live
    means not deleted: expired rows and rows that the gate hides are reported too.
    """

    def row_changed(
        self, transaction: Transaction, before: MemoryRow | None, after: MemoryRow | None
    ) -> None: ...
