"""The HTTP connection of both doors: aiohttp's, without its leaks and without endless waits.

Contract: desktop.md 9 (the parser answers 400 and logs with the offending bytes), xmemo.md A19.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Final

from aiohttp import web

from memory_manager.api.answers import HTML_TYPE, JSON_TYPE, add_fixed_headers
from memory_manager.api.errors import RequestError, error_response
from memory_manager.base.errors import MemlocketError

HEADER_SECONDS: Final = 10.0
KEEP_ALIVE_SECONDS: Final = 75.0
LINGER_SECONDS: Final = 1.0
MAX_HEADER_BYTES: Final = 8_190
MAX_LINE_BYTES: Final = 65_536  # 4 000 characters of a query may take 12 bytes each in a URL

ALLOWED_TYPES: Final = frozenset({JSON_TYPE, HTML_TYPE, "application/x-ndjson"})

# the log keeps no message of a record that is not an event of ours, so aiohttp may use it as it is
_log = logging.getLogger(__name__)


class DoorProtocol(web.RequestHandler):
    """One connection: parser errors become our JSON error, a silent client is cut."""

    __slots__ = ("_header_timer",)

    def __init__(self, server: web.Server, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            server,
            loop=loop,
            logger=_log,
            access_log=None,  # type: ignore[arg-type]  # documented as "off"
            keepalive_timeout=KEEP_ALIVE_SECONDS,
            lingering_time=LINGER_SECONDS,
            max_line_size=MAX_LINE_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            auto_decompress=False,
        )
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        loop = asyncio.get_running_loop()
        self._header_timer = loop.call_later(HEADER_SECONDS, transport.close)

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
        response = _plain_error(status)
        response.force_close()
        return response

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Last look at every answer: nothing but our own types leaves, with our own headers."""
        if not resp.prepared:
            if request.writer.output_size > 0:
                # a stream broke off: a second answer inside it would be read as its content
                raise ConnectionError("the answer has begun already")
            if resp.status >= 400 and resp.content_type not in ALLOWED_TYPES:
                resp = _plain_error(resp.status)
            add_fixed_headers(resp)
        return await super().finish_response(request, resp, start_time)


def _plain_error(status: int) -> web.Response:
    error = RequestError() if status < 500 else MemlocketError()
    response = error_response(error, uuid.uuid4().hex)
    response.set_status(status)
    return response
