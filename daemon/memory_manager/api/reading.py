"""REST routes of operations that only read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from memory_manager.api.answers import raw_json_response
from memory_manager.api.calls import Call, call_of
from memory_manager.api.operations.answer import Answer
from memory_manager.api.routing import RouteHandler, daemon_of
from memory_manager.service.daemon import Daemon

ReadingOperation = Callable[[Daemon, Call, Mapping[str, object]], Awaitable[Answer]]


def reading(operation: ReadingOperation) -> RouteHandler:
    """A handler that passes the query of a GET, or the body of a POST, and the ids of the path."""

    async def handle(request: web.Request) -> web.Response:
        call = call_of(request)
        # clients send GET with a JSON content type and no body: never parse one
        given = request.query if request.method == "GET" else call.json_object()
        arguments: dict[str, object] = {**given, **request.match_info}
        found = await operation(daemon_of(request), call, arguments)
        return raw_json_response(found.text, status=found.status)

    return handle
