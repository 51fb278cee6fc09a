"""Whether the server lives: its version and nothing of anybody's vault."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from memory_manager.sync.server.answers import json_answer
from memory_manager.sync.server.call import Access, Call, Route


async def health(call: Call) -> web.StreamResponse:
    return json_answer({"status": "ok", "version": call.host.version})


ROUTES: Final = (Route("GET", "/v1/health", health, Access.OWN),)
