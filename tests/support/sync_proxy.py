"""A proxy between a device and the real server that can lie, lose, cut and delay, call by call.

The server has to take the proxy's address as its own: ``between`` sees to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

import aiohttp
from aiohttp import web
from nacl.signing import SigningKey

from memory_manager.sync.server.running import RunningServer
from memory_manager.sync.wire.framing import Page, Signed, pack_page, unpack_page
from memory_manager.sync.wire.log import ServerHead, sign_server_head

PULL, PUSH, ROSTER = "/v1/log/pull", "/v1/log/push", "/v1/roster"


@dataclasses.dataclass
class Answer:
    status: int
    content_type: str
    body: bytes
    headers: dict[str, str] = dataclasses.field(default_factory=dict)

    def response(self) -> web.Response:
        return web.Response(
            status=self.status,
            body=self.body,
            headers={"Content-Type": self.content_type, **self.headers},
        )


@dataclasses.dataclass
class Call:
    """One request on its way; ``forward`` asks the real server."""

    request: web.Request
    body: bytes
    proxy: SyncProxy

    @property
    def path(self) -> str:
        return self.request.path

    @property
    def method(self) -> str:
        return self.request.method

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query

    async def forward(self, query: Mapping[str, str] | None = None) -> Answer:
        """The real server's answer, asked with another query if one is given."""
        kept = {
            name: value
            for name, value in self.request.headers.items()
            if name in ("Authorization", "X-Session-Epoch", "Content-Type")
        }
        async with self.proxy.http.request(
            self.method,
            self.proxy.upstream + self.request.path,
            params=self.request.query if query is None else query,
            data=self.body or None,
            headers=kept,
            allow_redirects=False,
        ) as answer:
            passed = {n: v for n, v in answer.headers.items() if n == "Retry-After"}
            return Answer(answer.status, answer.content_type, await answer.read(), passed)


Rule = Callable[[Call], Awaitable[Answer | web.StreamResponse | None]]


class SyncProxy:
    """``rule`` decides about every call; None, or its answer None, forwards. ``calls`` counts."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.rule: Rule | None = None
        self.notifies = False  # or calls for news are turned away at once
        self.calls: list[str] = []
        self.url = ""
        self.http: aiohttp.ClientSession

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.calls.append(f"{request.method} {request.path}")
        if request.path == "/v1/notify" and not self.notifies:
            return web.Response(status=503)
        call = Call(request, await request.read(), self)
        answer = await self.rule(call) if self.rule is not None else None
        if answer is None:
            answer = await call.forward()
        return answer.response() if isinstance(answer, Answer) else answer

    def count(self, call: str) -> int:
        return self.calls.count(call)


@contextlib.asynccontextmanager
async def listening(upstream: str) -> AsyncGenerator[SyncProxy]:
    """A proxy on a free port in front of ``upstream``, which may change later."""
    proxy = SyncProxy(upstream)
    app = web.Application(client_max_size=1 << 24)
    app.router.add_route("*", "/{path:.*}", proxy._handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    proxy.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with aiohttp.ClientSession(auto_decompress=False) as proxy.http:
        try:
            yield proxy
        finally:
            await runner.cleanup()


@contextlib.asynccontextmanager
async def between(server: RunningServer) -> AsyncGenerator[SyncProxy]:
    """A proxy in front of ``server``, whose public address it becomes."""
    async with listening(server.url) as proxy:
        server.host.public_host = proxy.url.split("://", 1)[1]
        yield proxy


def pages(change: Callable[[Page], Page]) -> Rule:
    """Every pulled page goes through ``change``; what the server signed stays as it is."""

    async def rule(call: Call) -> Answer | None:
        if call.path != PULL:
            return None
        answer = await call.forward()
        if answer.status != 200:
            return answer
        return dataclasses.replace(answer, body=pack_page(change(unpack_page(answer.body))))

    return rule


def octets(change: Callable[[bytes], bytes]) -> Rule:
    """The raw bytes of every pulled page go through ``change``."""

    async def rule(call: Call) -> Answer | None:
        if call.path != PULL:
            return None
        answer = await call.forward()
        return dataclasses.replace(answer, body=change(answer.body))

    return rule


def signed_head(key: SigningKey, vault: bytes, n: int, g: bytes) -> Signed[ServerHead]:
    """What a server says that holds ``key``: tests let it lie."""
    statement = ServerHead(n, g)
    return Signed(statement, sign_server_head(key, vault, statement))


def refusal(
    status: int, code: str, details: dict[str, Any] | None = None, **headers: str
) -> Answer:
    """An error answer of the protocol."""

    document = {"error": {"code": code, "message": "no", "details": details or {}}}
    return Answer(status, "application/json", json.dumps(document).encode(), dict(headers))


async def hang(_: Call) -> None:
    """Never answers; ends when the client goes away."""
    await asyncio.Event().wait()
