"""GET /v1/recall/footprint: sizes and times for ``memlocket bench``; no text (recall.md 12)."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from memory_manager.api.answers import json_response, json_text
from memory_manager.api.calls import Access
from memory_manager.api.mcp.catalogue import LISTED
from memory_manager.api.routing import Route, daemon_of
from memory_manager.recall.footprint import stored_bytes


async def footprint(request: web.Request) -> web.Response:
    """The start of this process, the indexes, and what ``tools/list`` costs in each profile."""
    daemon = daemon_of(request)
    stored = await daemon.store().read(stored_bytes)
    return json_response(
        {
            "start": daemon.start_times.as_json(daemon.recall.vectors_loaded),
            "index": {**daemon.recall.index_size(), "stored_bytes": stored},
            "tools_list": {
                profile.value: {
                    "tools": len(tools),
                    "bytes": len(json_text({"tools": tools}).encode()),
                }
                for profile, tools in LISTED.items()
            },
        }
    )


ROUTES: Final = (Route("GET", "/recall/footprint", footprint, Access.OWNER),)
