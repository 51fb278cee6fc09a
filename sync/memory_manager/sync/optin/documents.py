"""What of a memory would leave: the exact document the owner is shown. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from memory_manager.sync.wire.index_document import IndexDocument
from memory_manager.vault.rows import RECALLED_KINDS, MemoryRow, RowStatus


def document_of(row: MemoryRow) -> IndexDocument:
    """Text, place, labels and times; of the metadata only the tags.

    The id stays here: on the server a row has a random one that tells no time.
    """
    return IndexDocument(
        content=row.content,
        path=row.path,
        bucket=row.bucket,
        memory_type=row.memory_type.value,
        created_at_ms=max(0, row.created_at_ms),
        updated_at_ms=max(0, row.updated_at_ms),
        tags=_tags(row.metadata.get("tags")),
        scope=row.scope,
        agent_id=row.writer.identity.agent_id,
        agent_instance_id_hash=row.writer.identity.instance_hash,
    )


def document_of_payload(fields: Mapping[str, Any]) -> IndexDocument:
    """The same from the members of a sealed copy; KeyError or TypeError where there are others."""
    return IndexDocument(
        content=fields["content"],
        path=fields["path"],
        bucket=fields["bucket"],
        memory_type=fields["memory_type"],
        created_at_ms=max(0, fields["created_at_ms"]),
        updated_at_ms=max(0, fields["updated_at_ms"]),
        tags=_tags(fields.get("tags")),
        scope=fields.get("scope"),
        agent_id=fields.get("agent_id"),
        agent_instance_id_hash=fields.get("agent_instance_id_hash"),
    )


def may_be_opted_in(row: MemoryRow) -> bool:
    """Whether there is text that the owner could show: a live memory or state, not redacted."""
    return row.status is RowStatus.ACTIVE and row.kind in RECALLED_KINDS


def _tags(value: object) -> tuple[str, ...]:
    tags = cast("list[object]", value) if isinstance(value, list) else []
    texts = [tag for tag in tags if isinstance(tag, str)]
    return tuple(texts) if len(texts) == len(tags) else ()
