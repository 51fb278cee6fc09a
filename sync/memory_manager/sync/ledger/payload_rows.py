"""Between a stored row and the members of a payload (sync.md 3.4).

Canonical JSON knows no floats: shares travel as decimal text, free JSON objects as JSON text.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any, Final, cast

from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.base.identifiers import AgentInstanceHash, MemoryId, memory_id_bytes
from memory_manager.base.times import MAX_UNIX_MS, MIN_UNIX_MS
from memory_manager.security.envelope import VAULT_DEFAULT
from memory_manager.sync.errors import RowRefused, SyncCode
from memory_manager.sync.wire.payload import Payload
from memory_manager.vault.incoming_rows import IncomingRow
from memory_manager.vault.prepared_version import RowContents
from memory_manager.vault.row_codec import encode_json
from memory_manager.vault.rows import (
    Attribution,
    JsonValue,
    MemoryRow,
    MemoryType,
    RecordKind,
    RowStatus,
)

NOBODY: Final = Attribution(AgentIdentity())
_EXACT: Final = 1 << 53
_LIFTED: Final = ("tags", "title", "pinned")


def fields_of(row: MemoryRow) -> dict[str, Any]:
    """What a live row adds to the common members of its payload; absent values are left out."""
    metadata, lifted = _lift(row.metadata)
    fields: dict[str, Any] = {
        "id": row.id,
        "record_kind": row.kind.value,
        "content": row.content,
        "content_sha256": hashlib.sha256(row.content.encode()).hexdigest(),
        "memory_type": row.memory_type.value,
        "metadata": encode_json(metadata),
        "provenance": encode_json(row.provenance),
        "item": encode_json(row.item),
        "path": row.path,
        "bucket": row.bucket,
        "scope": row.scope,
        "source": row.source,
        "importance": _decimal(row.importance),
        "confidence": _decimal(row.confidence),
        "semantic_key": row.semantic_key,
        "expires_at_ms": row.expires_at_ms,
        "created_at_ms": row.created_at_ms,
        "updated_at_ms": row.updated_at_ms,
        "status": row.status.value,
        "agent_id": row.writer.identity.agent_id,
        "agent_instance_id_hash": row.writer.identity.instance_hash,
        "client": row.writer.client,
        **VAULT_DEFAULT.as_json(),
        **lifted,
    }
    return {name: value for name, value in fields.items() if _fits(value)}


def id_of(payload: Payload) -> bytes | None:
    """The record that a payload speaks of, 16 bytes; None for one that speaks of none here."""
    text = payload.fields.get("id")
    if text is None:
        return None
    try:
        return memory_id_bytes(MemoryId(cast("str", text)))
    except (ValueError, TypeError, AttributeError):
        raise RowRefused(SyncCode.ROW_FORMAT) from None


def is_redacted(fields: Mapping[str, Any]) -> bool:
    """Whether a payload says that the text of its record was taken out."""
    return fields.get("status") == RowStatus.REDACTED.value


def read_row(payload: Payload) -> IncomingRow:
    """What a memory payload says; RowRefused(ROW_FORMAT) for values of another type or range."""
    try:
        return _read_row(payload.fields)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise RowRefused(SyncCode.ROW_FORMAT) from None


def writer_of(payload: Payload) -> Attribution:
    """The labels of whoever wrote a revision; odd ones count as absent."""
    try:
        return _writer(payload.fields)
    except (ValueError, TypeError):
        return NOBODY


def deleted_at(payload: Payload) -> int | None:
    """When a tombstone's author deleted the record; None where it does not say so."""
    try:
        return _optional_time(payload.fields, "updated_at_ms")
    except (ValueError, TypeError):
        return None


def _read_row(fields: Mapping[str, Any]) -> IncomingRow:
    memory_id = MemoryId(_text(fields["id"]))
    memory_id_bytes(memory_id)
    status = RowStatus(fields.get("status", RowStatus.ACTIVE.value))
    if status is RowStatus.DELETED:
        raise ValueError("a deletion is a tombstone")
    lifted = {name: fields[name] for name in _LIFTED if name in fields}
    contents = RowContents(
        content=_text(fields["content"]),
        path=_text(fields["path"]),
        bucket=_text(fields["bucket"]),
        scope=_optional_text(fields, "scope"),
        memory_type=MemoryType(fields["memory_type"]),
        importance=_share(fields, "importance"),
        confidence=_share(fields, "confidence"),
        source=_optional_text(fields, "source"),
        metadata={**_object(fields, "metadata"), **lifted},
        provenance=_object(fields, "provenance"),
        semantic_key=_optional_text(fields, "semantic_key"),
        expires_at_ms=_optional_time(fields, "expires_at_ms"),
        kind=RecordKind(fields["record_kind"]),
        item=_object(fields, "item"),
    )
    created, updated = (_optional_time(fields, name) for name in ("created_at_ms", "updated_at_ms"))
    if created is None or updated is None:
        raise ValueError("a row has its times")
    return IncomingRow(memory_id, contents, status, _writer(fields), created, updated)


def _writer(fields: Mapping[str, Any]) -> Attribution:
    instance = _optional_text(fields, "agent_instance_id_hash")
    if instance is not None and len(bytes.fromhex(instance.removeprefix("sha256:"))) != 32:
        raise ValueError("an instance hash has 32 bytes")
    identity = AgentIdentity(
        agent_id=_optional_text(fields, "agent_id"),
        instance_hash=None if instance is None else AgentInstanceHash(instance),
    )
    return Attribution(identity, None, _optional_text(fields, "client"))


def _lift(metadata: Mapping[str, JsonValue]) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
    """Tags, title and pinned stand beside the metadata where they have their plain form."""
    lifted = {name: metadata[name] for name in _LIFTED if _is_plain(name, metadata.get(name))}
    return {name: value for name, value in metadata.items() if name not in lifted}, lifted


def _is_plain(name: str, value: object) -> bool:
    if name == "tags":
        return isinstance(value, list) and all(
            isinstance(tag, str) for tag in cast("list[object]", value)
        )
    return isinstance(value, bool if name == "pinned" else str)


def _fits(value: object) -> bool:
    """None and times that canonical JSON cannot hold are left out."""
    return value is not None and not (type(value) is int and abs(value) >= _EXACT)


def _decimal(value: float | None) -> str | None:
    return None if value is None else repr(float(value))


def _share(fields: Mapping[str, Any], name: str) -> float | None:
    text = _optional_text(fields, name)
    if text is None:
        return None
    value = float(text)
    if not (math.isfinite(value) and 0 <= value <= 1):
        raise ValueError("a share is from 0 to 1")
    return value


def _object(fields: Mapping[str, Any], name: str) -> dict[str, JsonValue]:
    found = json.loads(_text(fields.get(name, "{}")))
    if not isinstance(found, dict):
        raise TypeError("an object is wanted")
    return cast("dict[str, JsonValue]", found)


def _optional_text(fields: Mapping[str, Any], name: str) -> str | None:
    return None if name not in fields else _text(fields[name])


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("text is wanted")
    return value


def _optional_time(fields: Mapping[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if type(value) is not int:
        raise TypeError("a time is a whole number")
    if not MIN_UNIX_MS <= value <= MAX_UNIX_MS:
        raise ValueError("a time that no list could show")
    return value
