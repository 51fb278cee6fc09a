"""One memory with its history as a value that leaves and enters the vault: the archive record.

The JSON form is what ``export`` writes and ``import`` reads, one object per line. Pure: no file, no
database, no clock. Times are UTC milliseconds inside and RFC 3339 in JSON.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from memory_manager.base.errors import InvalidInput
from memory_manager.base.identifiers import MemoryId
from memory_manager.base.times import rfc3339
from memory_manager.capture.errors import InvalidRecord
from memory_manager.capture.fields import Document, Fields, Writer
from memory_manager.vault.rows import (
    DEFAULT_BUCKET,
    JsonValue,
    MemoryRow,
    MemoryType,
    MemoryVersion,
    RecordKind,
    RowStatus,
    WriteStatus,
)

RECORD_KIND = "memory"
RECORD_SCHEMA = 1
DEFAULT_PATH = "imported"
STORED_ACTIONS = tuple(  # the others leave no version behind
    status
    for status in WriteStatus
    if status not in (WriteStatus.DEDUPLICATED, WriteStatus.UNCHANGED)
)


@dataclasses.dataclass(frozen=True, slots=True)
class RecordVersion:
    """One version of a memory; ``content`` None means that a redaction removed it."""

    action: WriteStatus
    content: str | None = dataclasses.field(repr=False)
    path: str = dataclasses.field(repr=False)
    memory_type: MemoryType
    written_at_ms: int
    status: RowStatus = RowStatus.ACTIVE
    bucket: str = DEFAULT_BUCKET
    scope: str | None = None
    importance: float | None = None
    confidence: float | None = None
    source: str | None = None
    metadata: Document = dataclasses.field(default_factory=dict[str, JsonValue], repr=False)
    provenance: Document = dataclasses.field(default_factory=dict[str, JsonValue], repr=False)
    semantic_key: str | None = dataclasses.field(default=None, repr=False)
    expires_at_ms: int | None = None
    item: Document = dataclasses.field(default_factory=dict[str, JsonValue], repr=False)
    writer: Writer = dataclasses.field(default_factory=Writer)
    reason: str | None = dataclasses.field(default=None, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryRecord:
    """The current state of one memory and, oldest first, how it came to be.

    ``kind`` and ``item`` are those of the vault's rows: reminders, events and the like are records
    too. Times inside ``item`` stay milliseconds; their names say so.

    ``versions`` is empty for a record from elsewhere; times are None when the source has none.
    ``memory_type`` None leaves the choice to the store.
    """

    content: str = dataclasses.field(repr=False)
    path: str = dataclasses.field(repr=False)
    id: MemoryId | None = None
    bucket: str = DEFAULT_BUCKET
    scope: str | None = None
    memory_type: MemoryType | None = None
    status: RowStatus = RowStatus.ACTIVE
    importance: float | None = None
    confidence: float | None = None
    source: str | None = None
    metadata: Document = dataclasses.field(default_factory=dict[str, JsonValue], repr=False)
    provenance: Document = dataclasses.field(default_factory=dict[str, JsonValue], repr=False)
    semantic_key: str | None = dataclasses.field(default=None, repr=False)
    expires_at_ms: int | None = None
    kind: RecordKind = RecordKind.MEMORY
    item: Document = dataclasses.field(default_factory=dict[str, JsonValue], repr=False)
    created_at_ms: int | None = None
    updated_at_ms: int | None = None
    writer: Writer = dataclasses.field(default_factory=Writer)
    versions: tuple[RecordVersion, ...] = ()


def record_from_row(row: MemoryRow, versions: Sequence[MemoryVersion]) -> MemoryRecord:
    """The archive record of a stored row and its versions in ascending order."""
    return MemoryRecord(
        id=row.id,
        content=row.content,
        path=row.path,
        bucket=row.bucket,
        scope=row.scope,
        memory_type=row.memory_type,
        status=row.status,
        importance=row.importance,
        confidence=row.confidence,
        source=row.source,
        metadata=row.metadata,
        provenance=row.provenance,
        semantic_key=row.semantic_key,
        expires_at_ms=row.expires_at_ms,
        kind=row.kind,
        item=row.item,
        created_at_ms=row.created_at_ms,
        updated_at_ms=row.updated_at_ms,
        writer=Writer(row.writer.identity, row.writer.client),
        versions=tuple(_version_from_row(version) for version in versions),
    )


def _version_from_row(version: MemoryVersion) -> RecordVersion:
    return RecordVersion(
        action=version.action,
        content=version.content,
        path=version.path,
        memory_type=version.memory_type,
        written_at_ms=version.written_at_ms,
        status=version.status,
        bucket=version.bucket,
        scope=version.scope,
        importance=version.importance,
        confidence=version.confidence,
        source=version.source,
        metadata=version.metadata,
        provenance=version.provenance,
        semantic_key=version.semantic_key,
        expires_at_ms=version.expires_at_ms,
        item=version.item,
        writer=Writer(version.writer.identity, version.writer.client),
        reason=version.reason,
    )


def record_as_json(record: MemoryRecord) -> dict[str, JsonValue]:
    """The JSON object of a record; ``parse_record`` gives back an equal record."""
    return {
        "memlocket": RECORD_KIND,
        "schema": RECORD_SCHEMA,
        "id": record.id,
        "kind": record.kind,
        **_common_json(record),
        "created_at": _optional_time(record.created_at_ms),
        "updated_at": _optional_time(record.updated_at_ms),
        "versions": [_version_as_json(version) for version in record.versions],
    }


def _version_as_json(version: RecordVersion) -> dict[str, JsonValue]:
    return {
        "action": version.action,
        "written_at": rfc3339(version.written_at_ms),
        "reason": version.reason,
        **_common_json(version),
    }


def _common_json(part: MemoryRecord | RecordVersion) -> dict[str, JsonValue]:
    """What a row and each of its versions have in common."""
    return {
        "content": part.content,
        "path": part.path,
        "bucket": part.bucket,
        "scope": part.scope,
        "memory_type": part.memory_type,
        "status": part.status,
        "importance": part.importance,
        "confidence": part.confidence,
        "source": part.source,
        "metadata": dict(part.metadata),
        "provenance": dict(part.provenance),
        "semantic_key": part.semantic_key,
        "expires_at": _optional_time(part.expires_at_ms),
        **({"item": dict(part.item)} if part.item else {}),
        "writer": _writer_as_json(part.writer),
    }


def _writer_as_json(writer: Writer) -> dict[str, JsonValue]:
    return {
        "agent_id": writer.identity.agent_id,
        "agent_instance": writer.identity.instance_hash,
        "client": writer.client,
    }


def _optional_time(unix_ms: int | None) -> str | None:
    return None if unix_ms is None else rfc3339(unix_ms)


def parse_record(document: Document, default_path: str = DEFAULT_PATH) -> MemoryRecord:
    """A record from its JSON form, or from a foreign object that at least has a text.

    Foreign objects may call the text ``text`` or ``memory`` and may carry ``tags``; unknown keys
    are ignored. Raises InvalidRecord, which names the field and never shows its value.
    """
    if document.get("memlocket", RECORD_KIND) != RECORD_KIND:
        raise InvalidRecord("This line is not a memory.", field="memlocket")
    if document.get("schema", RECORD_SCHEMA) != RECORD_SCHEMA:
        raise InvalidRecord("This record was written by a newer version.", field="schema")
    try:
        return _parse(Fields(document, ""), default_path)
    except InvalidRecord:
        raise
    except InvalidInput as error:
        raise InvalidRecord(error.message, field=error.field) from None


def _parse(fields: Fields, default_path: str) -> MemoryRecord:
    content = next(
        (found for name in ("content", "text", "memory") if (found := fields.text(name))), None
    )
    # a foreign object may use these two names for something else
    own = "memlocket" in fields.document
    kind = RecordKind((fields.one_of("kind", list(RecordKind)) if own else None) or "memory")
    if content is None or (kind is RecordKind.MEMORY and not content.strip()):
        raise InvalidRecord("A record needs a text in 'content'.", field="content")
    if fields.status("status") is RowStatus.DELETED and not fields.document.get("versions"):
        raise InvalidRecord("A forgotten memory without a history has nothing to keep.")
    metadata = dict(fields.mapping("metadata"))
    tags = fields.strings("tags")
    if tags and "tags" not in metadata:
        metadata["tags"] = list(tags)
    return MemoryRecord(
        id=fields.memory_id("id"),
        content=content,
        path=fields.text("path") or default_path,
        bucket=fields.text("bucket") or DEFAULT_BUCKET,
        scope=fields.text("scope"),
        memory_type=fields.memory_type("memory_type"),
        status=fields.status("status"),
        importance=fields.ratio("importance"),
        confidence=fields.ratio("confidence"),
        source=fields.text("source"),
        metadata=metadata,
        provenance=fields.mapping("provenance"),
        semantic_key=fields.text("semantic_key"),
        expires_at_ms=fields.time("expires_at"),
        kind=kind,
        item=fields.mapping("item") if own else {},
        created_at_ms=fields.time("created_at"),
        updated_at_ms=fields.time("updated_at"),
        writer=fields.writer("writer"),
        versions=tuple(_parse_version(part) for part in fields.parts("versions")),
    )


def _parse_version(fields: Fields) -> RecordVersion:
    action = fields.one_of("action", STORED_ACTIONS)
    written_at_ms = fields.time("written_at")
    memory_type = fields.memory_type("memory_type")
    path, bucket = fields.text("path"), fields.text("bucket")
    if action is None or written_at_ms is None or memory_type is None or path is None:
        raise InvalidRecord(
            "A version needs action, written_at, memory_type and path.", field=fields.name("action")
        )
    return RecordVersion(
        action=WriteStatus(action),
        content=fields.text("content"),
        path=path,
        memory_type=memory_type,
        written_at_ms=written_at_ms,
        status=fields.status("status"),
        bucket=DEFAULT_BUCKET if bucket is None else bucket,  # an erased version has ""
        scope=fields.text("scope"),
        importance=fields.ratio("importance"),
        confidence=fields.ratio("confidence"),
        source=fields.text("source"),
        metadata=fields.mapping("metadata"),
        provenance=fields.mapping("provenance"),
        semantic_key=fields.text("semantic_key"),
        expires_at_ms=fields.time("expires_at"),
        item=fields.mapping("item"),
        writer=fields.writer("writer"),
        reason=fields.text("reason"),
    )
