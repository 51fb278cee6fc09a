"""Who looks at a page: the signed-in owner, on a connection of the owner's own processes.

Cookies are shared by all ports of a host, so on Linux the kernel must also say that the peer is
ours (desktop.md 11.7).
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web

from memory_manager.api.calls import Door, call_of
from memory_manager.api.errors import ForeignPeer, StaleForm, status_of
from memory_manager.api.oauth_wire import form_of
from memory_manager.api.pages.render import page
from memory_manager.api.pages.sessions import OwnerSessions, Session
from memory_manager.api.routing import RouteHandler
from memory_manager.auth import tcp_peer
from memory_manager.base.errors import MemlocketError
from memory_manager.service.daemon import Daemon

SESSIONS: Final = web.AppKey("owner_sessions", OwnerSessions)
PageHandler = Callable[[web.Request], Awaitable[web.Response]]


async def require_own_peer(request: web.Request) -> None:
    """ForeignPeer unless the other end belongs to our user, where the platform can tell."""
    if call_of(request).door is Door.UNIX or not tcp_peer.is_supported():
        return  # the checks asked the kernel already, or nobody can
    transport = request.transport
    if transport is None:
        raise ConnectionResetError
    local, remote = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
    uid = await asyncio.to_thread(tcp_peer.tcp_peer_uid, local[:2], remote[:2])
    if uid != os.getuid():
        raise ForeignPeer


async def session_of(request: web.Request) -> Session | None:
    """The session of the request's cookie; None for a browser that is not signed in."""
    sessions = request.app[SESSIONS]
    cookie = request.cookies.get(sessions.cookie_name)
    session = None if cookie is None else sessions.find(cookie)
    if session is not None:
        await require_own_peer(request)
    return session


def form_of_session(request: web.Request, session: Session) -> dict[str, str]:
    """The fields of a form; StaleForm unless it came from a page of this very session."""
    form = form_of(call_of(request))
    if not session.owns(form.get("csrf", "")):
        raise StaleForm
    return form


def wants_passphrase(daemon: Daemon) -> bool:
    """Whether an act of the owner needs the passphrase typed into its form."""
    return not daemon.lifecycle.status().insecure and not daemon.owner_is_present()


async def prove_owner(daemon: Daemon, form: dict[str, str]) -> None:
    """Take the passphrase of a form, if there is one; WrongPassphrase for a wrong one."""
    passphrase = form.get("passphrase", "")
    if passphrase:
        await asyncio.to_thread(daemon.lifecycle.unlock_with_passphrase, passphrase)


def sign_in(request: web.Request, user_code: str | None = None) -> web.Response:
    """How to sign in; the same for every request, so that it tells nothing about codes."""
    return page(request, "sign_in", 401, user_code=user_code)


def html_errors(handler: PageHandler) -> RouteHandler:
    """Errors of a page as a page for browsers; other clients get the JSON of every route."""

    @functools.wraps(handler)
    async def answered(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except MemlocketError as error:
            if "text/html" not in request.headers.get("Accept", ""):
                raise
            return page(
                request,
                "problem",
                status_of(error),
                title=error.title,
                problem=error.message,
                hint=error.hint,
            )

    return answered
