"""From the revisions of a record to its row here: shown, deleted, destroyed, in conflict."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from memory_manager.base.identifiers import memory_id_from_bytes
from memory_manager.security.redact.ids import NOT_CHECKED
from memory_manager.security.redact.sanitize import KEEP_PERSONAL
from memory_manager.sync.ledger import claims, payload_rows, revisions, sealed_rows
from memory_manager.sync.ledger.merging import Edit, shown
from memory_manager.sync.wire.envelope import Dot
from memory_manager.sync.wire.payload import Payload
from memory_manager.sync.wire.versions import Current, Revision
from memory_manager.vault import queries
from memory_manager.vault.incoming_rows import IncomingRow
from memory_manager.vault.memories import Memories
from memory_manager.vault.prepared_version import RowContents, contents_of_stored
from memory_manager.vault.rows import MemoryRow, WriteStatus
from memory_manager.vault.second_pass import cleaned
from memory_manager.vault.settings import personal_data

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction


@dataclasses.dataclass(frozen=True, slots=True)
class Opened:
    """A revision that was just opened, and the row it describes where that was read too."""

    dot: Dot
    payload: Payload
    row: IncomingRow | None


def settle(
    transaction: Transaction, memories: Memories, record_id: bytes, record: bytes, opened: Opened
) -> None:
    """Make the row here what the known revisions say. ``opened`` saves opening it again.

    Raises what ``Memories.apply`` does, and RowRefused for a payload that is no row.
    """
    connection = transaction.connection
    forgets = revisions.has_forget(connection, record_id)
    now = revisions.current(connection, record_id, forgets=forgets)
    if forgets:
        remove_forgotten(transaction, record_id, now)
    connection.execute(
        "INSERT INTO sync_record(id, record, version) VALUES(?, ?, 0) ON CONFLICT DO NOTHING",
        (record_id, record),
    )
    before = claims.of_record(connection, record_id)
    found_here: MemoryRow | None = None
    if now.winner is None:
        _take_away(transaction, memories, record_id, now, opened.payload)
    else:
        found_here = _show(transaction, memories, record_id, now, opened)
    if before is not None and before != claims.of_record(connection, record_id):
        claims.reassign(transaction, memories, before)
    note_version(connection, record_id)
    if found_here is not None:
        memories.tell_cleaned(transaction, found_here)


def show_beside(transaction: Transaction, memories: Memories, record_id: bytes) -> MemoryRow | None:
    """After an own revision: the row as every other device comes to show it, where others stay
    beside the revision that wait for the owner's word. None where none do.
    """
    connection = transaction.connection
    if not revisions.undecided(connection, record_id):
        return None
    _show(transaction, memories, record_id, revisions.current(connection, record_id))
    note_version(connection, record_id)
    return queries.get_row(connection, memory_id_from_bytes(record_id))


def note_version(connection: Connection, record_id: bytes) -> None:
    """The revisions speak for the version that the record has now."""
    connection.execute(
        "UPDATE sync_record SET version = ifnull("
        " (SELECT version FROM record WHERE id = sync_record.id), 0) WHERE id = ?",
        (record_id,),
    )


def remove_forgotten(transaction: Transaction, record_id: bytes, now: Current) -> None:
    """Every sealed row of a forgotten record goes, but for what was written knowing of it."""
    connection = transaction.connection
    kept = {edit.dot for edit in now.siblings}
    held = sealed_rows.of_edits(connection, "id", record_id)
    sealed_rows.remove(connection, (dot for dot in held if dot not in kept))
    if not kept:
        for name in revisions.names(connection, record_id):
            sealed_rows.remove_record(connection, name)
    transaction.request_checkpoint()


def _take_away(
    transaction: Transaction,
    memories: Memories,
    record_id: bytes,
    now: Current,
    last: Payload,
) -> None:
    connection = transaction.connection
    claims.note(connection, record_id, None, None)
    connection.execute("DELETE FROM sibling WHERE id = ?", (record_id,))
    memory_id = memory_id_from_bytes(record_id)
    if now.forgotten:
        memories.apply_destruction(transaction, memory_id)
        return
    _keep_last_text(transaction, memories, record_id)
    writer = payload_rows.writer_of(last)
    at_ms = payload_rows.deleted_at(last)
    memories.apply_deletion(
        transaction, memory_id, writer, transaction.now_ms if at_ms is None else at_ms
    )


def _keep_last_text(transaction: Transaction, memories: Memories, record_id: bytes) -> None:
    """Where several devices deleted a record, each after a change of its own, the trash holds the
    latest change, whichever was heard of first.
    """
    connection = transaction.connection
    if len(revisions.maximal(connection, record_id)) < 2:
        return
    here = queries.get_row(connection, memory_id_from_bytes(record_id), include_deleted=True)
    latest = revisions.latest_edit(connection, record_id)
    payload = None if latest is None else sealed_rows.payload_of(connection, latest.dot)
    if here is None or payload is None:
        return
    row = dataclasses.replace(payload_rows.read_row(payload), id=here.id, holds_key=False)
    if cleaned(row.contents) != contents_of_stored(here):
        memories.apply(transaction, row)


def _show(
    transaction: Transaction,
    memories: Memories,
    record_id: bytes,
    now: Current,
    opened: Opened | None = None,
) -> MemoryRow | None:
    """The row, where the sanitizer took something out of what the other devices show."""
    connection = transaction.connection
    edits = edits_of(connection, now, opened)
    if not edits:
        return None
    found = shown(edits, _base(connection, record_id, [edit.revision for edit in edits]))
    # all current revisions speak of one record, whatever their payloads call it
    row = dataclasses.replace(found.row, id=memory_id_from_bytes(record_id))
    holds = claims.take(transaction, memories, record_id, row.contents, edits[0].revision)
    outcome = memories.apply(transaction, dataclasses.replace(row, holds_key=holds))
    if outcome.status is WriteStatus.UNCHANGED and row.contents.semantic_key:
        memories.set_key(transaction, outcome.row.id, holds=holds)
    connection.execute("DELETE FROM sibling WHERE id = ?", (record_id,))
    connection.executemany(
        "INSERT INTO sibling(device, seq, id) VALUES(?, ?, ?)",
        [
            (edit.revision.dot.device, edit.revision.dot.seq, record_id)
            for edit in found.conflicting
        ],
    )
    written = outcome.status is not WriteStatus.UNCHANGED
    return outcome.row if written and _is_for_all(connection, outcome.row, row) else None


def _is_for_all(connection: Connection, row: MemoryRow, incoming: IncomingRow) -> bool:
    """Whether what the sanitizer took out is nobody's to keep; what only the settings for personal
    data of this device name stays on the others, and so does what could not be checked here.
    """
    if not row.redactions or not NOT_CHECKED.isdisjoint(row.redactions):
        return False
    if personal_data(connection) != KEEP_PERSONAL:
        return False
    return cleaned(incoming.contents) != incoming.contents


def edits_of(connection: Connection, now: Current, opened: Opened | None = None) -> list[Edit]:
    """The current revisions that open, the winner first."""
    edits: list[Edit] = []
    for revision in now.siblings[: revisions.MAX_SIDES]:
        if opened is not None and opened.dot == revision.dot:
            edits.append(Edit(revision, opened.row or payload_rows.read_row(opened.payload)))
            continue
        payload = sealed_rows.payload_of(connection, revision.dot)
        if payload is not None:
            edits.append(Edit(revision, payload_rows.read_row(payload)))
    return edits


def _base(connection: Connection, record_id: bytes, siblings: list[Revision]) -> RowContents | None:
    if len(siblings) < 2:
        return None
    dot = revisions.readable_base(connection, record_id, siblings)
    payload = None if dot is None else sealed_rows.payload_of(connection, dot)
    if payload is None or "content" not in payload.fields:
        return None
    return payload_rows.read_row(payload).contents
