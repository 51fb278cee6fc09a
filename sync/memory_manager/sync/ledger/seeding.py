"""Seals rows that have no revision for what they say now: from before sync, or missed since."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from memory_manager.base.errors import TooLarge
from memory_manager.base.identifiers import memory_id_bytes
from memory_manager.sync.errors import SyncCode
from memory_manager.sync.ledger import alarms, own_log, state
from memory_manager.sync.ledger.journal import SyncJournal, seal_version
from memory_manager.vault import queries
from memory_manager.vault.rows import MemoryRow, RowStatus, WriteStatus

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

_UNSEALED = (
    "SELECT r.rowid FROM record r LEFT JOIN sync_record s ON s.id = r.id"
    " WHERE r.rowid > ? AND ((s.id IS NULL AND r.status <> 'deleted') OR s.version < r.version)"
    " ORDER BY r.rowid LIMIT ?"
)


@dataclasses.dataclass(frozen=True, slots=True)
class SeedingProgress:
    """Live rows: how many are sealed as they stand, of how many."""

    sealed: int
    total: int


def seal_some(transaction: Transaction, journal: SyncJournal, *, limit: int = 128) -> int:
    """Seal up to ``limit`` rows and return how many were dealt with; 0 ends the seeding.

    Resumable anywhere: each call goes on where the last committed one ended. A row too large to
    travel is passed over with an alarm.
    """
    connection = transaction.connection
    if journal.active(connection) is None:
        return 0
    (cursor,) = connection.execute("SELECT seeding_cursor FROM sync_state").fetchone()
    rowids = [rowid for (rowid,) in connection.execute(_UNSEALED, (cursor, limit))]
    for rowid in rowids:
        row = queries.row_by_rowid(connection, rowid)
        if row is not None:
            _seal(transaction, row)
    if rowids:
        connection.execute("UPDATE sync_state SET seeding_cursor = ?", (rowids[-1],))
    else:
        connection.execute("UPDATE sync_state SET seeding = 0, seeding_cursor = 0")
    return len(rowids)


def begin(transaction: Transaction) -> None:
    """Look through all rows again: at the start of a daemon, and after a row was missed."""
    transaction.connection.execute("UPDATE sync_state SET seeding = 1, seeding_cursor = 0")


def progress(connection: Connection) -> SeedingProgress:
    (total,) = connection.execute(
        "SELECT count(*) FROM record WHERE status <> 'deleted'"
    ).fetchone()
    (sealed,) = connection.execute(
        "SELECT count(*) FROM sync_record s JOIN record r ON r.id = s.id"
        " WHERE r.status <> 'deleted' AND s.version >= r.version"
    ).fetchone()
    return SeedingProgress(sealed, total)


def _seal(transaction: Transaction, row: MemoryRow) -> None:
    found = state.require_active(transaction.connection)
    deleted = row.status is RowStatus.DELETED
    action = WriteStatus.DELETED if deleted else WriteStatus.UPDATED
    try:
        seal_version(None, transaction, found, row, action, at_ms=row.updated_at_ms)
    except TooLarge:
        record_id = memory_id_bytes(row.id)
        transaction.connection.execute(
            "INSERT INTO sync_record(id, record, version) VALUES(?, ?, ?)"
            " ON CONFLICT(id) DO UPDATE SET version = excluded.version",
            (record_id, own_log.new_record(), row.version),
        )
        detail: dict[str, str | int] = {"too_large": 1}
        alarms.record(transaction, SyncCode.NOT_APPLIED, device=found.device, detail=detail)
