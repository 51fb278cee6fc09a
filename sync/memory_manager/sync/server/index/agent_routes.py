"""XMemo's recall for a hosted agent, over what its owner opted in (xmemo.md 4, 6.1, 6.3, 6.4).

The caller has a token of one vault and nothing else: no session, no write, no other route.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiohttp import web

from memory_manager.auth.agent_identity import (
    AGENT_HEADER,
    INSTANCE_HEADER,
    AgentIdentity,
    identity_from_headers,
)
from memory_manager.auth.tokens import same_digest, token_digest
from memory_manager.sync.server.answers import json_answer
from memory_manager.sync.server.call import Access, Call, Route
from memory_manager.sync.server.index.agent_items import item_of, overall_boundary, pack
from memory_manager.sync.server.index.agent_requests import parse_context, parse_search
from memory_manager.sync.server.index.errors import (
    AgentRequestRefused,
    AgentTokenRefused,
    IndexRefused,
    NoAgentToken,
)
from memory_manager.sync.server.index.service import IndexService
from memory_manager.sync.server.index.storage import AgentToken

MAX_ANSWER_CHARACTERS: Final = 1_000_000
MAX_BODY_BYTES: Final = 1 << 20
SCOPES: Final = ("memory:read",)
_PREFIXES: Final = ("/v1", "/api/v1")

AgentAnswer = Callable[[IndexService, Call, AgentToken], Awaitable[web.Response]]


def agent_routes(service: IndexService) -> tuple[Route, ...]:
    """The routes of hosted agents, each under both prefixes."""
    table: tuple[tuple[str, str, AgentAnswer, int], ...] = (
        ("GET", "/auth/token/validate", _validate, 0),
        ("GET", "/memories/search", _search, 0),
        ("GET", "/recall", _search, 0),
        ("POST", "/recall/context", _context, MAX_BODY_BYTES),
    )
    asked = tuple(
        Route(method, prefix + path, _Asked(service, answer), Access.OWN, body_bytes)
        for method, path, answer, body_bytes in table
        for prefix in _PREFIXES
    )
    return (Route("GET", "/health", _health, Access.OPEN), *asked)


class _Asked:
    """A handler behind the token check, with refusals in the shape that XMemo clients read."""

    def __init__(self, service: IndexService, answer: AgentAnswer) -> None:
        self._service = service
        self._answer = answer

    async def __call__(self, call: Call) -> web.StreamResponse:
        try:
            token = await self._service.agent(_presented(call.request))
            call.host.requests.take(("agent", token.id))
            return await self._answer(self._service, call, token)
        except IndexRefused as error:
            return _refusal(error)


async def _health(call: Call) -> web.StreamResponse:
    """What XMemo clients probe before anything else; open."""
    return json_answer({"status": "ok", "service": "memory-os", "version": call.host.version})


async def _validate(service: IndexService, call: Call, token: AgentToken) -> web.Response:
    return json_answer(
        {"status": "valid", "scopes": list(SCOPES), "setup_state": "setup_completed"}
    )


async def _search(service: IndexService, call: Call, token: AgentToken) -> web.Response:
    found = await service.search(token.vault, parse_search(call.request.query))
    caller = _caller(call.request)
    items: list[dict[str, object]] = []
    size = 0
    for hit in found.hits:
        size += len(hit[1].content)
        if size > MAX_ANSWER_CHARACTERS and items:
            break
        items.append(item_of(hit, caller))
    rest = {"truncated": True} if len(items) < len(found.hits) else {}
    return json_answer(
        {
            "results": items,
            "agent_boundary": overall_boundary(found.hits[: len(items)], caller),
            "degraded": [reason.value for reason in found.degraded],
            **rest,
        }
    )


async def _context(service: IndexService, call: Call, token: AgentToken) -> web.Response:
    body: Mapping[str, object] = call.json() if call.body else {}
    asked = parse_context(body)
    found = await service.search(token.vault, asked.query)
    hits, text, tokens = pack(found.hits, asked.query.limit, asked.max_tokens)
    caller = _caller(call.request)
    return json_answer(
        {
            "items": [item_of(hit, caller) for hit in hits],
            "context_text": text,
            "budget": {"tokens": tokens, "items": len(hits)},
            "coverage": {"candidates": found.candidates, "returned": len(hits)},
            "agent_boundary": overall_boundary(hits, caller),
            "degraded": [reason.value for reason in found.degraded],
        }
    )


def _presented(request: web.Request) -> str:
    """The one token of ``X-API-Key`` and ``Authorization``; both must be the same one."""
    tokens = [value.strip() for value in request.headers.getall("X-API-Key", []) if value.strip()]
    for value in request.headers.getall("Authorization", []):
        scheme, _, rest = value.strip().partition(" ")
        if scheme.lower() == "bearer" and rest.strip():
            tokens.append(rest.strip())
    if not tokens:
        raise NoAgentToken
    first = token_digest(tokens[0])
    if not all(same_digest(first, token_digest(other)) for other in tokens[1:]):
        raise AgentTokenRefused
    return tokens[0]


def _caller(request: web.Request) -> AgentIdentity:
    headers = request.headers
    return identity_from_headers(headers.get(AGENT_HEADER), headers.get(INSTANCE_HEADER))


def _refusal(error: IndexRefused) -> web.Response:
    detail: object = error.message
    if isinstance(error, AgentRequestRefused):
        detail = [{"loc": [error.place, error.field], "msg": error.said, "type": error.kind}]
    response = json_answer(
        {
            "detail": detail,
            "error": {"code": error.wire_code, "message": error.message},
            "request_id": secrets.token_hex(8),
        },
        error.status,
    )
    if isinstance(error, NoAgentToken):
        response.headers["WWW-Authenticate"] = 'Bearer realm="memlocket"'
    return response
