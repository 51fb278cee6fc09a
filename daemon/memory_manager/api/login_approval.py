"""A login that waits, as the owner sees it, and the owner's yes (xmemo.md 9 and 10)."""

from __future__ import annotations

from memory_manager.auth.logins import Login, LoginDesk
from memory_manager.auth.scopes import format_scopes
from memory_manager.service.daemon import Daemon


def login_json(desk: LoginDesk, login: Login) -> dict[str, object]:
    """What the owner must see before saying yes: who asks, for what, since when, by which code."""
    return {
        "user_code": login.user_code,
        "kind": login.kind.value,
        "client": login.name,
        "scopes": format_scopes(login.scopes),
        "age_seconds": desk.age_seconds(login),
        "expires_in": desk.seconds_left(login),
        "redirect_uri": None if login.redirect is None else login.redirect.redirect_uri,
    }


async def approve_login(daemon: Daemon, user_code: str) -> Login:
    """The owner's yes: an admin act, on an open vault. The code is looked up first."""
    desk = daemon.logins.desk
    desk.look_up(user_code)
    daemon.writable_store()
    await daemon.require_present_owner()
    return desk.decide(user_code, approve=True)
