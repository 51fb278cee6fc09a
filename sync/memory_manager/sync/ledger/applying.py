"""One opened row of another device into graph, clock and record."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING

from memory_manager.base.errors import MemlocketError
from memory_manager.sync.errors import RowRefused, SyncCode
from memory_manager.sync.ledger import copies, device_names, payload_rows, revisions, sealed_rows
from memory_manager.sync.ledger.breaker import Losses
from memory_manager.sync.ledger.journal import seal_missed
from memory_manager.sync.ledger.sealed_rows import OpeningKeys
from memory_manager.sync.ledger.settling import Opened, settle
from memory_manager.sync.ledger.state import SyncState
from memory_manager.sync.wire import versions
from memory_manager.sync.wire.envelope import Dot, SealedRow, is_indexable
from memory_manager.sync.wire.payload import DeletionMode, HybridTime, Kind, Payload
from memory_manager.sync.wire.versions import Revision
from memory_manager.vault.connection import is_write_failure
from memory_manager.vault.incoming_rows import IncomingRow
from memory_manager.vault.memories import Memories
from memory_manager.vault.savepoint import all_or_nothing

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction


def apply_row(
    transaction: Transaction,
    memories: Memories,
    keys: OpeningKeys,
    found: SyncState,
    dot: Dot,
    row: SealedRow,
    losses: Losses,
) -> None:
    """Open a row and make its record here what the revisions say with it.

    RowRefused with the first failure of sync.md 3.3, or NOT_APPLIED when the vault's own rules
    refuse what it says: then its revision is known, and the record shows what it showed.
    """
    connection = transaction.connection
    if not row.body:
        raise RowRefused(SyncCode.ROW_AUTH)
    opened, payload = keys.payload(row, found.vault, dot, found.min_epoch)
    record, record_id = opened.header.record, _record_of(payload, opened.header.record)
    said: IncomingRow | None = None
    is_copy = record_id is None and "copy_of" in payload.fields
    if payload.kind in (Kind.MEMORY, Kind.RESOLVE) and not is_copy:
        said = payload_rows.read_row(payload)
    time = HybridTime(payload.time.ms, payload.time.counter, dot.device.hex())
    if record_id is not None and payload.mode is not DeletionMode.FORGET:
        seal_missed(transaction, record_id)
    if not revisions.is_known(connection, dot):
        leads = _observe(connection, time, transaction.now_ms)
        revisions.add(
            connection,
            Revision(
                dot,
                _earlier(connection, dot, payload.parents),
                time,
                payload.mode,
                cleans=payload.cleans,
                redacts=payload_rows.is_redacted(payload.fields),
            ),
            record=record,
            record_id=record_id,
            kind=payload.kind.value,
            leads=leads,
        )
    if payload.kind is Kind.ROSTER_MARK:
        device_names.learn(transaction, dot.device, payload.fields)
    if record_id is None:
        _apply_copy(connection, payload, record)
        return
    losses.note(connection, record_id)
    _remove_redacted(transaction, record_id)
    with _all_or_nothing(transaction):
        settle(transaction, memories, record_id, record, Opened(dot, payload, said))
    _retire_cleaned(connection, record_id, dot, payload)


def _record_of(payload: Payload, record: bytes) -> bytes | None:
    """The record here that a row speaks of; None for marks and indexable copies."""
    if payload.kind is Kind.ROSTER_MARK or is_indexable(record):
        return None
    record_id = payload_rows.id_of(payload)
    if record_id is None:
        raise RowRefused(SyncCode.ROW_FORMAT)
    return record_id


def _earlier(connection: Connection, dot: Dot, parents: Iterable[Dot]) -> frozenset[Dot]:
    """Those of the named revisions that stand before ``dot`` in the log. Nobody knows a later one,
    and a circle of revisions would leave none that counts.
    """
    (n,) = connection.execute(
        "SELECT n FROM entry WHERE device = ? AND seq = ?", (dot.device, dot.seq)
    ).fetchone()
    return frozenset(
        parent
        for parent in parents
        if connection.execute(
            "SELECT 1 FROM entry WHERE device = ? AND seq = ? AND n < ?",
            (parent.device, parent.seq, n),
        ).fetchone()
    )


def _observe(connection: Connection, time: HybridTime, now_ms: int) -> bool:
    """Let our clock follow a remote time, within its limit; whether that time leads too far."""
    ms, counter = connection.execute("SELECT clock_ms, clock_counter FROM sync_state").fetchone()
    clock, leads = versions.observed(HybridTime(ms, counter, ""), time, now_ms)
    if (clock.ms, clock.counter) != (ms, counter):
        connection.execute(
            "UPDATE sync_state SET clock_ms = ?, clock_counter = ?", (clock.ms, clock.counter)
        )
    return leads


def _remove_redacted(transaction: Transaction, record_id: bytes) -> None:
    """A redaction takes the sealed rows that it descends from along, early or late.

    One that waits for its key stays until it was opened: only then is known what it superseded. An
    own one that was not sent yet stays until then as it is: it tells what it superseded, too.
    """
    if sealed_rows.retire_redacted(transaction.connection, record_id):
        transaction.request_checkpoint()


def _retire_cleaned(connection: Connection, record_id: bytes, dot: Dot, payload: Payload) -> None:
    """What a record said before it was cleaned stays on no device, early or late."""
    sealed_rows.retire_past(connection, record_id)
    if payload.cleans:
        sealed_rows.release_dead(connection, revisions.ancestors(connection, dot))


def _apply_copy(connection: Connection, payload: Payload, record: bytes) -> None:
    if payload.kind is Kind.TOMBSTONE:
        copies.remove_copy(connection, record)
        return
    original = payload.fields.get("copy_of")
    if isinstance(original, str):
        with contextlib.suppress(ValueError):
            connection.execute(
                "INSERT OR IGNORE INTO sync_copy(record, original) VALUES(?, ?)",
                (record, bytes.fromhex(original)),
            )


@contextlib.contextmanager
def _all_or_nothing(transaction: Transaction) -> Generator[None]:
    """A row that the vault refuses leaves no trace but its quarantine."""
    import sqlcipher3.dbapi2 as sqlcipher

    try:
        with all_or_nothing(transaction):
            yield
    except RowRefused:
        raise
    except (MemlocketError, sqlcipher.IntegrityError, ValueError) as error:
        if is_write_failure(error) or not transaction.connection.in_transaction:
            raise
        raise RowRefused(SyncCode.NOT_APPLIED) from None
