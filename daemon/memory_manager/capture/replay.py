"""Putting an archive record back into the vault with its history, through the one write path.

Every version passes the sanitizer and the indexers like any other write; only its time and the
labels of its writer come from the record. Works on the writer's transaction: a record arrives whole
or not at all.
"""

from __future__ import annotations

import dataclasses

from memory_manager.base.identifiers import MemoryId
from memory_manager.capture.records import MemoryRecord, RecordVersion
from memory_manager.vault import queries
from memory_manager.vault.memories import Memories
from memory_manager.vault.rows import (
    Attribution,
    ImportedVersion,
    MemoryChange,
    MemoryDraft,
    MemoryRow,
    RecordKind,
    RowStatus,
    WriteOutcome,
    WriteStatus,
)
from memory_manager.vault.transaction import Transaction


@dataclasses.dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """What became of one record; ``redactions`` are the rule ids that fired on its last version."""

    status: WriteStatus
    id: MemoryId
    versions: int
    redactions: tuple[str, ...]


def replay_record(
    transaction: Transaction, memories: Memories, record: MemoryRecord, importer: Attribution
) -> ReplayOutcome:
    """Store ``record``, or what was edited in it since it was exported.

    CREATED for a new one, DEDUPLICATED for a record without history whose text is stored at the
    same place, UPDATED for a known id whose text was changed in the export while the vault's stood
    still, UNCHANGED for any other known id. Raises what ``Memories`` raises, Conflict for a
    destroyed id or a taken semantic key; the caller's savepoint then undoes the whole record.
    """
    if record.id is not None:
        known = queries.get_row(transaction.connection, record.id, include_deleted=True)
        if known is not None:
            return _onto_known(transaction, memories, record, known, importer)
    if not record.versions:
        return _outcome(
            memories.remember(transaction, _draft_of(record), _author(record, importer))
        )
    history = [_imported(version, record.kind, importer) for version in record.versions]
    stored = memories.import_history(
        transaction, history, memory_id=record.id, created_at_ms=record.created_at_ms
    )
    if stored.row.status is RowStatus.ACTIVE and _edited(record, record.versions[-1]):
        stored = _edit(transaction, memories, record, stored.row, importer)
        return dataclasses.replace(_outcome(stored), status=WriteStatus.CREATED)
    return _outcome(stored)


def _onto_known(
    transaction: Transaction,
    memories: Memories,
    record: MemoryRecord,
    known: MemoryRow,
    importer: Attribution,
) -> ReplayOutcome:
    based_on_current = record.updated_at_ms == known.updated_at_ms
    if known.status is RowStatus.ACTIVE and based_on_current and _edited(record, known):
        return _outcome(_edit(transaction, memories, record, known, importer))
    return ReplayOutcome(WriteStatus.UNCHANGED, known.id, known.version, ())


def _edited(record: MemoryRecord, before: RecordVersion | MemoryRow) -> bool:
    now = (record.content, record.path, dict(record.metadata))
    return now != (before.content, before.path, dict(before.metadata))


def _edit(
    transaction: Transaction,
    memories: Memories,
    record: MemoryRecord,
    row: MemoryRow,
    importer: Attribution,
) -> WriteOutcome:
    """The owner changed an exported file by hand: that is a new version of the owner's."""
    change = MemoryChange(content=record.content, path=record.path, metadata=record.metadata)
    return memories.update(transaction, row.id, change, importer)


def _outcome(written: WriteOutcome) -> ReplayOutcome:
    row = written.row
    fired = () if written.status is WriteStatus.DEDUPLICATED else row.redactions
    return ReplayOutcome(written.status, row.id, row.version, fired)


def _draft_of(record: MemoryRecord) -> MemoryDraft:
    return dataclasses.replace(
        _draft(record, record.kind),
        dedupe=record.id is None and record.kind is RecordKind.MEMORY,
        created_at_ms=record.created_at_ms,
        id=record.id,
    )


def _draft(source: MemoryRecord | RecordVersion, kind: RecordKind) -> MemoryDraft:
    return MemoryDraft(
        content=source.content or "",
        path=source.path,
        bucket=source.bucket,
        scope=source.scope,
        memory_type=source.memory_type,
        importance=source.importance,
        confidence=source.confidence,
        source=source.source,
        metadata=source.metadata,
        provenance=source.provenance,
        semantic_key=source.semantic_key,
        expires_at_ms=source.expires_at_ms,
        kind=kind,
        item=source.item,
    )


def _author(record: MemoryRecord, importer: Attribution) -> Attribution:
    """The record's own labels if it has any, else those of whoever imports it."""
    labels = record.writer
    if labels.identity.agent_id is None and labels.client is None:
        return importer
    return dataclasses.replace(importer, identity=labels.identity, client=labels.client)


def _imported(version: RecordVersion, kind: RecordKind, importer: Attribution) -> ImportedVersion:
    """A version with its own labels; the credential is always that of the import."""
    return ImportedVersion(
        action=version.action,
        draft=_draft(version, kind),
        writer=dataclasses.replace(
            importer, identity=version.writer.identity, client=version.writer.client
        ),
        written_at_ms=version.written_at_ms,
        status=version.status,
        reason=version.reason,
        erased=version.content is None,
    )
