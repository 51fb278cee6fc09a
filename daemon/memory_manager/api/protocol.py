"""The HTTP connection of both doors. Contract: desktop.md 9, xmemo.md A19."""

from __future__ import annotations

import asyncio
import uuid
from typing import Final

from aiohttp import web

from memory_manager.api.answers import HTML_TYPE, JSON_TYPE, add_fixed_headers
from memory_manager.api.errors import RequestError, error_response
from memory_manager.base.errors import MemlocketError
from memory_manager.base.http_connection import BoundedConnection

HEADER_SECONDS: Final = 10.0
KEEP_ALIVE_SECONDS: Final = 75.0
MAX_LINE_BYTES: Final = 65_536  # 4 000 characters of a query may take 12 bytes each in a URL

ALLOWED_TYPES: Final = frozenset({JSON_TYPE, HTML_TYPE, "application/x-ndjson"})


class DoorProtocol(BoundedConnection):
    """One connection: whatever leaves has a type and headers of ours."""

    __slots__ = ()

    def __init__(self, server: web.Server, *, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(
            server,
            loop=loop,
            fault=_plain_error,
            header_seconds=HEADER_SECONDS,
            keep_alive_seconds=KEEP_ALIVE_SECONDS,
            max_line_bytes=MAX_LINE_BYTES,
        )

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Last look at every answer: nothing but our own types leaves, with our own headers."""
        if not resp.prepared:
            if resp.status >= 400 and resp.content_type not in ALLOWED_TYPES:
                resp = _plain_error(resp.status)
            add_fixed_headers(resp)
        return await super().finish_response(request, resp, start_time)


def _plain_error(status: int) -> web.Response:
    error = RequestError() if status < 500 else MemlocketError()
    response = error_response(error, uuid.uuid4().hex)
    response.set_status(status)
    return response
