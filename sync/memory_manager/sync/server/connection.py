"""One connection to the server: counted, and bounded in time on every side."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from aiohttp import web

from memory_manager.base.http_connection import BoundedConnection
from memory_manager.sync.server.answers import fault_answer
from memory_manager.sync.server.credentials import counted_address
from memory_manager.sync.server.settings import Limits

MAX_LINE_BYTES: Final = 8_190


class Connections:
    """How many connections are open, in all and of one address; more are closed unread."""

    def __init__(self, limit: int, per_address: int | None = None) -> None:
        self._limit = limit
        self._per_address = per_address
        self._addresses: Counter[str] = Counter()

    @property
    def open(self) -> int:
        return self._addresses.total()

    def enter(self, address: str) -> bool:
        """Whether one more may come; then ``leave`` is to follow."""
        if self.open >= self._limit:
            return False
        if self._per_address is not None and self._addresses[address] >= self._per_address:
            return False
        self._addresses[address] += 1
        return True

    def leave(self, address: str) -> None:
        self._addresses[address] -= 1
        if self._addresses[address] <= 0:
            del self._addresses[address]


class SyncConnection(BoundedConnection):
    """A client that is one too many, or does not take its answer, is cut off."""

    __slots__ = ("_connections", "_counted", "_send_seconds")

    def __init__(
        self,
        server: web.Server,
        *,
        loop: asyncio.AbstractEventLoop,
        limits: Limits,
        connections: Connections,
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            fault=fault_answer,
            header_seconds=limits.header_seconds,
            keep_alive_seconds=limits.keep_alive_seconds,
            max_line_bytes=MAX_LINE_BYTES,
        )
        self._send_seconds = limits.send_seconds
        self._connections = connections
        self._counted: str | None = None  # the address it was let in under

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer: object = transport.get_extra_info("peername")
        address = counted_address(str(peer[0])) if isinstance(peer, tuple) and peer else ""
        if self._connections.enter(address):
            self._counted = address
        else:
            transport.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._counted is not None:
            self._connections.leave(self._counted)
            self._counted = None
        super().connection_lost(exc)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the answer, in the time that a slow but honest client needs."""
        try:
            async with asyncio.timeout(self._send_seconds):
                return await super().finish_response(request, resp, start_time)
        except TimeoutError:
            if self.transport is not None:
                self.transport.abort()
            raise ConnectionError("the client does not take its answer") from None
