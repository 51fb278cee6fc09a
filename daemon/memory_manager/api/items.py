"""How rows look on the wire. Contract: xmemo.md 4.8, 6.2, 6.5, 12.3, 15.1 and appendix 20."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from memory_manager.api.answers import json_text
from memory_manager.api.item_json import kind_fields
from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.auth.boundary import least_trusted_boundary, memory_agent_boundary
from memory_manager.base.times import rfc3339
from memory_manager.recall.requests import Hit
from memory_manager.vault.rows import MemoryRow, MemoryVersion, WriteOutcome

MAX_ANSWER_BYTES: Final = 2_000_000  # a public client reads at most 2 MiB


def row_item(row: MemoryRow, caller: AgentIdentity) -> dict[str, object]:
    """One record as an item, without a score; beside memories with the members of its kind."""
    return {
        "id": row.id,
        "memory_id": row.id,
        "content": row.content,
        "path": row.path,
        "bucket": row.bucket,
        "scope": row.scope,
        "memory_type": row.memory_type.value,
        "status": row.status.value,
        "importance": row.importance,
        "confidence": row.confidence,
        "version": row.version,
        "created_at": rfc3339(row.created_at_ms),
        "updated_at": rfc3339(row.updated_at_ms),
        "expires_at": None if row.expires_at_ms is None else rfc3339(row.expires_at_ms),
        "semantic_key": row.semantic_key,
        "source": row.source,
        "metadata": dict(row.metadata),
        "agent_id": row.writer.identity.agent_id,
        **memory_agent_boundary(caller, row.writer.identity).item_fields(),
        "security_envelope": row.envelope.as_json(),
        **({"conflict": True} if row.in_conflict else {}),
        **kind_fields(row),
    }


def hit_item(hit: Hit, caller: AgentIdentity) -> dict[str, object]:
    """A found memory: the item with ``score`` and ``similarity``, both numbers."""
    item = row_item(hit.row, caller)
    item["score"] = round(hit.score, 6)
    item["similarity"] = round(hit.score if hit.cosine is None else hit.cosine, 6)
    if hit.explanation is not None:
        item["explanation"] = dict(hit.explanation)
    return item


def fitting_items(
    items: Iterable[Mapping[str, object]], max_bytes: int = MAX_ANSWER_BYTES
) -> tuple[list[str], bool]:
    """JSON texts of the leading items below ``max_bytes``, and whether some did not fit."""
    texts: list[str] = []
    used = 0
    for item in items:
        text = json_text(item)
        used += len(text.encode("utf-8", "replace")) + 1
        if used > max_bytes and texts:
            return texts, True
        texts.append(text)
    return texts, False


def overall_boundary(caller: AgentIdentity, rows: Sequence[MemoryRow]) -> dict[str, str]:
    """The top-level label of a recall: what holds for all rows; without rows, for the caller."""
    writers = [row.writer.identity for row in rows]
    return least_trusted_boundary(caller, writers).agent_boundary_json()


def write_answer(outcome: WriteOutcome) -> dict[str, object]:
    """The flat answer of a write; no member says queued, error, degraded or offline."""
    row = outcome.row
    return {
        "id": row.id,
        "memory_id": row.id,
        "status": outcome.status.value,
        "version": row.version,
        "path": row.path,
        "bucket": row.bucket,
        "scope": row.scope,
        "memory_type": row.memory_type.value,
        "redactions": list(row.redactions),
    }


def version_item(version: MemoryVersion, caller: AgentIdentity) -> dict[str, object]:
    """One immutable version; ``content`` is null when a redaction removed it."""
    return {
        "version": version.version,
        "status": version.status.value,
        "action": version.action.value,
        "content": version.content,
        "path": version.path,
        "memory_type": version.memory_type.value,
        "metadata": dict(version.metadata),
        "written_at": rfc3339(version.written_at_ms),
        "reason": version.reason,
        "agent_id": version.writer.identity.agent_id,
        "client": version.writer.client,
        **memory_agent_boundary(caller, version.writer.identity).item_fields(),
    }
