"""The service itself: its status, its end, its derived indexes (desktop.md 9, 11.4)."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from memory_manager.api.answers import json_response
from memory_manager.api.calls import Access, call_of
from memory_manager.api.parsing import Fields
from memory_manager.api.routing import Route, daemon_of
from memory_manager.recall.rebuild import What
from memory_manager.service.status import daemon_status

_REBUILDS: Final = {what.value: what for what in What}


async def status(request: web.Request) -> web.Response:
    """States, versions and addresses; counts of the vault only for the owner."""
    known = call_of(request).caller.is_owner
    return json_response(await daemon_status(daemon_of(request), with_counts=known))


async def stop(request: web.Request) -> web.Response:
    """The daemon ends after this answer."""
    daemon_of(request).request_stop("owner")
    return json_response({"stopping": True}, status=202)


async def rebuild(request: web.Request) -> web.Response:
    """Compute derived indexes again from the memories."""
    fields = Fields.of_body(call_of(request).json_object())
    what = fields.choice("what", _REBUILDS) or What.ALL
    fields.check()
    daemon = daemon_of(request)
    daemon.writable_store()
    return json_response({"rebuilt": what.value, **await daemon.recall.rebuild(what)})


ROUTES: Final = (
    Route("GET", "/status", status, Access.LOCAL),
    Route("POST", "/daemon/stop", stop, Access.OWNER),
    Route("POST", "/recall/rebuild", rebuild, Access.OWNER),
)
