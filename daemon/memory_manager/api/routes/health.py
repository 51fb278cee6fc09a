"""GET /health and /ready: open to everybody, without counts, paths or names (xmemo.md 6.1)."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from memory_manager.api.answers import json_response
from memory_manager.api.calls import Access
from memory_manager.api.compatibility import COMPATIBLE_VERSION, SERVICE_NAME
from memory_manager.api.routing import Route, daemon_of


async def health(request: web.Request) -> web.Response:
    """Always 200 while the process answers, also with a locked vault."""
    daemon = daemon_of(request)
    return json_response(
        {
            "status": "ok",
            "service": SERVICE_NAME,
            "version": COMPATIBLE_VERSION,
            "vault": daemon.vault_state(),
            "embeddings": {"state": daemon.recall.status().get("state")},
        }
    )


async def ready(request: web.Request) -> web.Response:
    """200 when memories can be read; the typed refusal (503 while locked) otherwise."""
    daemon_of(request).store()
    return json_response({"status": "ready"})


ROUTES: Final = (
    Route("GET", "/health", health, Access.OPEN, at_root=True, limited=False),
    Route("GET", "/ready", ready, Access.OPEN, at_root=True, limited=False),
)
