"""The consent of OAuth: the one place that redirects (xmemo.md 10).

A browser that is not signed in sees a code to approve in the terminal and waits; one that is sees
the question. What waits is named by a secret only its page knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from memory_manager.api.calls import Access
from memory_manager.api.errors import InvalidLogin
from memory_manager.api.login_approval import approve_login, login_json
from memory_manager.api.oauth_wire import bases_of
from memory_manager.api.pages.owner import (
    form_of_session,
    html_errors,
    prove_owner,
    session_of,
    sign_in,
    wants_passphrase,
)
from memory_manager.api.pages.render import page
from memory_manager.api.routing import Route, daemon_of
from memory_manager.api.rules import BodyType
from memory_manager.auth.logins import Login, LoginKind, LoginState, Redirect
from memory_manager.auth.oauth_rules import is_challenge, names_us, with_parameters
from memory_manager.auth.scopes import known_scopes
from memory_manager.base.errors import MemlocketError
from memory_manager.vault.errors import PassphraseRequired, WrongPassphrase

MAX_STATE_CHARACTERS: Final = 4_096
PATH: Final = "/oauth/authorize"


async def authorize(request: web.Request) -> web.Response:
    """A new request of a client, or one that waits, named by ``request``."""
    secret = request.query.get("request")
    if secret is not None:
        return await _answer(request, secret)
    daemon, query = daemon_of(request), request.query
    client = await daemon.logins.client(query.get("client_id", ""))
    if client is None:
        closed = " Unlock the vault and try again." if daemon.lifecycle.peek() is None else ""
        raise InvalidLogin(f"The program that sent you here is not registered.{closed}")
    redirect_uri = query.get("redirect_uri", "")
    if not redirect_uri and len(client.redirect_uris) == 1:
        redirect_uri = client.redirect_uris[0]
    if redirect_uri not in client.redirect_uris:
        raise InvalidLogin("The program that sent you here asks for an answer somewhere else.")
    state = query.get("state")
    error = _fault(query, bases_of(daemon))
    if error is not None:
        overlong = state is not None and len(state) > MAX_STATE_CHARACTERS
        return _redirect(redirect_uri, {"error": error, "state": None if overlong else state})
    _, secret = daemon.logins.desk.start(
        LoginKind.OAUTH,
        client.name,
        known_scopes(query.get("scope", "")),
        Redirect(client.id, redirect_uri, state, query["code_challenge"]),
    )
    return await _answer(request, secret)


_BAD: Final = "invalid_request"


def _fault(query: Mapping[str, str], bases: tuple[str, ...]) -> str | None:
    if query.get("response_type") != "code":
        return "unsupported_response_type"
    if not names_us(query.get("resource", ""), bases):
        return "invalid_target"
    if query.get("code_challenge_method") != "S256":
        return _BAD
    if not is_challenge(query.get("code_challenge", "")):
        return _BAD
    return _BAD if len(query.get("state", "")) > MAX_STATE_CHARACTERS else None


async def decide(request: web.Request) -> web.Response:
    """The owner's yes or no from the consent page; a yes is an admin act."""
    session = await session_of(request)
    if session is None:
        return sign_in(request)
    form = form_of_session(request, session)
    daemon, secret = daemon_of(request), form.get("request", "")
    login = daemon.logins.desk.find(secret)
    if login is None or login.state is not LoginState.PENDING:
        return await _answer(request, secret)
    if form.get("act") != "approve":
        daemon.logins.desk.decide(login.user_code, approve=False)
        return await _answer(request, secret)
    try:
        await prove_owner(daemon, form)
        await approve_login(daemon, login.user_code)
    except (PassphraseRequired, WrongPassphrase) as error:
        return await _answer(request, secret, problem=error)
    return await _answer(request, secret)


async def _answer(
    request: web.Request, secret: str, problem: MemlocketError | None = None
) -> web.Response:
    """The redirect once it is decided; until then the question, or the way to sign in."""
    daemon = daemon_of(request)
    desk = daemon.logins.desk
    login = desk.find(secret)
    if login is None or login.redirect is None or login.state is LoginState.DONE:
        raise InvalidLogin("This login has ended; start it again in the program.")
    if login.state is LoginState.DENIED:
        desk.finish(login)
        return _redirect_login(login, {"error": "access_denied"})
    if desk.claim(secret) is not None:
        desk.finish(login)
        code = daemon.logins.codes.issue(login.redirect, login.scopes)
        return _redirect_login(login, {"code": code})
    session = await session_of(request)
    return page(
        request,
        "waiting" if session is None else "consent",
        200 if problem is None else 403,
        signed_in=session is not None,
        csrf="" if session is None else session.csrf,
        login=login_json(desk, login),
        secret=secret,
        action=PATH,
        wants_passphrase=session is not None and wants_passphrase(daemon),
        vault=daemon.vault_state(),
        problem=None if problem is None else problem.message,
    )


def _redirect_login(login: Login, answer: Mapping[str, str]) -> web.Response:
    if login.redirect is None:
        raise InvalidLogin
    return _redirect(login.redirect.redirect_uri, {**answer, "state": login.redirect.state})


def _redirect(redirect_uri: str, answer: Mapping[str, str | None]) -> web.Response:
    return web.Response(status=302, headers={"Location": with_parameters(redirect_uri, answer)})


_AUTHORIZE: Final = html_errors(authorize)
_DECIDE: Final = html_errors(decide)
ROUTES: Final = (
    Route("GET", PATH, _AUTHORIZE, Access.OPEN, at_root=True),
    Route("POST", PATH, _DECIDE, Access.OPEN, at_root=True, body_type=BodyType.FORM),
)
