"""Pokes that the log went on: a WebSocket, or a request that waits (sync.md 9.1).

They carry a number that clients take as a hint. A wait ends with its session: when the device logs
in anew, is revoked, or the server stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Final

from aiohttp import WSCloseCode, WSMsgType, web

from memory_manager.base.errors import MemlocketError
from memory_manager.sync.server.answers import json_answer
from memory_manager.sync.server.call import Call, Route

MAX_WAIT_SECONDS: Final = 55
MAX_MESSAGE_BYTES: Final = 1_024
LOOK_SECONDS: Final = 30.0


async def notify(call: Call) -> web.StreamResponse:
    """A WebSocket where the client asks for one, else one long poll."""
    if call.request.headers.get("Upgrade", "").lower() == "websocket":
        return await _pokes(call)
    return await _poll(call)


async def _poll(call: Call) -> web.StreamResponse:
    session, host = call.session, call.host
    n = after = call.number("after", 0, 0)
    wait = call.number("wait", 0, 0, MAX_WAIT_SECONDS)
    try:
        async with host.waiters.waiting(session.vault, session.device):
            n = await host.storage.wait_beyond(session.vault, after, float(wait))
    except TimeoutError:
        n = after  # the wait was ended: the client asks again, and then hears why
    return json_answer({"n": n})


async def _pokes(call: Call) -> web.StreamResponse:
    limits = call.host.settings.limits
    socket = web.WebSocketResponse(
        heartbeat=limits.ping_seconds, compress=False, max_msg_size=MAX_MESSAGE_BYTES, timeout=5.0
    )
    await socket.prepare(call.request)
    try:
        async with call.host.waiters.waiting(call.session.vault, call.session.device):
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(_send(call, socket))
                await _until_closed(socket)
                sending.cancel()
    except* TimeoutError:
        pass
    except* (ConnectionError, MemlocketError):
        pass  # gone, or the vault is
    with contextlib.suppress(ConnectionError):
        await socket.close(code=WSCloseCode.GOING_AWAY)
    return socket


async def _send(call: Call, socket: web.WebSocketResponse) -> None:
    """Tell every advance, until the device has another session or none."""
    session, host = call.session, call.host
    n = -1
    while True:
        seconds = LOOK_SECONDS if n >= 0 else 0.0  # where the log stands is told at once
        found = await host.storage.wait_beyond(session.vault, max(n, 0), seconds)
        state = await host.storage.device(session.vault, session.device)
        if not state.is_active or state.session_epoch != session.epoch:
            raise TimeoutError
        if found > n:
            n = found
            await socket.send_str(json.dumps({"n": n}))
            host.metrics.count("pokes_sent")


async def _until_closed(socket: web.WebSocketResponse) -> None:
    """Read until the client goes; it has nothing to say, so a message ends it too."""
    while True:
        message = await socket.receive()
        if message.type not in (WSMsgType.PING, WSMsgType.PONG):
            return


ROUTES: Final = (Route("GET", "/v1/notify", notify),)
