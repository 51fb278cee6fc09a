"""Copies of records under an indexable name: what an opt-in makes and an opt-out takes back.

A copy is a record of its own on the wire and none here: the row it was made from stays the one that
recall shows. Contract: sync.md 6.1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from memory_manager.base.errors import NotFound
from memory_manager.base.identifiers import MemoryId, memory_id_bytes, memory_id_from_bytes
from memory_manager.sync.ledger import own_log, payload_rows, sealed_rows, state
from memory_manager.sync.ledger.own_log import Said
from memory_manager.sync.ledger.state import SyncState
from memory_manager.sync.wire.envelope import Dot, Policy
from memory_manager.sync.wire.payload import DeletionMode, Kind
from memory_manager.vault import queries

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

_CURRENT: Final = (
    "SELECT device, seq FROM revision WHERE record = ? AND superseded = 0 ORDER BY device, seq"
)


@dataclasses.dataclass(frozen=True, slots=True)
class SealedCopy:
    """``record`` has the class bit set; ``dot`` is the revision that a grant covers."""

    record: bytes
    dot: Dot


def seal_copy(
    transaction: Transaction,
    memory_id: MemoryId,
    describe: Callable[[bytes, Dot], Mapping[str, Any]],
) -> SealedCopy:
    """Seal what a live record says now as a new indexable record. NotFound; LookupError when sync
    is off or must be enrolled again.

    ``describe`` gets the copy's record id and the dot it will have, and gives what the copy says
    beside, or instead of, the members of the record: the grant that covers exactly this revision.
    """
    connection = transaction.connection
    row = queries.get_row(connection, memory_id)
    original = record_of(connection, memory_id)
    if row is None or original is None:
        raise NotFound
    found, record = state.require_active(connection), own_log.new_record(indexed=True)
    dot = Dot(found.device, found.own_seq + 1)
    fields = {k: v for k, v in payload_rows.fields_of(row).items() if k != "id"}
    said = Said(
        Kind.MEMORY,
        {**fields, **describe(record, dot), "copy_of": original.hex()},
        record,
        None,
        policy=Policy.INDEXED,
    )
    _, revision = own_log.append(transaction, found, said)
    if revision.dot != dot:
        raise LookupError("the log went on while a copy was described")
    connection.execute("INSERT INTO sync_copy(record, original) VALUES(?, ?)", (record, original))
    return SealedCopy(record, dot)


def retract_copy(transaction: Transaction, record: bytes) -> None:
    """Tombstone a copy (``forget``) and remove its sealed rows. Nothing for one that is gone."""
    _retract(transaction, state.require_active(transaction.connection), record)


def forget_copies_of(transaction: Transaction, found: SyncState, original: bytes) -> None:
    """What was made from a forgotten record is forgotten with it."""
    rows = transaction.connection.execute(
        "SELECT record FROM sync_copy WHERE original = ?", (original,)
    ).fetchall()
    for (record,) in rows:
        found = _retract(transaction, found, record)


def copies_of(connection: Connection, memory_id: MemoryId) -> list[bytes]:
    """The indexable records made from this one, on any device."""
    rows = connection.execute(
        "SELECT c.record FROM sync_copy c JOIN revision v ON v.record = c.original"
        " WHERE v.id = ? GROUP BY c.record",
        (memory_id_bytes(memory_id),),
    )
    return [record for (record,) in rows]


def original_of(connection: Connection, record: bytes) -> MemoryId | None:
    """The record here that a copy was made from: an index hit takes its text from it."""
    found = connection.execute(
        "SELECT v.id FROM sync_copy c JOIN revision v ON v.record = c.original"
        " WHERE c.record = ? AND v.id IS NOT NULL LIMIT 1",
        (record,),
    ).fetchone()
    return None if found is None else memory_id_from_bytes(found[0])


def record_of(connection: Connection, memory_id: MemoryId) -> bytes | None:
    """The name of a record on the wire; None while it was not sealed."""
    found = connection.execute(
        "SELECT record FROM sync_record WHERE id = ?", (memory_id_bytes(memory_id),)
    ).fetchone()
    return None if found is None else found[0]


def _retract(transaction: Transaction, found: SyncState, record: bytes) -> SyncState:
    connection = transaction.connection
    known = connection.execute("SELECT 1 FROM sync_copy WHERE record = ?", (record,)).fetchone()
    return found if known is None else retract_again(transaction, found, record)


def retract_again(transaction: Transaction, found: SyncState, record: bytes) -> SyncState:
    """The tombstone of a copy that is known or was."""
    connection = transaction.connection
    parents = tuple(Dot(*row) for row in connection.execute(_CURRENT, (record,)))
    said = Said(
        Kind.TOMBSTONE,
        {"mode": DeletionMode.FORGET.value},
        record,
        None,
        policy=Policy.TOMBSTONE,
        parents=parents,
        deletion=DeletionMode.FORGET,
    )
    found, _ = own_log.append(transaction, found, said)
    remove_copy(connection, record)
    return found


def remove_copy(connection: Connection, record: bytes) -> None:
    """A copy was retracted, here or elsewhere."""
    sealed_rows.remove_record(connection, record)
    connection.execute("DELETE FROM sync_copy WHERE record = ?", (record,))
