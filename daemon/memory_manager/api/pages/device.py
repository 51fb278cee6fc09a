"""``/device``: the owner types or follows a user code and decides on that login (xmemo.md 9)."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from memory_manager.api.calls import Access
from memory_manager.api.login_approval import approve_login, login_json
from memory_manager.api.pages.owner import (
    form_of_session,
    html_errors,
    prove_owner,
    session_of,
    sign_in,
    wants_passphrase,
)
from memory_manager.api.pages.render import page
from memory_manager.api.pages.sessions import Session
from memory_manager.api.routing import Route, daemon_of
from memory_manager.api.rules import BodyType
from memory_manager.auth.logins import Login, plain_code
from memory_manager.base.errors import MemlocketError

MAX_SHOWN_CODE: Final = 16
PATH: Final = "/device"


async def show(request: web.Request) -> web.Response:
    """The question about one code, or a field for it."""
    session = await session_of(request)
    code = request.query.get("user_code", "")
    if session is None:
        return sign_in(request, _shown(code))
    if not plain_code(code):
        return _page(request, session, None)
    try:
        login = daemon_of(request).logins.desk.look_up(code)
    except MemlocketError as error:
        return _page(request, session, None, status=404, problem=error.message)
    return _page(request, session, login)


async def decide(request: web.Request) -> web.Response:
    session = await session_of(request)
    if session is None:
        return sign_in(request)
    form = form_of_session(request, session)
    daemon, code = daemon_of(request), form.get("user_code", "")
    login: Login | None = None
    try:
        login = daemon.logins.desk.look_up(code)
        if form.get("act") == "deny":
            daemon.logins.desk.decide(code, approve=False)
            said = f"Denied. {login.name} got nothing."
        elif form.get("act") == "approve":
            await prove_owner(daemon, form)
            await approve_login(daemon, code)
            said = f"Approved. {login.name} goes on by itself; you can close this page."
        else:
            return _page(request, session, login)
    except MemlocketError as error:
        return _page(request, session, login, status=403, problem=error.message)
    return _page(request, session, None, notice=said)


def _page(
    request: web.Request,
    session: Session,
    login: Login | None,
    *,
    status: int = 200,
    **said: str,
) -> web.Response:
    daemon = daemon_of(request)
    desk = daemon.logins.desk
    return page(
        request,
        "device",
        status,
        signed_in=True,
        csrf=session.csrf,
        login=None if login is None else login_json(desk, login),
        action=PATH,
        wants_passphrase=wants_passphrase(daemon),
        vault=daemon.vault_state(),
        **said,
    )


def _shown(code: str) -> str | None:
    """A code worth repeating in a command line: letters only, never what a link made up."""
    plain = plain_code(code)
    usable = plain.isascii() and plain.isalpha() and len(plain) <= MAX_SHOWN_CODE
    return f"{plain[:4]}-{plain[4:]}" if usable and len(plain) > 4 else None


_SHOW: Final = html_errors(show)
_DECIDE: Final = html_errors(decide)
ROUTES: Final = (
    Route("GET", PATH, _SHOW, Access.OPEN, at_root=True),
    Route("POST", PATH, _DECIDE, Access.OPEN, at_root=True, body_type=BodyType.FORM),
)
