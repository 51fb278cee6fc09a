"""A version that another device of the owner wrote, on its way into this vault.

It passes the same sanitizer as everything else; times and labels are the other device's. Contract:
sync.md 5, vault.md 8.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from memory_manager.base.identifiers import MemoryId, memory_id_bytes
from memory_manager.vault import queries, row_writer
from memory_manager.vault.errors import Conflict
from memory_manager.vault.prepared_version import PreparedVersion, RowContents, contents_of_stored
from memory_manager.vault.rows import Attribution, MemoryRow, RowStatus, WriteStatus

if TYPE_CHECKING:
    from memory_manager.vault.transaction import Transaction


@dataclasses.dataclass(frozen=True, slots=True)
class IncomingRow:
    """What a record says from now on. ``status`` is active or redacted; a redacted one takes the
    text of all earlier versions along. ``holds_key`` is False while another record holds the key.
    """

    id: MemoryId
    contents: RowContents = dataclasses.field(repr=False)
    status: RowStatus
    writer: Attribution
    created_at_ms: int
    written_at_ms: int
    holds_key: bool = True


def prepare(transaction: Transaction, incoming: IncomingRow) -> PreparedVersion:
    """Cleaned values. Texts were measured where they were written, and cleaning may have made
    them longer since; mappings are measured again.
    """
    measured = dataclasses.replace(incoming.contents, metadata={}, provenance={})
    return row_writer.prepare_for(
        transaction, incoming.contents, incoming.writer, accepted=measured
    )


def store(
    transaction: Transaction,
    incoming: IncomingRow,
    prepared: PreparedVersion,
    row: MemoryRow | None,
) -> tuple[int, WriteStatus]:
    """Write it as a new record or as the next version of ``row``: rowid and what was done.

    UNCHANGED when the row says so already; Conflict for a record of another kind.
    """
    if row is None:
        transaction.connection.execute(
            "DELETE FROM destroyed WHERE id = ?", (memory_id_bytes(incoming.id),)
        )
        rowid = row_writer.insert_row(
            transaction,
            incoming.id,
            prepared,
            status=incoming.status,
            created_at_ms=incoming.created_at_ms,
            written_at_ms=incoming.written_at_ms,
            holds_key=incoming.holds_key,
        )
        return rowid, WriteStatus.CREATED
    if row.kind is not prepared.contents.kind:
        raise Conflict("The record is of another kind here.", field="kind")
    if is_as(transaction, row, incoming, prepared.contents):
        return row.rowid, WriteStatus.UNCHANGED
    if row.created_at_ms != incoming.created_at_ms:  # two devices had made it, each by itself
        row_writer.set_created(transaction, row.rowid, incoming.created_at_ms)
    action = WriteStatus.UPDATED
    if incoming.status is RowStatus.REDACTED:
        row_writer.erase_versions(transaction, row)
        action = WriteStatus.REDACTED
    elif row.status is RowStatus.DELETED:
        action = WriteStatus.RESTORED
    row_writer.add_version(
        transaction,
        row.rowid,
        row.version + 1,
        prepared,
        action=action,
        status=incoming.status,
        written_at_ms=incoming.written_at_ms,
        holds_key=incoming.holds_key,
    )
    return row.rowid, action


def is_as(
    transaction: Transaction, row: MemoryRow, incoming: IncomingRow, contents: RowContents
) -> bool:
    """Whether ``row`` is that revision already, its key held or not."""
    same_times = (row.created_at_ms, row.updated_at_ms) == (
        incoming.created_at_ms,
        incoming.written_at_ms,
    )
    if row.status is not incoming.status or not same_times:
        return False
    current = queries.version(transaction.connection, row.rowid, row.version)
    return current is not None and contents_of_stored(current) == contents


def set_key(transaction: Transaction, row: MemoryRow, *, holds: bool) -> None:
    """Let a live row hold the semantic key that its version names, or not."""
    current = queries.version(transaction.connection, row.rowid, row.version)
    key = current.semantic_key if holds and current is not None else None
    row_writer.set_key(transaction, row.rowid, key)
