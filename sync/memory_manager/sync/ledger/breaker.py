"""Too many memories lost to other devices at once: asked before it happens (sync.md 5).

What counts is what becomes of the records here, not what a row calls itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.ledger import state
from memory_manager.sync.wire import versions
from memory_manager.vault.rows import RowStatus

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

WINDOW_MS: Final = 24 * 3_600_000


class Losses:
    """Records as they were before the rows of one transaction reached them."""

    def __init__(self) -> None:
        self._before: dict[bytes, str | None] = {}

    def note(self, connection: Connection, record_id: bytes) -> None:
        """A row is about to change this record."""
        if record_id not in self._before:
            self._before[record_id] = _status(connection, record_id)

    def check(self, transaction: Transaction) -> None:
        """SyncRefused(BREAKER), which has to undo the transaction, when its rows and those of the
        last day deleted or emptied too many live records and the owner did not agree.
        """
        connection = transaction.connection
        found = state.require(connection)
        if found.breaker_until_ms > transaction.now_ms:
            return
        lost = sum(
            _is_lost(before, _status(connection, record_id))
            for record_id, before in self._before.items()
        )
        if not lost:
            return
        oldest_ms = transaction.now_ms - WINDOW_MS
        connection.execute("DELETE FROM remote_deletion WHERE at_ms < ?", (oldest_ms,))
        (recent,) = connection.execute(
            "SELECT ifnull(sum(count), 0) FROM remote_deletion"
        ).fetchone()
        (left,) = connection.execute(
            "SELECT count(*) FROM record WHERE status <> 'deleted'"
        ).fetchone()
        # what was lost within the day was live when the day began
        if versions.breaks(left + lost + recent, lost + recent):
            raise SyncRefused(
                SyncCode.BREAKER, "Another device deletes an unusual number of memories.", n=found.n
            )
        connection.execute(
            "INSERT INTO remote_deletion(at_ms, count) VALUES(?, ?)", (transaction.now_ms, lost)
        )


def _status(connection: Connection, record_id: bytes) -> str | None:
    found = connection.execute("SELECT status FROM record WHERE id = ?", (record_id,)).fetchone()
    return None if found is None else found[0]


def _is_lost(before: str | None, after: str | None) -> bool:
    """Whether a live record is gone, or its text is with that of all its versions."""
    if before in (None, RowStatus.DELETED):
        return False
    emptied = after == RowStatus.REDACTED and before != RowStatus.REDACTED
    return emptied or after in (None, RowStatus.DELETED)
