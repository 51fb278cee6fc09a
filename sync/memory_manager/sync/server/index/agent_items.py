"""How opted-in rows look to a hosted agent: the shapes of xmemo.md 6.3, 6.4, 12.3, 15.1 and 20."""

from __future__ import annotations

from collections.abc import Sequence

from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.auth.boundary import least_trusted_boundary, memory_agent_boundary
from memory_manager.base.identifiers import AgentInstanceHash
from memory_manager.base.times import rfc3339
from memory_manager.security import shown_text
from memory_manager.security.envelope import OPT_IN_KEY
from memory_manager.sync.server.index.search import Ranked
from memory_manager.sync.wire.index_document import IndexDocument

Hit = tuple[Ranked, IndexDocument]


def item_of(hit: Hit, caller: AgentIdentity) -> dict[str, object]:
    """One item; its id is the random id on the wire, not the one in the owner's vault."""
    ranked, document = hit
    identifier = ranked.row.record.hex()
    return {
        "id": identifier,
        "memory_id": identifier,
        "content": document.content,
        "path": document.path,
        "bucket": document.bucket,
        "scope": document.scope,
        "memory_type": document.memory_type,
        "status": "active",
        "version": 1,
        "score": round(ranked.score, 6),
        "similarity": round(ranked.similarity, 6),
        "created_at": rfc3339(document.created_at_ms),
        "updated_at": rfc3339(document.updated_at_ms),
        "expires_at": None,
        "semantic_key": None,
        "source": None,
        "metadata": {"tags": list(document.tags), OPT_IN_KEY: document.opted_in},
        "agent_id": document.agent_id,
        **memory_agent_boundary(caller, _writer(document)).item_fields(),
        "security_envelope": document.envelope.as_json(),
    }


def overall_boundary(hits: Sequence[Hit], caller: AgentIdentity) -> dict[str, str]:
    """The least trusted relation of all items; without any, the caller's to itself."""
    writers = [_writer(document) for _, document in hits]
    return least_trusted_boundary(caller, writers).agent_boundary_json()


def pack(hits: Sequence[Hit], max_items: int, max_tokens: int) -> tuple[list[Hit], str, int]:
    """The hits that fit, their text with one block a hit, and its estimated tokens."""
    return shown_text.pack(hits, _block, max_items=max_items, max_tokens=max_tokens)


def _block(number: int, hit: Hit) -> str:
    _, document = hit
    return shown_text.memory_block(
        number,
        document.memory_type,
        document.path,
        document.created_at_ms,
        document.agent_id,
        document.content,
    )


def _writer(document: IndexDocument) -> AgentIdentity:
    instance = document.agent_instance_id_hash
    return AgentIdentity(
        document.agent_id, None if instance is None else AgentInstanceHash(instance)
    )
