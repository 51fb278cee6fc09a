"""Between table rows and values: column lists, decoding, and the columns a version is stored in.

A stored row is decoded leniently where a reader must not fail (an odd envelope reads as not
retrievable) and never guesses anything else.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.base.identifiers import (
    AgentInstanceHash,
    CredentialId,
    MemoryId,
    memory_id_bytes,
    memory_id_from_bytes,
)
from memory_manager.security.envelope import SecurityEnvelope, read_envelope
from memory_manager.vault.rows import (
    Attribution,
    JsonValue,
    MemoryRow,
    MemoryType,
    MemoryVersion,
    RecordKind,
    RowStatus,
    WriteStatus,
)

_HASH_PREFIX = "sha256:"
_VERSION_BITS = 24
MAX_VERSION = (1 << _VERSION_BITS) - 1
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)

ROW_COLUMNS = (
    "r.rowid, r.id, r.version, v.content, r.path, r.bucket, r.scope, r.memory_type, r.status,"
    " v.importance, v.confidence, v.source, v.metadata, v.provenance, r.semantic_key,"
    " r.expires_at_ms, r.created_at_ms, r.updated_at_ms, v.agent_id, v.instance_hash,"
    " v.credential_id, v.client, r.security_mode, r.encryption_state, r.retrieval_visibility,"
    " r.server_embeddings_enabled, r.server_content_search_enabled, v.redactions,"
    " v.ruleset_version, r.kind, v.item, EXISTS(SELECT 1 FROM sibling s WHERE s.id = r.id)"
)
ROW_TABLES = f"record r JOIN record_version v ON v.slot = (r.rowid << {_VERSION_BITS}) + r.version"
VERSION_COLUMNS = (
    "v.version, v.status, v.content, v.path, v.memory_type, v.metadata, v.agent_id,"
    " v.instance_hash, v.credential_id, v.client, v.written_at_ms, v.action, v.reason, v.bucket,"
    " v.scope, v.importance, v.confidence, v.source, v.provenance, v.semantic_key, v.expires_at_ms,"
    " v.item, v.ruleset_version"
)


def version_slot(rowid: int, version: int) -> int:
    """Primary key of one version in ``record_version``."""
    return (rowid << _VERSION_BITS) + version


def parse_memory_id(text: str) -> bytes | None:
    """The stored bytes of an id; None for anything that cannot be one of ours."""
    try:
        return memory_id_bytes(MemoryId(text))
    except ValueError:
        return None


def decode_row(columns: Sequence[Any]) -> MemoryRow:
    """A row selected with ``ROW_COLUMNS``."""
    (
        rowid,
        raw_id,
        version,
        content,
        path,
        bucket,
        scope,
        memory_type,
        status,
        importance,
        confidence,
        source,
        metadata,
        provenance,
        semantic_key,
        expires_at_ms,
        created_at_ms,
        updated_at_ms,
        agent_id,
        instance_hash,
        credential_id,
        client,
        security_mode,
        encryption_state,
        retrieval_visibility,
        embeddings_enabled,
        content_search_enabled,
        redactions,
        ruleset_version,
        kind,
        item,
        in_conflict,
    ) = columns
    envelope = _envelope(
        security_mode,
        encryption_state,
        retrieval_visibility,
        embeddings_enabled,
        content_search_enabled,
    )
    return MemoryRow(
        rowid=rowid,
        id=memory_id_from_bytes(raw_id),
        version=version,
        content=content or "",
        path=path,
        bucket=bucket,
        scope=scope,
        memory_type=MemoryType(memory_type),
        status=RowStatus(status),
        importance=importance,
        confidence=confidence,
        source=source,
        metadata=_json_object(metadata),
        provenance=_json_object(provenance),
        semantic_key=semantic_key,
        expires_at_ms=expires_at_ms,
        created_at_ms=created_at_ms,
        updated_at_ms=updated_at_ms,
        writer=decode_attribution(agent_id, instance_hash, credential_id, client),
        envelope=envelope,
        redactions=() if redactions == "[]" else tuple(json.loads(redactions)),
        ruleset_version=ruleset_version,
        kind=RecordKind(kind),
        item=_json_object(item),
        in_conflict=bool(in_conflict),
    )


def decode_version(columns: Sequence[Any], kind: RecordKind) -> MemoryVersion:
    """A version of a record of this kind, selected with ``VERSION_COLUMNS``."""
    (
        version,
        status,
        content,
        path,
        memory_type,
        metadata,
        agent_id,
        instance_hash,
        credential_id,
        client,
        written_at_ms,
        action,
        reason,
        bucket,
        scope,
        importance,
        confidence,
        source,
        provenance,
        semantic_key,
        expires_at_ms,
        item,
        ruleset_version,
    ) = columns
    return MemoryVersion(
        version=version,
        status=RowStatus(status),
        content=content,
        path=path,
        memory_type=MemoryType(memory_type),
        metadata=_json_object(metadata),
        writer=decode_attribution(agent_id, instance_hash, credential_id, client),
        written_at_ms=written_at_ms,
        action=WriteStatus(action),
        reason=reason,
        bucket=bucket,
        scope=scope,
        importance=importance,
        confidence=confidence,
        source=source,
        provenance=_json_object(provenance),
        semantic_key=semantic_key,
        expires_at_ms=expires_at_ms,
        kind=kind,
        item=_json_object(item),
        ruleset_version=ruleset_version,
    )


def decode_attribution(
    agent_id: str | None, instance_hash: bytes | None, credential_id: str | None, client: str | None
) -> Attribution:
    """Who wrote, from its four columns."""
    text = AgentInstanceHash(_HASH_PREFIX + instance_hash.hex()) if instance_hash else None
    return Attribution(
        identity=AgentIdentity(agent_id=agent_id, instance_hash=text),
        credential_id=CredentialId(credential_id) if credential_id is not None else None,
        client=client,
    )


def attribution_columns(
    writer: Attribution,
) -> tuple[str | None, bytes | None, str | None, str | None]:
    """``agent_id, instance_hash, credential_id, client`` as stored."""
    instance = writer.identity.instance_hash
    raw = bytes.fromhex(instance.removeprefix(_HASH_PREFIX)) if instance else None
    return writer.identity.agent_id, raw, writer.credential_id, writer.client


def encode_json(value: object) -> str:
    """Compact JSON text in the order given; ValueError for NaN and infinities."""
    if value in ({}, []):  # most of what a row holds
        return "[]" if isinstance(value, list) else "{}"
    return _ENCODER.encode(value)


def _json_object(text: str) -> Mapping[str, JsonValue]:
    return {} if text == "{}" else cast("dict[str, JsonValue]", json.loads(text))


@functools.lru_cache(maxsize=64, typed=True)
def _envelope(
    security_mode: object,
    encryption_state: object,
    retrieval_visibility: object,
    embeddings_enabled: object,
    content_search_enabled: object,
) -> SecurityEnvelope:
    """There are a few different ones, and nearly every row has the same."""
    return read_envelope(
        {
            "security_mode": security_mode,
            "encryption_state": encryption_state,
            "retrieval_visibility": retrieval_visibility,
            "server_embeddings_enabled": _stored_flag(embeddings_enabled),
            "server_content_search_enabled": _stored_flag(content_search_enabled),
        }
    )


def _stored_flag(value: object) -> object:
    """0 and 1 as booleans; anything else stays odd and makes the envelope unreadable."""
    return bool(value) if value in (0, 1) else value
