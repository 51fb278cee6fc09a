"""Putting an archive record back into the vault, version by version, through the one write path.

Every version passes the sanitizer and the indexers like any other write; only its time and its
writer come from the record. Works on the writer's transaction: a record arrives whole or not at all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from memory_manager.base.identifiers import MemoryId
from memory_manager.capture.records import MemoryRecord, RecordVersion, Writer
from memory_manager.vault import queries
from memory_manager.vault.memories import Memories
from memory_manager.vault.rows import (
    Attribution,
    ForgetMode,
    MemoryChange,
    MemoryDraft,
    MemoryRow,
    RowStatus,
    WriteOutcome,
    WriteStatus,
)
from memory_manager.vault.transaction import Transaction


@dataclasses.dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """What became of one record; ``redactions`` are rule ids that fired on any of its versions."""

    status: WriteStatus
    id: MemoryId
    versions: int
    redactions: tuple[str, ...]


def replay_record(
    transaction: Transaction, memories: Memories, record: MemoryRecord, importer: Attribution
) -> ReplayOutcome:
    """Store ``record`` with its history, times and writers; UNCHANGED if its id is known already.

    A record without id or history that says the same as a stored row is DEDUPLICATED. Raises what
    ``Memories`` raises; the caller's savepoint undoes the versions written before.
    """
    if record.id is not None:
        known = queries.get_row(transaction.connection, record.id, include_deleted=True)
        if known is not None:
            return ReplayOutcome(WriteStatus.UNCHANGED, known.id, known.version, ())
    replay = _Replay(transaction, memories, record, importer)
    first, *later = _history(record)
    outcome = replay.create(first)
    if outcome.status is not WriteStatus.CREATED:
        return ReplayOutcome(outcome.status, outcome.row.id, outcome.row.version, ())
    for version in later:
        replay.apply(version)
    replay.finish()
    return ReplayOutcome(
        WriteStatus.CREATED, replay.row.id, replay.row.version, tuple(dict.fromkeys(replay.fired))
    )


def _history(record: MemoryRecord) -> Iterator[RecordVersion]:
    """Versions to write, oldest first; one made from the record itself if it has none.

    Versions whose text a redaction removed have nothing to store: they are left out.
    """
    readable = [version for version in record.versions if version.content is not None]
    if readable:
        yield from readable
        return
    yield RecordVersion(
        action=WriteStatus.CREATED,
        content=record.content,
        path=record.path,
        memory_type=record.memory_type,
        metadata=record.metadata,
        writer=record.writer,
        written_at_ms=record.updated_at_ms or record.created_at_ms,
    )


class _Replay:
    """The state between two versions of one record."""

    def __init__(
        self,
        transaction: Transaction,
        memories: Memories,
        record: MemoryRecord,
        importer: Attribution,
    ) -> None:
        self._transaction = transaction
        self._memories = memories
        self._record = record
        self._importer = importer
        self._written: list[tuple[int, RecordVersion]] = []
        self.fired: list[str] = []
        self.row: MemoryRow

    def create(self, version: RecordVersion) -> WriteOutcome:
        record = self._record
        draft = MemoryDraft(
            content=version.content or "",
            path=version.path,
            bucket=record.bucket,
            scope=record.scope,
            memory_type=version.memory_type,
            importance=record.importance,
            confidence=record.confidence,
            source=record.source,
            metadata=version.metadata,
            provenance=record.provenance,
            semantic_key=record.semantic_key,
            expires_at_ms=record.expires_at_ms,
            dedupe=record.id is None and not record.versions,
            created_at_ms=record.created_at_ms or version.written_at_ms,
            id=record.id,
        )
        outcome = self._memories.remember(
            self._at(version.written_at_ms), draft, self._writer(version.writer)
        )
        self._keep(version, outcome)
        return outcome

    def apply(self, version: RecordVersion) -> None:
        transaction = self._at(version.written_at_ms)
        writer = self._writer(version.writer)
        if version.action is WriteStatus.DELETED:
            outcome = self._memories.forget(
                transaction, self.row.id, ForgetMode.SOFT_DELETE, writer, version.reason
            )
        elif version.action is WriteStatus.REDACTED:
            outcome = self._memories.forget(
                transaction,
                self.row.id,
                ForgetMode.REDACT,
                writer,
                version.reason,
                version.content,
            )
        elif version.action is WriteStatus.RESTORED:
            outcome = self._memories.restore(
                transaction, self.row.id, writer, self._earlier(version), version.reason
            )
        else:
            change = MemoryChange(
                content=version.content or "",
                path=version.path,
                memory_type=version.memory_type or self.row.memory_type,
                metadata=version.metadata,
            )
            outcome = self._memories.update(transaction, self.row.id, change, writer)
        self._keep(version, outcome)

    def finish(self) -> None:
        """The record's own text wins where it differs from its last version (an edited export)."""
        record, last = self._record, self._written[-1][1]
        if (record.content, record.path) == (last.content, last.path):
            return
        if record.status is not RowStatus.ACTIVE:
            return
        change = MemoryChange(content=record.content, path=record.path, metadata=record.metadata)
        outcome = self._memories.update(self._transaction, self.row.id, change, self._importer)
        self.fired.extend(outcome.row.redactions)
        self.row = outcome.row

    def _earlier(self, version: RecordVersion) -> int | None:
        """Number of the version that a restore brought back; None lets the store choose."""
        same = (version.content, version.path)
        return next(
            (
                number
                for number, known in reversed(self._written)
                if (known.content, known.path) == same and known.action is not WriteStatus.DELETED
            ),
            None,
        )

    def _keep(self, version: RecordVersion, outcome: WriteOutcome) -> None:
        self.row = outcome.row
        self.fired.extend(outcome.row.redactions)
        self._written.append((outcome.row.version, version))

    def _at(self, unix_ms: int | None) -> Transaction:
        return dataclasses.replace(self._transaction, now_ms=unix_ms or self._transaction.now_ms)

    def _writer(self, writer: Writer) -> Attribution:
        """The labels of the record, the credential of the import: nobody signs for another."""
        return dataclasses.replace(
            self._importer,
            identity=writer.identity,
            client=writer.client or self._importer.client,
        )
