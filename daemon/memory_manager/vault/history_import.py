"""An archived memory with all its versions on its way back into the vault.

Every version passes the same limits and sanitizer as a new memory.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memory_manager.base.errors import InvalidInput
from memory_manager.base.identifiers import MemoryId
from memory_manager.vault import row_matching, row_writer
from memory_manager.vault.errors import Conflict
from memory_manager.vault.prepared_version import (
    DEFAULT_MEMORY_TYPE,
    PreparedVersion,
    contents_of_draft,
)
from memory_manager.vault.rows import ImportedVersion, MemoryDraft, RowStatus

if TYPE_CHECKING:
    from memory_manager.vault.transaction import Transaction


def prepare_history(
    transaction: Transaction, history: Sequence[ImportedVersion]
) -> list[PreparedVersion]:
    """Cleaned versions, oldest first. Conflict when a live memory holds the last one's key."""
    if not history:
        raise InvalidInput("An archived memory needs a version.", field="versions")
    if len({entry.draft.kind for entry in history}) > 1:
        raise InvalidInput("All versions of a record are of one kind.", field="versions")
    prepared = [_prepare(transaction, entry) for entry in history]
    last = prepared[-1].contents
    lives = history[-1].status is not RowStatus.DELETED
    if lives and row_matching.row_with_semantic_key(transaction.connection, last):
        raise Conflict("Another memory has this semantic key.", field="semantic_key")
    return prepared


def store_history(
    transaction: Transaction,
    memory_id: MemoryId,
    history: Sequence[ImportedVersion],
    prepared: Sequence[PreparedVersion],
    created_at_ms: int,
) -> int:
    """Write all versions of a new memory, numbered from 1, and return its rowid."""
    count = len(history)
    rowid = row_writer.insert_row(
        transaction,
        memory_id,
        prepared[0],
        action=history[0].action,
        status=history[0].status,
        created_at_ms=created_at_ms,
        written_at_ms=history[0].written_at_ms,
        erased=history[0].erased,
        holds_key=count == 1,
    )
    for number in range(2, count + 1):
        entry = history[number - 1]
        row_writer.add_version(
            transaction,
            rowid,
            number,
            prepared[number - 1],
            action=entry.action,
            status=entry.status,
            written_at_ms=entry.written_at_ms,
            erased=entry.erased,
            holds_key=number == count,
        )
    return rowid


def _prepare(transaction: Transaction, entry: ImportedVersion) -> PreparedVersion:
    if entry.erased:
        return _prepare_erased(transaction, entry)
    contents = contents_of_draft(entry.draft, DEFAULT_MEMORY_TYPE)
    return row_writer.prepare_for(transaction, contents, entry.writer, entry.reason)


def _prepare_erased(transaction: Transaction, entry: ImportedVersion) -> PreparedVersion:
    """As an erasure leaves a version: when, what kind and by whom, but no place and no text."""
    blank = MemoryDraft(
        content="", path="erased", memory_type=entry.draft.memory_type, kind=entry.draft.kind
    )
    contents = contents_of_draft(blank, DEFAULT_MEMORY_TYPE)
    prepared = row_writer.prepare_for(transaction, contents, entry.writer, entry.reason)
    nowhere = dataclasses.replace(prepared.contents, path="", bucket="")
    return dataclasses.replace(prepared, contents=nowhere)
