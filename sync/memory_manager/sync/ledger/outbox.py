"""Own entries that no verified server head covers, in batches that never change once formed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from memory_manager.sync.ledger import state
from memory_manager.sync.ledger.state import SyncState
from memory_manager.sync.wire.envelope import SealedRow
from memory_manager.sync.wire.framing import (
    MAX_PUSH_BYTES,
    MAX_PUSH_ROWS,
    PUSH_FRAME_BYTES,
    ROW_FRAME_BYTES,
    LogRow,
    Signed,
)
from memory_manager.sync.wire.log import Checkpoint, unpack_checkpoint, unpack_entry

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """Rows for one push with the signed checkpoint of their author."""

    checkpoint: Signed[Checkpoint]
    rows: tuple[LogRow, ...]


def next_batch(
    transaction: Transaction,
    sign: Callable[[Checkpoint], bytes],
    *,
    max_rows: int = MAX_PUSH_ROWS,
    max_bytes: int = MAX_PUSH_BYTES,
) -> Batch | None:
    """The oldest unacknowledged rows; None when there are none or the device must enrol again.

    The batch's end and checkpoint are stored with the first call: until it is acknowledged every
    further call gives the same bytes. ``sign`` is ``wire.log.sign_checkpoint`` with our key.
    """
    connection = transaction.connection
    found = state.read_active(connection)
    if found is None:
        return None
    formed = connection.execute(
        "SELECT c.document, c.signature FROM checkpoint c WHERE c.device = ? AND c.seq >="
        " (SELECT seq FROM entry INDEXED BY entry_outbox WHERE n IS NULL AND device = ?"
        " ORDER BY seq LIMIT 1) ORDER BY c.seq LIMIT 1",
        (found.device, found.device),
    ).fetchone()
    if formed is not None:
        checkpoint = Signed(unpack_checkpoint(formed[0]), formed[1])
        return Batch(checkpoint, _rows(connection, found, checkpoint.value.seq))
    end = _end(connection, found, max_rows, max_bytes)
    if end is None:
        return None
    rows = _rows(connection, found, end)
    said = Checkpoint(found.vault, found.device, end, rows[-1].entry.head, found.n, found.g)
    signed = Signed(said, sign(said))
    connection.execute(
        "INSERT INTO checkpoint(device, seq, document, signature) VALUES(?, ?, ?, ?)",
        (found.device, end, said.pack(), signed.signature),
    )
    return Batch(signed, rows)


def count(connection: Connection) -> int:
    """How many own entries wait."""
    (number,) = connection.execute("SELECT count(*) FROM entry WHERE n IS NULL").fetchone()
    return int(number)


def _end(connection: Connection, found: SyncState, max_rows: int, max_bytes: int) -> int | None:
    """The last seq that fits into one push; a single row always does."""
    room, end = max_bytes - PUSH_FRAME_BYTES, None
    for seq, size in connection.execute(
        "SELECT e.seq, length(s.body) FROM entry e INDEXED BY entry_outbox"
        " JOIN sealed s ON s.entry_rowid = e.rowid"
        " WHERE e.n IS NULL AND e.device = ? ORDER BY e.seq LIMIT ?",
        (found.device, max_rows),
    ):
        room -= size + ROW_FRAME_BYTES
        if room < 0 and end is not None:
            break
        end = int(seq)
    return end


def _rows(connection: Connection, found: SyncState, end: int) -> tuple[LogRow, ...]:
    rows = connection.execute(
        "SELECT e.entry, s.body, s.wrap FROM entry e INDEXED BY entry_outbox"
        " JOIN sealed s ON s.entry_rowid = e.rowid"
        " WHERE e.n IS NULL AND e.device = ? AND e.seq <= ? ORDER BY e.seq",
        (found.device, end),
    )
    return tuple(LogRow(unpack_entry(entry), SealedRow(body, wrap)) for entry, body, wrap in rows)
