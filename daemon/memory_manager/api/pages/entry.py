"""Signing in with a one-use code, and the pages anybody may read: guide, docs, style."""

from __future__ import annotations

import socket
from typing import Final

from aiohttp import web

from memory_manager.api.answers import json_response
from memory_manager.api.calls import Access, Door, call_of
from memory_manager.api.errors import OutOfScope
from memory_manager.api.pages import render
from memory_manager.api.pages.owner import SESSIONS, html_errors, require_own_peer, session_of
from memory_manager.api.pages.sessions import CODE_SECONDS
from memory_manager.api.routing import Route


async def new_code(request: web.Request) -> web.Response:
    """A sign-in code for the owner's browser; over the Unix socket wherever there is one."""
    call = call_of(request)
    if call.door is not Door.UNIX and hasattr(socket, "AF_UNIX"):
        raise OutOfScope("A sign-in code is given over the local socket only: memlocket open")
    code = request.app[SESSIONS].new_code()
    address = f"{call.base_url}/open?code={code}"
    return json_response({"url": address, "expires_in": CODE_SECONDS}, status=201)


async def open_session(request: web.Request) -> web.Response:
    """Exchange the code for a cookie. The page goes on to ``/me`` by itself, without a redirect."""
    await require_own_peer(request)
    sessions = request.app[SESSIONS]
    cookie = sessions.exchange(request.query.get("code", ""))
    if cookie is None:
        if await session_of(request) is not None:
            return render.page(request, "opened")  # the same link again in a signed-in browser
        return render.page(
            request, "sign_in", 403, user_code=None, problem="This link was used or is old."
        )
    response = render.page(request, "opened")
    response.set_cookie(sessions.cookie_name, cookie, path="/", httponly=True, samesite="Strict")
    return response


async def guide(request: web.Request) -> web.Response:
    return render.page(request, "guide", base=call_of(request).base_url)


async def docs(request: web.Request) -> web.Response:
    return render.page(request, "docs", base=call_of(request).base_url)


async def style(request: web.Request) -> web.Response:
    return render.stylesheet()


async def icon(request: web.Request) -> web.Response:
    return render.icon()


_OPEN: Final = html_errors(open_session)
ROUTES: Final = (
    Route("POST", "/owner/sign-in-code", new_code, Access.OWNER),
    Route("GET", "/open", _OPEN, Access.OPEN, at_root=True),
    Route("GET", "/guide", guide, Access.OPEN, at_root=True),
    Route("GET", "/docs", docs, Access.OPEN, at_root=True),
    Route("GET", "/pages/style.css", style, Access.OPEN, at_root=True),
    Route("GET", "/pages/icon.svg", icon, Access.OPEN, at_root=True),
)
