"""One unit of work on the single writer, and the hook by which derived indexes take part in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.rows import MemoryRow


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

    def after_commit(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def request_checkpoint(self) -> None:
        """Ask for an empty write-ahead log after COMMIT: something in it was forgotten for good."""
        self.checkpoint_requested = True


class RowIndexer(Protocol):
    """A derived index kept in the row's own transaction (full text, vectors).

    ``before`` is None for a row that was not live, ``after`` for one that is no longer live. Live
    means not deleted: expired rows and rows that the gate hides are reported too.
    """

    def row_changed(
        self, transaction: Transaction, before: MemoryRow | None, after: MemoryRow | None
    ) -> None: ...
