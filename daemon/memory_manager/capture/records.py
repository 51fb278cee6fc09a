"""One memory with its history as a value that leaves and enters the vault: the archive record.

The JSON form is what ``export`` writes and ``import`` reads, one object per line. Pure: no file, no
database, no clock. Times are UTC milliseconds inside and RFC 3339 in JSON.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import cast

from memory_manager.auth.agent_identity import AgentIdentity, agent_instance_id_hash
from memory_manager.base.errors import InvalidInput
from memory_manager.base.identifiers import MemoryId, memory_id_bytes
from memory_manager.base.times import parse_rfc3339, rfc3339
from memory_manager.capture.errors import InvalidRecord
from memory_manager.vault.rows import (
    DEFAULT_BUCKET,
    JsonValue,
    MemoryRow,
    MemoryType,
    MemoryVersion,
    RowStatus,
    WriteStatus,
)

RECORD_KIND = "memory"
RECORD_SCHEMA = 1
DEFAULT_PATH = "imported"
Document = Mapping[str, JsonValue]


@dataclasses.dataclass(frozen=True, slots=True)
class Writer:
    """Who wrote a version: labels only, never a credential."""

    identity: AgentIdentity = dataclasses.field(default_factory=AgentIdentity)
    client: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class RecordVersion:
    """One version of a memory; ``content`` None means that a redaction removed it."""

    action: WriteStatus
    content: str | None = dataclasses.field(repr=False)
    path: str = dataclasses.field(repr=False)
    memory_type: MemoryType | None
    metadata: Document = dataclasses.field(repr=False)
    writer: Writer
    written_at_ms: int | None
    reason: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryRecord:
    """The current state of one memory and, oldest first, how it came to be.

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
    created_at_ms: int | None = None
    updated_at_ms: int | None = None
    writer: Writer = Writer()
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
        metadata=version.metadata,
        writer=Writer(version.writer.identity, version.writer.client),
        written_at_ms=version.written_at_ms,
        reason=version.reason,
    )


def record_as_json(record: MemoryRecord) -> dict[str, JsonValue]:
    """The JSON object of a record; ``parse_record`` gives back an equal record."""
    return {
        "memlocket": RECORD_KIND,
        "schema": RECORD_SCHEMA,
        "id": record.id,
        "content": record.content,
        "path": record.path,
        "bucket": record.bucket,
        "scope": record.scope,
        "memory_type": record.memory_type,
        "status": record.status,
        "importance": record.importance,
        "confidence": record.confidence,
        "source": record.source,
        "metadata": dict(record.metadata),
        "provenance": dict(record.provenance),
        "semantic_key": record.semantic_key,
        "expires_at": _optional_time(record.expires_at_ms),
        "created_at": _optional_time(record.created_at_ms),
        "updated_at": _optional_time(record.updated_at_ms),
        "writer": _writer_as_json(record.writer),
        "versions": [_version_as_json(version) for version in record.versions],
    }


def _version_as_json(version: RecordVersion) -> dict[str, JsonValue]:
    return {
        "action": version.action,
        "content": version.content,
        "path": version.path,
        "memory_type": version.memory_type,
        "metadata": dict(version.metadata),
        "writer": _writer_as_json(version.writer),
        "written_at": _optional_time(version.written_at_ms),
        "reason": version.reason,
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
        return _parse(_Fields(document, ""), default_path)
    except InvalidRecord:
        raise
    except InvalidInput as error:
        raise InvalidRecord(error.message, field=error.field) from None


def _parse(fields: _Fields, default_path: str) -> MemoryRecord:
    content = next(
        (found for name in ("content", "text", "memory") if (found := fields.text(name))), None
    )
    if content is None or not content.strip():
        raise InvalidRecord("A record needs a text in 'content'.", field="content")
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
        status=RowStatus(fields.one_of("status", list(RowStatus)) or RowStatus.ACTIVE),
        importance=fields.ratio("importance"),
        confidence=fields.ratio("confidence"),
        source=fields.text("source"),
        metadata=metadata,
        provenance=fields.mapping("provenance"),
        semantic_key=fields.text("semantic_key"),
        expires_at_ms=fields.time("expires_at"),
        created_at_ms=fields.time("created_at"),
        updated_at_ms=fields.time("updated_at"),
        writer=fields.writer("writer"),
        versions=tuple(_parse_version(part) for part in fields.parts("versions")),
    )


