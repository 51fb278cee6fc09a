"""Search and context packs: the two ways to ask for memories (xmemo.md 6.3, 6.4)."""

from __future__ import annotations

from collections.abc import Mapping

from memory_manager.api.answers import json_text, list_text
from memory_manager.api.calls import Call
from memory_manager.api.items import fitting_items, hit_item, overall_boundary
from memory_manager.api.operations.answer import Answer
from memory_manager.api.requests import parse_context, parse_search
from memory_manager.service.daemon import Daemon


async def search(daemon: Daemon, call: Call, arguments: Mapping[str, object]) -> Answer:
    """``results`` ranked, or ordered by time when asked."""
    asked = parse_search(arguments)
    daemon.store()  # a recall is a use of the vault; without one this says why
    found = await daemon.recall.search(asked)
    texts, truncated = fitting_items(hit_item(hit, call.identity) for hit in found.hits)
    rest: dict[str, object] = {
        "agent_boundary": overall_boundary(call.identity, [hit.row for hit in found.hits]),
        "degraded": [reason.value for reason in found.degraded],
    }
    if found.meaning_only:
        rest["match"] = "meaning_only"
    if truncated:
        rest["truncated"] = True
    return Answer(200, list_text("results", texts, rest))


async def context(daemon: Daemon, call: Call, arguments: Mapping[str, object]) -> Answer:
    """``items`` and ``context_text`` with one block per item, within the token budget."""
    asked = parse_context(arguments)
    daemon.store()
    pack = await daemon.recall.context(
        asked.search, max_items=asked.max_items, max_tokens=asked.max_tokens
    )
    texts = [json_text(hit_item(hit, call.identity)) for hit in pack.hits]
    rest: dict[str, object] = {
        "context_text": pack.text,
        "budget": {"tokens": pack.tokens, "items": len(texts)},
        "coverage": {"candidates": pack.candidates, "returned": len(texts)},
        "agent_boundary": overall_boundary(call.identity, [hit.row for hit in pack.hits]),
        "degraded": [reason.value for reason in pack.degraded],
    }
    return Answer(200, list_text("items", texts, rest))
