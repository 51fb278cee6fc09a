"""Records with several current revisions: shown by the winner, decided by the owner (sync.md 5)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from memory_manager.base.errors import NotFound
from memory_manager.base.identifiers import MemoryId, memory_id_from_bytes
from memory_manager.sync.ledger import payload_rows, revisions, settling, state
from memory_manager.sync.ledger.journal import seal_version
from memory_manager.sync.wire.envelope import Dot
from memory_manager.sync.wire.payload import Kind
from memory_manager.vault import queries, row_matching, row_writer
from memory_manager.vault.errors import Conflict
from memory_manager.vault.incoming_rows import IncomingRow
from memory_manager.vault.memories import Memories
from memory_manager.vault.prepared_version import RowContents, contents_of_stored
from memory_manager.vault.row_changes import changed_contents
from memory_manager.vault.row_codec import parse_memory_id
from memory_manager.vault.rows import (
    Attribution,
    MemoryChange,
    RowStatus,
    WriteOutcome,
    WriteStatus,
)
from memory_manager.vault.second_pass import cleaned

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction


@dataclasses.dataclass(frozen=True, slots=True)
class Sibling:
    """One of several current revisions; ``contents``, under the present rules of the sanitizer, is
    None while its row does not open.
    """

    dot: Dot
    is_winner: bool
    at_ms: int  # of the author's clock
    writer: Attribution
    contents: RowContents | None = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class ConflictedRecord:
    id: MemoryId
    siblings: tuple[Sibling, ...]  # the winner first


def count(connection: Connection) -> int:
    """How many records wait for a decision."""
    (number,) = connection.execute("SELECT count(DISTINCT id) FROM sibling").fetchone()
    return int(number)


def listed(connection: Connection, *, limit: int = 100, offset: int = 0) -> list[ConflictedRecord]:
    """Records in conflict, by id."""
    rows = connection.execute(
        "SELECT DISTINCT id FROM sibling ORDER BY id LIMIT ? OFFSET ?", (limit, offset)
    ).fetchall()
    return [_record(connection, record_id) for (record_id,) in rows]


def of_record(connection: Connection, memory_id: MemoryId) -> ConflictedRecord | None:
    """None when the record is not in conflict."""
    record_id = parse_memory_id(memory_id)
    if record_id is None or not revisions.undecided(connection, record_id):
        return None
    return _record(connection, record_id)


def keep(
    transaction: Transaction,
    memories: Memories,
    memory_id: MemoryId,
    dot: Dot,
    writer: Attribution,
) -> WriteOutcome:
    """Make this revision the only one. NotFound when the record or the revision is not there,
    Conflict while this device must enrol again.
    """
    record = of_record(transaction.connection, memory_id)
    chosen = next((s for s in record.siblings if s.dot == dot), None) if record else None
    if chosen is None or chosen.contents is None:
        raise NotFound
    return _resolve(transaction, memories, memory_id, chosen.contents, writer)


def merge(
    transaction: Transaction,
    memories: Memories,
    memory_id: MemoryId,
    change: MemoryChange,
    writer: Attribution,
) -> WriteOutcome:
    """Make the winner with ``change`` the only revision. NotFound when there is no conflict,
    Conflict while this device must enrol again.
    """
    connection = transaction.connection
    row = queries.get_row(connection, memory_id)
    if row is None or of_record(connection, memory_id) is None:
        raise NotFound
    contents = changed_contents(row, change)
    prepared = row_writer.prepare_for(
        transaction, contents, writer, accepted=contents_of_stored(row)
    )
    return _resolve(transaction, memories, memory_id, prepared.contents, writer)


def _resolve(
    transaction: Transaction,
    memories: Memories,
    memory_id: MemoryId,
    contents: RowContents,
    writer: Attribution,
) -> WriteOutcome:
    connection = transaction.connection
    found = state.read_active(connection)
    if found is None:
        raise Conflict("This device must join its vault again before it can decide.")
    row = queries.get_row(connection, memory_id)
    if row is None:
        raise NotFound
    holder = row_matching.row_with_semantic_key(connection, contents)
    incoming = IncomingRow(
        memory_id,
        contents,
        RowStatus.ACTIVE,
        writer,
        row.created_at_ms,
        max(transaction.now_ms, row.updated_at_ms),
        holds_key=holder is None or holder.rowid == row.rowid,
    )
    after = memories.apply(transaction, incoming).row
    seal_version(memories, transaction, found, after, WriteStatus.UPDATED, kind=Kind.RESOLVE)
    return WriteOutcome(WriteStatus.UPDATED, after)


def _record(connection: Connection, record_id: bytes) -> ConflictedRecord:
    now = revisions.current(connection, record_id)
    undecided = revisions.undecided(connection, record_id)
    edits = {edit.revision.dot: edit for edit in settling.edits_of(connection, now)}
    siblings = [
        Sibling(
            revision.dot,
            position == 0,
            revision.time.ms,
            edits[revision.dot].row.writer if revision.dot in edits else payload_rows.NOBODY,
            cleaned(edits[revision.dot].row.contents) if revision.dot in edits else None,
        )
        for position, revision in enumerate(now.siblings)
        if position == 0 or revision.dot in undecided
    ]
    return ConflictedRecord(memory_id_from_bytes(record_id), tuple(siblings))
