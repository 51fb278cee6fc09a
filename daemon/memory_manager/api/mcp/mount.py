"""/mcp on both doors: the SDK's ASGI application inside aiohttp, without its ways to hang.

The checks have read the body already, so the application gets it in one piece and then waits: with
the bare adapter every streamed answer spins on an empty body and stops the event loop. GET and
DELETE never reach the SDK. Contract: xmemo.md 11.1, 11.2.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from aiohttp_asgi.resource import ASGIContext

from memory_manager.api.answers import FIXED_HEADERS, JSON_TYPE, json_response
from memory_manager.api.calls import Access, call_of
from memory_manager.api.errors import InvalidJson, MethodNotAllowed, error_response
from memory_manager.api.mcp.frames import (
    INVALID_REQUEST,
    PARSE_ERROR,
    is_message,
    without_input,
)
from memory_manager.api.mcp.opening import opening_answer
from memory_manager.api.routing import Route
from memory_manager.api.strict_json import parse_value
from memory_manager.security.event_log import log_event
from memory_manager.service.daemon import Daemon

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

PATH: Final = "/mcp"
ALLOWED: Final = "POST, DELETE"

_ACCEPT: Final = b"accept"
_LENGTH: Final = b"content-length"
_BOTH_TYPES: Final = b"application/json, text/event-stream"

_Message = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[_Message]]
_Send = Callable[[_Message], Awaitable[None]]

_log = logging.getLogger(__name__)


class McpMount:
    """Serves /mcp while ``living`` runs.

    The first request loads the SDK, off the loop; what clients open with does not wait for it.
    """

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._stop = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._loading: asyncio.Future[StreamableHTTPSessionManager] | None = None
        self._manager: StreamableHTTPSessionManager | None = None

    def routes(self) -> tuple[Route, ...]:
        return (
            # before any credential is looked at, and at once: clients only probe for a stream
            Route("GET", PATH, _no_stream, Access.OPEN, at_root=True, limited=False),
            Route("DELETE", PATH, _no_session, Access.OPEN, at_root=True, limited=False),
            Route("POST", PATH, self.serve, Access.MCP, at_root=True),
        )

    async def living(self, _app: web.Application) -> AsyncIterator[None]:
        """Cleanup context of the application: owns the task in which the SDK lives."""
        async with asyncio.TaskGroup() as self._group:
            yield
            self._stop.set()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """One JSON-RPC message."""
        call = call_of(request)
        try:
            message = parse_value(call.body)
        except InvalidJson as error:
            return _refused(PARSE_ERROR, error.message)
        if not is_message(message):
            return _refused(INVALID_REQUEST, "The body must be one JSON-RPC 2.0 message.")
        if self._manager is None:
            self._load_soon()
            opening = await opening_answer(self._daemon, call, message, request.headers)
            if opening is not None:
                return opening
        manager = await self._loaded()

        async def application(scope: _Message, _receive: _Receive, send: _Send) -> None:
            scope["type"] = "http"  # whatever an Upgrade header says
            scope["state"] = {"call": call}
            # every client takes JSON; one that says otherwise, or nothing, gets it all the same
            # a blank value is one that an editor did not fill in (xmemo.md 1, rule 16)
            headers = [pair for pair in scope["headers"] if pair[0] != _ACCEPT and pair[1].strip()]
            scope["headers"] = [*headers, (_ACCEPT, _BOTH_TYPES)]
            await manager.handle_request(scope, _once(call.body), _with_headers(send, call))

        return await ASGIContext(application, request, PATH).get_response()

    def _load_soon(self) -> asyncio.Future[StreamableHTTPSessionManager]:
        """Begin to load the SDK, unless that has begun."""
        if self._loading is None:
            if self._group is None:
                raise RuntimeError("the application is not set up")
            self._loading = asyncio.get_running_loop().create_future()
            self._group.create_task(self._run(self._loading))
        return self._loading

    async def _loaded(self) -> StreamableHTTPSessionManager:
        if self._manager is not None:
            return self._manager
        return await asyncio.shield(self._load_soon())

    async def _run(self, loading: asyncio.Future[StreamableHTTPSessionManager]) -> None:
        """Load the SDK and keep its manager running until the application ends."""
        began = time.monotonic()
        try:
            manager = await asyncio.to_thread(_load, self._daemon)
            async with manager.run():
                self._manager = manager
                loading.set_result(manager)
                duration_ms = round((time.monotonic() - began) * 1000)
                log_event(_log, "mcp_loaded", duration_ms=duration_ms)
                await self._stop.wait()
        except Exception as error:  # the daemon goes on without MCP; each request says so
            log_event(_log, "mcp_failed", level=logging.ERROR, error=error)
            self._manager = self._loading = None  # the next request tries again
            if not loading.done():
                loading.set_exception(error)
                loading.exception()  # perhaps nobody waits for it


def _load(daemon: Daemon) -> StreamableHTTPSessionManager:
    """On a thread: the import takes about a second and 40 MB."""
    collects = gc.isenabled()
    gc.disable()  # nothing of what is made here is garbage; looking for it costs a tenth and more
    try:
        from memory_manager.api.mcp.server import build_manager
    finally:
        if collects:
            gc.enable()
    return build_manager(daemon)


async def _no_stream(request: web.Request) -> web.Response:
    response = error_response(MethodNotAllowed(), call_of(request).request_id)
    response.headers["Allow"] = ALLOWED
    return response


async def _no_session(_request: web.Request) -> web.Response:
    """There are no sessions to end; clients that invent an id may still say goodbye."""
    return web.Response(status=204)


def _refused(code: int, message: str) -> web.Response:
    """A refusal of what is no message of the protocol; nothing of it is repeated."""
    error = {"code": code, "message": message}
    return json_response({"jsonrpc": "2.0", "id": None, "error": error}, status=400)


def _once(body: bytes) -> _Receive:
    given = False

    async def receive() -> _Message:
        nonlocal given
        if given:
            await asyncio.Event().wait()  # for ever: the SDK cancels the task that waits here
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _with_headers(send: _Send, call: Any) -> _Send:
    """The headers of every answer of ours; the checks cannot add them to one that has begun.

    The head waits for the body, whose length may shrink.
    """
    head: _Message | None = None

    async def send_on(message: _Message) -> None:
        nonlocal head
        if message["type"] == "http.response.start":
            head = message
            return
        body = message.get("body", b"")
        if head is not None and not message.get("more_body"):
            body = without_input(body)
        if head is not None:
            await send({**head, "headers": _headers(head, call, body)})
            head = None
        await send({**message, "body": body})

    return send_on


def _headers(head: _Message, call: Any, body: bytes) -> list[tuple[bytes, bytes]]:
    headers = {name.lower(): value for name, value in head.get("headers", ())}
    headers.setdefault(b"content-type", JSON_TYPE.encode())
    if _LENGTH in headers:
        headers[_LENGTH] = str(len(body)).encode()
    for name, value in {**FIXED_HEADERS, "X-Request-ID": call.request_id}.items():
        headers[name.lower().encode()] = value.encode()
    return list(headers.items())
