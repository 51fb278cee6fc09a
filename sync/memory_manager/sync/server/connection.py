"""One connection: aiohttp's, bounded in time on every side and silent about what it was sent."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Final

from aiohttp import web

from memory_manager.sync.server.answers import fault_answer
from memory_manager.sync.server.credentials import counted_address
from memory_manager.sync.server.settings import Limits

MAX_HEADER_BYTES: Final = 8_190
MAX_LINE_BYTES: Final = 8_190
LINGER_SECONDS: Final = 1.0

# the log keeps no message of a record that is not an event of ours, so aiohttp may use it as it is
_log = logging.getLogger(__name__)


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


class SyncConnection(web.RequestHandler):
    """A client that sends no whole header in time, or does not take its answer, is cut off."""

    __slots__ = ("_connections", "_counted", "_header_timer", "_limits")

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
            logger=_log,
            access_log=None,  # type: ignore[arg-type]  # documented as "off"
            keepalive_timeout=limits.keep_alive_seconds,
            lingering_time=LINGER_SECONDS,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            auto_decompress=False,
        )
        self._limits = limits
        self._connections = connections
        self._counted: str | None = None  # the address it was let in under
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer: object = transport.get_extra_info("peername")
        address = counted_address(str(peer[0])) if isinstance(peer, tuple) and peer else ""
        if not self._connections.enter(address):
            transport.close()
            return
        self._counted = address
        loop = asyncio.get_running_loop()
        self._header_timer = loop.call_later(self._limits.header_seconds, transport.close)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.request_arrived()
        if self._counted is not None:
            self._connections.leave(self._counted)
            self._counted = None
        super().connection_lost(exc)

    def request_arrived(self) -> None:
        """The first request is complete up to its body: from here other limits apply."""
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer without an echo of the request; only the exception's class is logged."""
        self.request_arrived()
        _log.warning("http_error", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun already")
        response = fault_answer(status)
        response.force_close()
        return response

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the answer, in the time that a slow but honest client needs."""
        if not resp.prepared and request.writer.output_size > 0:
            raise ConnectionError("the answer has begun already")
        try:
            async with asyncio.timeout(self._limits.send_seconds):
                return await super().finish_response(request, resp, start_time)
        except TimeoutError:
            if self.transport is not None:
                self.transport.abort()
            raise ConnectionError("the client does not take its answer") from None
