"""An HTTP connection of the daemon or the sync server: aiohttp's, without its leaks and without
endless waits.

Contract: desktop.md 9 (the parser answers 400 and logs with the offending bytes), xmemo.md A19.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from aiohttp import web

LINGER_SECONDS: Final = 1.0
MAX_HEADER_BYTES: Final = 8_190

# the log keeps no message of a record that is not an event of ours, so aiohttp may use it as it is
_log = logging.getLogger(__name__)


class BoundedConnection(web.RequestHandler):
    """Parser errors become ``fault(status)``; a client that sends no whole header in time is cut.

    Whoever takes a request calls ``request_arrived``.
    """

    __slots__ = ("_fault", "_header_seconds", "_header_timer")

    def __init__(
        self,
        server: web.Server,
        *,
        loop: asyncio.AbstractEventLoop,
        fault: Callable[[int], web.Response],
        header_seconds: float,
        keep_alive_seconds: float,
        max_line_bytes: int,
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            logger=_log,
            access_log=None,  # type: ignore[arg-type]  # documented as "off"
            keepalive_timeout=keep_alive_seconds,
            lingering_time=LINGER_SECONDS,
            max_line_size=max_line_bytes,
            max_field_size=MAX_HEADER_BYTES,
            auto_decompress=False,
        )
        self._fault = fault
        self._header_seconds = header_seconds
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        loop = asyncio.get_running_loop()
        self._header_timer = loop.call_later(self._header_seconds, transport.close)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.request_arrived()
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
        response = self._fault(status)
        response.force_close()
        return response

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the answer, unless another broke off: it would be read as a part of that one."""
        if not resp.prepared and request.writer.output_size > 0:
            raise ConnectionError("the answer has begun already")
        return await super().finish_response(request, resp, start_time)
