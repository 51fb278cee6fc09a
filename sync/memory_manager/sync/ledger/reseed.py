"""The original batches behind a row number, for a server that lost them (sync.md 9.5 ROLLBACK)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.ledger.outbox import Batch
from memory_manager.sync.ledger.sealed_rows import DEAD_WRAP
from memory_manager.sync.wire.envelope import SealedRow
from memory_manager.sync.wire.framing import LogRow, Signed
from memory_manager.sync.wire.log import unpack_checkpoint, unpack_entry

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection


def batches_after(connection: Connection, n: int) -> Iterator[Batch]:
    """Whole batches of one author each, in the order of the log, from position ``n`` + 1 on.

    Rows whose sealed copy was forgotten have an empty BODY and a WRAP of zeros. SyncRefused where
    a batch's checkpoint is not known: then only its author can send it.
    """
    while True:
        first = connection.execute("SELECT device, seq FROM entry WHERE n = ?", (n + 1,)).fetchone()
        if first is None:
            return
        batch = _batch(connection, n, *first)
        n += len(batch.rows)
        yield batch


def _batch(connection: Connection, n: int, device: bytes, seq: int) -> Batch:
    said = connection.execute(
        "SELECT document, signature FROM checkpoint WHERE device = ? AND seq >= ?"
        " ORDER BY seq LIMIT 1",
        (device, seq),
    ).fetchone()
    if said is None:
        raise SyncRefused(SyncCode.ROLLBACK, device=device, n=n + 1)
    checkpoint = Signed(unpack_checkpoint(said[0]), said[1])
    rows = connection.execute(
        "SELECT e.entry, ifnull(s.body, x''), ifnull(s.wrap, ?) FROM entry e"
        " LEFT JOIN sealed s ON s.entry_rowid = e.rowid"
        " WHERE e.device = ? AND e.seq BETWEEN ? AND ? ORDER BY e.seq",
        (DEAD_WRAP, device, seq, checkpoint.value.seq),
    )
    return Batch(
        checkpoint,
        tuple(LogRow(unpack_entry(entry), SealedRow(body, wrap)) for entry, body, wrap in rows),
    )