def _parse_version(fields: _Fields) -> RecordVersion:
    action = fields.one_of("action", list(WriteStatus))
    written_at_ms = fields.time("written_at")
    memory_type = fields.memory_type("memory_type")
    path = fields.text("path")
    if action is None or written_at_ms is None or memory_type is None or path is None:
        raise InvalidRecord(
            "A version needs action, written_at, memory_type and path.", field=fields.name("action")
        )
    return RecordVersion(
        action=WriteStatus(action),
        content=fields.text("content"),
        path=path,
        memory_type=memory_type,
        metadata=fields.mapping("metadata"),
        writer=fields.writer("writer"),
        written_at_ms=written_at_ms,
        reason=fields.text("reason"),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Fields:
    """Typed access to one JSON object; every refusal names the field with its place."""

    document: Document
    place: str

    def name(self, key: str) -> str:
        return f"{self.place}{key}"

    def refuse(self, key: str, expected: str) -> InvalidRecord:
        return InvalidRecord(f"{self.name(key)} must be {expected}.", field=self.name(key))

    def text(self, key: str) -> str | None:
        value = self.document.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self.refuse(key, "a string")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self.refuse(key, "valid Unicode") from None
        return value

    def one_of(self, key: str, allowed: Sequence[str]) -> str | None:
        value = self.text(key)
        if value is not None and value not in allowed:
            raise self.refuse(key, f"one of {', '.join(allowed)}")
        return value

    def memory_type(self, key: str) -> MemoryType | None:
        value = self.one_of(key, [*MemoryType, "auto"])
        return None if value is None or value == "auto" else MemoryType(value)

    def ratio(self, key: str) -> float | None:
        value = self.document.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.refuse(key, "a number from 0 to 1")
        if not math.isfinite(value) or not 0 <= value <= 1:
            raise self.refuse(key, "a number from 0 to 1")
        return float(value)

    def time(self, key: str) -> int | None:
        value = self.text(key)
        return parse_rfc3339(value, self.name(key)) if value else None

    def mapping(self, key: str) -> Document:
        value = self.document.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.refuse(key, "an object")
        return cast("dict[str, JsonValue]", value)

    def strings(self, key: str) -> tuple[str, ...]:
        value = self.document.get(key)
        if value is None:
            return ()
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        if not isinstance(value, list) or not all(
            isinstance(part, str) for part in cast("list[object]", value)
        ):
            raise self.refuse(key, "a list of strings")
        return tuple(cast("list[str]", value))

    def parts(self, key: str) -> list[_Fields]:
        value = self.document.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.refuse(key, "a list")
        found: list[_Fields] = []
        for number, part in enumerate(cast("list[object]", value)):
            if not isinstance(part, dict):
                raise self.refuse(f"{key}[{number}]", "an object")
            found.append(
                _Fields(cast("dict[str, JsonValue]", part), f"{self.name(key)}[{number}].")
            )
        return found

    def memory_id(self, key: str) -> MemoryId | None:
        """Only ids of our own form are kept; a foreign id is not ours to reuse."""
        value = self.document.get(key)
        if not isinstance(value, str):
            return None
        try:
            memory_id_bytes(MemoryId(value))
        except ValueError:
            return None
        return MemoryId(value)

    def writer(self, key: str) -> Writer:
        part = _Fields(self.mapping(key), f"{self.name(key)}.")
        instance = part.text("agent_instance")
        try:
            instance_hash = agent_instance_id_hash(instance) if instance else None
        except ValueError:
            raise part.refuse("agent_instance", "an instance id or its hash") from None
        return Writer(AgentIdentity(part.text("agent_id"), instance_hash), part.text("client"))
