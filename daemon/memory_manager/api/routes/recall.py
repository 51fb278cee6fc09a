"""Search and context packs: the two ways to ask for memories (xmemo.md 6.3, 6.4)."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from memory_manager.api.answers import json_text, list_response
from memory_manager.api.calls import Access, call_of
from memory_manager.api.items import fitting_items, hit_item, overall_boundary
from memory_manager.api.requests import parse_context, parse_search
from memory_manager.api.routing import Route, daemon_of


async def search(request: web.Request) -> web.Response:
    """``results`` ranked, or ordered by time when asked."""
    call = call_of(request)
    asked = parse_search(request.query)
    daemon = daemon_of(request)
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
    return list_response("results", texts, rest)


async def context(request: web.Request) -> web.Response:
    """``items`` and ``context_text`` with one block per item, within the token budget."""
    call = call_of(request)
    asked = parse_context(call.json_object())
    daemon = daemon_of(request)
    daemon.store()
    pack = await daemon.recall.context(
        asked.search, max_items=asked.max_items, max_tokens=asked.max_tokens
    )
    texts = [json_text(hit_item(hit, call.identity)) for hit in pack.hits]
    return list_response(
        "items",
        texts,
        {
            "context_text": pack.text,
            "budget": {"tokens": pack.tokens, "items": len(texts)},
            "coverage": {"candidates": pack.candidates, "returned": len(texts)},
            "agent_boundary": overall_boundary(call.identity, [hit.row for hit in pack.hits]),
            "degraded": [reason.value for reason in pack.degraded],
        },
    )


ROUTES: Final = (
    Route("GET", "/memories/search", search, Access.READ),
    Route("GET", "/recall", search, Access.READ),
    Route("POST", "/recall/context", context, Access.READ),
)
