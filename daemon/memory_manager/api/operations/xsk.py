"""What skills of the TypeScript SDK store: a text under a category, a conflict and how it ended.

Contract: xmemo.md 6.9.
"""

from __future__ import annotations

from collections.abc import Mapping

from memory_manager.api.calls import Call
from memory_manager.api.item_requests import ITEM_BUCKET, MAX_STATE_TEXT
from memory_manager.api.items import write_answer
from memory_manager.api.operations.answer import Answer, Written, written
from memory_manager.api.parsing import Fields
from memory_manager.service.daemon import Daemon
from memory_manager.vault.idempotency import IdempotencyKey
from memory_manager.vault.rows import (
    MAX_CONTENT_CHARACTERS,
    MemoryDraft,
    MemoryType,
    WriteStatus,
)
from memory_manager.vault.transaction import Transaction


async def add_skill_memory(
    daemon: Daemon, call: Call, arguments: Mapping[str, object], key: IdempotencyKey | None
) -> Answer:
    """POST /api/v1/memories ``{text, category}``: a memory below ``skills/``."""
    fields = Fields.of_body(arguments)
    name = "content" if fields.text("text", limit=None) is None else "text"
    content = fields.required_text(
        name if fields.has(name) else "text", limit=MAX_CONTENT_CHARACTERS
    )
    category = fields.text("category") or "general"
    draft = _draft(fields, content, f"skills/{category}", {"category": category})
    return await _stored(daemon, call, key, fields, draft)


async def add_memory_conflict(
    daemon: Daemon, call: Call, arguments: Mapping[str, object], key: IdempotencyKey | None
) -> Answer:
    """POST /api/v1/memory-conflicts ``{title, context, resolution}``: one memory of all three."""
    fields = Fields.of_body(arguments)
    title = fields.required_text("title")
    context = fields.text("context", limit=MAX_STATE_TEXT)
    resolution = fields.text("resolution", limit=MAX_STATE_TEXT)
    parts = [title, context, f"Resolution: {resolution}" if resolution else None]
    content = "\n".join(part for part in parts if part)
    draft = _draft(fields, content, "conflicts", {"category": "conflict"}, MemoryType.EPISODIC)
    return await _stored(daemon, call, key, fields, draft)


def _draft(
    fields: Fields,
    content: str,
    path: str,
    metadata: Mapping[str, object],
    memory_type: MemoryType | None = None,
) -> MemoryDraft:
    return MemoryDraft(
        content=content,
        path=path,
        bucket=fields.filter_text("bucket") or ITEM_BUCKET,
        scope=fields.filter_text("scope"),
        memory_type=memory_type,
        source=fields.text("source"),
        metadata={**(fields.mapping("metadata") or {}), **metadata},
    )


async def _stored(
    daemon: Daemon, call: Call, key: IdempotencyKey | None, fields: Fields, draft: MemoryDraft
) -> Answer:
    fields.check()

    def work(transaction: Transaction, call: Call) -> Written:
        outcome = daemon.memories.remember(transaction, draft, call.attribution)
        status = 201 if outcome.status is WriteStatus.CREATED else 200
        return Written(status, write_answer(outcome))

    return await written(daemon, call, key, work)
