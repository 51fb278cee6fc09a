"""The owner's own page: what waits, who has access, the vault; and every act on it as a form."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from sqlcipher3.dbapi2 import Connection

from memory_manager.api.calls import Access
from memory_manager.api.errors import StaleForm
from memory_manager.api.login_approval import approve_login, login_json
from memory_manager.api.pages.owner import (
    SESSIONS,
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
from memory_manager.auth.scopes import format_scopes
from memory_manager.base.errors import MemlocketError
from memory_manager.base.times import now_ms
from memory_manager.service.daemon import Daemon
from memory_manager.service.logins import OWNER_ACTOR
from memory_manager.vault import credentials, queries
from memory_manager.vault.credentials import Credential, Label
from memory_manager.vault.errors import LockReason
from memory_manager.vault.filters import RowFilter
from memory_manager.vault.settings import change_setting, read_settings
from memory_manager.vault.transaction import Transaction

Form = dict[str, str]
_ON: Final = {"on": True, "off": False}


async def _approve(daemon: Daemon, form: Form) -> str:
    await prove_owner(daemon, form)
    login = await approve_login(daemon, form.get("code", ""))
    return f"Approved: {login.name} has access now."


async def _deny(daemon: Daemon, form: Form) -> str:
    login = daemon.logins.desk.decide(form.get("code", ""), approve=False)
    return f"Denied: {login.name} got nothing."


async def _revoke(daemon: Daemon, form: Form) -> str:
    await prove_owner(daemon, form)
    store = daemon.writable_store()
    await daemon.require_present_owner()

    def work(transaction: Transaction) -> Credential:
        return credentials.revoke(transaction, form.get("id", ""), actor=OWNER_ACTOR)

    credential = await store.write(work)
    daemon.credentials_changed()
    return f"Revoked: {credential.name} has no access any more."


async def _unlock(daemon: Daemon, form: Form) -> str:
    passphrase = form.get("passphrase", "")
    await asyncio.to_thread(daemon.lifecycle.unlock_with_passphrase, passphrase)
    return "The vault is open."


async def _lock(daemon: Daemon, form: Form) -> str:
    await asyncio.to_thread(daemon.lifecycle.lock, LockReason.USER)
    return "The vault is locked."


async def _set(daemon: Daemon, form: Form) -> str:
    value = form.get("value", "")

    def work(transaction: Transaction) -> None:
        change_setting(transaction, form.get("name", ""), _ON.get(value, value), OWNER_ACTOR)

    await daemon.writable_store().write(work)
    return "Saved."


_ACTS: Final[dict[str, Callable[[Daemon, Form], Awaitable[str]]]] = {
    "approve": _approve,
    "deny": _deny,
    "revoke": _revoke,
    "unlock": _unlock,
    "lock": _lock,
    "set": _set,
}


async def show(request: web.Request) -> web.Response:
    session = await session_of(request)
    return sign_in(request) if session is None else await _me(request, session)


async def act(request: web.Request) -> web.Response:
    """Do what a form asks and show the page again, with what came of it."""
    session = await session_of(request)
    if session is None:
        return sign_in(request)
    form = form_of_session(request, session)
    if form.get("act") == "sign-out":
        request.app[SESSIONS].end(request.cookies[request.app[SESSIONS].cookie_name])
        return sign_in(request)
    work = _ACTS.get(form.get("act", ""))
    if work is None:
        raise StaleForm
    try:
        notice = await work(daemon_of(request), form)
    except MemlocketError as error:
        return await _me(request, session, problem=error.message)
    return await _me(request, session, notice=notice)


async def _me(request: web.Request, session: Session, **said: str) -> web.Response:
    daemon = daemon_of(request)
    desk = daemon.logins.desk
    store = daemon.lifecycle.peek()  # a page left open must not keep an idle vault open
    contents: dict[str, object] = {"agents": [], "memories": None, "waiting": 0, "settings": {}}
    if store is not None:
        contents = await store.read(_contents)
    return page(
        request,
        "me",
        signed_in=True,
        csrf=session.csrf,
        vault=daemon.vault_json(),
        wants_passphrase=wants_passphrase(daemon),
        logins=[login_json(desk, login) for login in desk.pending()],
        url=None if daemon.addresses is None else daemon.addresses.url,
        **contents,
        **said,
    )


def _contents(connection: Connection) -> dict[str, object]:
    now, seen = now_ms(), credentials.labels(connection)
    return {
        "agents": [
            _agent(credential, seen.get(credential.id, []), now)
            for credential in credentials.list_credentials(connection)
        ],
        "memories": queries.count_rows(connection, RowFilter(), now),
        "waiting": queries.count_awaiting_destruction(connection),
        "settings": read_settings(connection),
    }


def _agent(credential: Credential, labels: list[Label], now: int) -> dict[str, object]:
    used = credential.last_used_at_ms
    return {
        "id": credential.id,
        "name": credential.name,
        "kind": credential.kind.value,
        "scopes": format_scopes(credential.scopes),
        "created_seconds": max(0, now - credential.created_at_ms) // 1000,
        "used_seconds": None if used is None else max(0, now - used) // 1000,
        "names": sorted({label.agent_id for label in labels if label.agent_id}),
        "installations": len({label.instance_hash for label in labels if label.instance_hash}),
    }


_SHOW: Final = html_errors(show)
_ACT: Final = html_errors(act)
ROUTES: Final = (
    Route("GET", "/", _SHOW, Access.OPEN, at_root=True),
    Route("GET", "/me", _SHOW, Access.OPEN, at_root=True),
    Route("POST", "/me", _ACT, Access.OPEN, at_root=True, body_type=BodyType.FORM),
)
