"""Device login of command-line clients: start and poll (xmemo.md 9). Approval is the owner's.

``/auth/device/cancel`` is ours: a client that ends takes back what it asked for.
"""

from __future__ import annotations

from typing import Final, cast

from aiohttp import web

from memory_manager.api.answers import json_response
from memory_manager.api.calls import Access, call_of
from memory_manager.api.labels import declared_name
from memory_manager.api.oauth_wire import plain_error, plain_errors
from memory_manager.api.parsing import Fields
from memory_manager.api.routing import Route, daemon_of
from memory_manager.auth.logins import LIFE_SECONDS, LoginKind, Poll
from memory_manager.auth.scopes import Scope, format_scopes, known_scopes
from memory_manager.base.errors import MemlocketError
from memory_manager.vault.status import VaultState

MAX_CLIENT_CHARACTERS: Final = 256
MAX_CODE_CHARACTERS: Final = 256

_GRANT_TYPE: Final = "urn:ietf:params:oauth:grant-type:device_code"
_SAID: Final = {
    "authorization_pending": "The owner has not decided yet.",
    "slow_down": "Wait longer between two requests.",
    "access_denied": "The owner refused this login.",
    "expired_token": "This login has ended; start a new one.",
    "setup_required": "There is no vault yet: memlocket stop && memlocket init && memlocket up",
    "unsupported_grant_type": "Only the device code grant is known here.",
}


def refused(error: str) -> web.Response:
    """400 with one of the errors of this protocol."""
    return plain_error(error, _SAID[error])


def owner_account() -> dict[str, object]:
    """Who the client is logged in as. There is one owner, and nothing of them leaves here."""
    return {"user_id": "owner", "id": "owner", "name": "owner", "display_name": "Memlocket owner"}


def asked_scopes(value: object) -> frozenset[Scope]:
    """The known part of a list or of text with blanks between."""
    if isinstance(value, str):
        return known_scopes(value)
    if isinstance(value, list):
        return known_scopes([str(name) for name in cast("list[object]", value)])
    return known_scopes("")


async def start(request: web.Request) -> web.Response:
    """A request that waits for the owner; 200 with both codes."""
    call = call_of(request)
    body = call.json_object()
    fields = Fields.of_body(body)
    declared = (fields.text("client_id", limit=None) or "")[:MAX_CLIENT_CHARACTERS]
    fields.check()
    name = declared_name(declared)
    desk = daemon_of(request).logins.desk
    asked = body.get("scopes", body.get("scope"))
    login, device_code = desk.start(LoginKind.DEVICE, name, asked_scopes(asked))
    page = f"{call.base_url}/device"
    return json_response(
        {
            "device_code": device_code,
            "user_code": login.user_code,
            "verification_uri": page,
            "verification_uri_complete": f"{page}?user_code={login.user_code}",
            "interval": login.interval_seconds,
            "expires_in": LIFE_SECONDS,
        }
    )


async def poll(request: web.Request) -> web.Response:
    """The token, once, after the owner approved; otherwise 400 that says what to do."""
    fields = Fields.of_body(call_of(request).json_object())
    code = fields.text("device_code", limit=MAX_CODE_CHARACTERS) or ""
    grant_type = fields.text("grant_type", limit=MAX_CODE_CHARACTERS) or _GRANT_TYPE
    fields.check()
    if grant_type != _GRANT_TYPE:
        return refused("unsupported_grant_type")
    daemon = daemon_of(request)
    if daemon.lifecycle.state is VaultState.ABSENT:
        return refused("setup_required")
    answer, login = daemon.logins.desk.poll(code)
    if login is None:
        return refused(answer.value)
    try:
        credential, token = await daemon.logins.issue_key(login)
    except MemlocketError:
        # approved, but the vault was closed meanwhile: a client goes on polling until it opens
        return refused(Poll.PENDING.value)
    scope = " ".join(format_scopes(credential.scopes))
    return json_response(
        {
            "access_token": token,
            "token": token,
            "token_type": "Bearer",
            "scope": scope,
            "scopes": format_scopes(credential.scopes),
            "user": owner_account(),
        }
    )


async def cancel(request: web.Request) -> web.Response:
    """200 whether or not the code was known: it tells nobody which codes there are."""
    fields = Fields.of_body(call_of(request).json_object())
    code = fields.text("device_code", limit=MAX_CODE_CHARACTERS) or ""
    fields.check()
    daemon_of(request).logins.desk.withdraw(code)
    return json_response({"status": "cancelled"})


ROUTES: Final = (
    Route("POST", "/auth/device/start", plain_errors(start), Access.OPEN),
    Route("POST", "/auth/device/token", plain_errors(poll), Access.OPEN),
    Route("POST", "/auth/device/cancel", plain_errors(cancel), Access.OPEN),
)
