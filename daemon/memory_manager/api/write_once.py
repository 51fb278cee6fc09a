"""REST routes of operations that write: the key of the request, the answer and its replay mark.

Contract: xmemo.md 4.11.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiohttp import web

from memory_manager.api.answers import raw_json_response
from memory_manager.api.calls import Call, call_of
from memory_manager.api.errors import InvalidFields
from memory_manager.api.operations.answer import Answer, first_answer
from memory_manager.api.routing import RouteHandler, daemon_of
from memory_manager.base.errors import InvalidInput
from memory_manager.base.identifiers import CredentialId
from memory_manager.service.daemon import Daemon
from memory_manager.vault.idempotency import IdempotencyKey

REPLAY_HEADER: Final = "Idempotent-Replay"
_KEY_HEADERS: Final = ("Idempotency-Key", "X-Idempotency-Key")
_KEY_MEMBER: Final = "idempotency_key"
_ALIAS: Final = "/api/v1/"

WritingOperation = Callable[
    [Daemon, Call, Mapping[str, object], IdempotencyKey | None], Awaitable[Answer]
]


def route_of(request: web.Request) -> str:
    """Method and concrete path, with ``/api/v1`` folded into ``/v1``."""
    path = request.path
    if path.startswith(_ALIAS):
        path = path.removeprefix("/api")
    return f"{request.method} {path.rstrip('/')}"


def request_key(request: web.Request, body: Mapping[str, object]) -> IdempotencyKey | None:
    """The first key among two headers and a body member, trimmed; None without any."""
    candidates = [request.headers.get(name) for name in _KEY_HEADERS]
    member = body.get(_KEY_MEMBER)
    candidates.append(member if isinstance(member, str) else None)
    for candidate in candidates:
        if candidate is not None and candidate.strip():
            credential_id = call_of(request).caller.credential_id or CredentialId("")
            return IdempotencyKey(credential_id, route_of(request), candidate.strip())
    return None


def written_response(answer: Answer) -> web.Response:
    """An operation's answer, marked if it is a replay."""
    response = raw_json_response(answer.text, status=answer.status)
    if answer.replayed:
        response.headers[REPLAY_HEADER] = "true"
    return response


def writing(operation: WritingOperation) -> RouteHandler:
    """A handler that passes the body and the ids of the path to ``operation``."""

    async def handle(request: web.Request) -> web.Response:
        call = call_of(request)
        body = call.json_object()
        key = request_key(request, body)
        arguments: dict[str, object] = {**body, **request.match_info}
        daemon = daemon_of(request)
        try:
            answer = await operation(daemon, call, arguments, key)
        except (InvalidFields, InvalidInput):
            # the key alone decides: queued replays leave out what their first attempt had
            earlier = None if key is None else await first_answer(daemon, key)
            if earlier is None:
                raise
            answer = earlier
        return written_response(answer)

    return handle
