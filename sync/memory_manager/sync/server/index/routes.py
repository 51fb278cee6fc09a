"""``/v1/index/...`` for enrolled devices; the vault and the device are always the session's."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from memory_manager.base.times import rfc3339
from memory_manager.sync.server.answers import empty_answer, json_answer
from memory_manager.sync.server.call import Access, Call, Handler, Route, member_text
from memory_manager.sync.server.errors import Malformed, NothingHere
from memory_manager.sync.server.index.errors import GrantRefused, IndexRefused
from memory_manager.sync.server.index.search import Query
from memory_manager.sync.server.index.service import (
    DEFAULT_TOKEN_DAYS,
    MAX_TOKEN_DAYS,
    IndexService,
)
from memory_manager.sync.server.index.storage import AgentToken

MAX_ROW_BYTES: Final = 1 << 20
MAX_NAME_CHARACTERS: Final = 100
MAX_LIMIT: Final = 100
_SMALL_BODY_BYTES: Final = 4_096

Answer = Callable[[IndexService, Call], Awaitable[web.StreamResponse]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Spoken:
    """One handler of the index as a route's handler, with the index's own refusals answered."""

    service: IndexService
    answer: Answer

    async def __call__(self, call: Call) -> web.StreamResponse:
        try:
            return await self.answer(self.service, call)
        except IndexRefused as error:
            return _refusal(error)


def index_routes(service: IndexService) -> tuple[Route, ...]:
    """The routes of devices."""

    def route(method: str, path: str, answer: Answer, body_bytes: int = 0) -> Route:
        handler: Handler = _Spoken(service, answer)
        return Route(method, f"/v1/index/{path}", handler, Access.SESSION, body_bytes)

    return (
        route("POST", "rows", _add, MAX_ROW_BYTES),
        route("GET", "rows", _records),
        route("DELETE", "rows/{record}", _remove),
        route("GET", "search", _search),
        route("POST", "tokens", _issue, _SMALL_BODY_BYTES),
        route("GET", "tokens", _tokens),
        route("DELETE", "tokens/{token}", _revoke),
    )


async def _add(service: IndexService, call: Call) -> web.StreamResponse:
    session = call.session
    stored = await service.add(session.vault, session.device, call.json())
    return json_answer({"stored": stored}, 201 if stored else 200)


async def _records(service: IndexService, call: Call) -> web.StreamResponse:
    """Which rows there are, so that a device notices those it took back."""
    records = await service.storage.records(call.session.vault)
    return json_answer({"records": [record.hex() for record in records]})


async def _remove(service: IndexService, call: Call) -> web.StreamResponse:
    session = call.session
    await service.remove(session.vault, session.device, call.path_id("record"))
    return empty_answer()


async def _search(service: IndexService, call: Call) -> web.StreamResponse:
    """Ids and scores only: a device has the text in its own vault."""
    text = call.request.query.get("q", "")
    if not text.strip():
        raise Malformed
    limit = call.number("limit", 10, 1, MAX_LIMIT)
    found = await service.search(call.session.vault, Query(text, limit))
    results = [
        {"record": hit.row.record.hex(), "score": round(hit.score, 6)} for hit, _ in found.hits
    ]
    degraded = [reason.value for reason in found.degraded]
    return json_answer({"results": results, "degraded": degraded})


async def _issue(service: IndexService, call: Call) -> web.StreamResponse:
    body = call.json()
    name = member_text(body, "name").strip()
    days = body.get("days", DEFAULT_TOKEN_DAYS)
    if not 0 < len(name) <= MAX_NAME_CHARACTERS or not name.isprintable():
        raise Malformed
    if isinstance(days, bool) or not isinstance(days, int) or not 1 <= days <= MAX_TOKEN_DAYS:
        raise Malformed
    session = call.session
    token, text = await service.issue_token(session.vault, session.device, name, days)
    return json_answer({**_token_json(token), "token": text}, 201)


async def _tokens(service: IndexService, call: Call) -> web.StreamResponse:
    tokens = await service.tokens(call.session.vault)
    return json_answer({"tokens": [_token_json(token) for token in tokens]})


async def _revoke(service: IndexService, call: Call) -> web.StreamResponse:
    session, token_id = call.session, call.request.match_info["token"]
    if not await service.storage.revoke(session.vault, token_id, session.device):
        raise NothingHere
    return empty_answer()


def _token_json(token: AgentToken) -> dict[str, object]:
    used = token.last_used_at_ms
    return {
        "id": token.id,
        "name": token.name,
        "device": token.device.hex(),
        "created_at": rfc3339(token.created_at_ms),
        "expires_at": rfc3339(token.expires_at_ms),
        "last_used_at": None if used is None else rfc3339(used),
    }


def _refusal(error: IndexRefused) -> web.Response:
    details = {"reason": error.reason.value} if isinstance(error, GrantRefused) else {}
    said = {"code": error.wire_code, "message": error.message, "details": details}
    return json_answer({"error": said}, error.status)
