"""What a credential may ask about itself: is it valid, and revoke it (xmemo.md 6.1)."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from memory_manager.api.answers import json_response
from memory_manager.api.calls import Access, call_of
from memory_manager.api.errors import OutOfScope
from memory_manager.api.routing import Route, daemon_of
from memory_manager.auth.scopes import format_scopes
from memory_manager.vault import credentials
from memory_manager.vault.transaction import Transaction


async def validate(request: web.Request) -> web.Response:
    """Exactly 200 with the scopes; the checks answered 401 and 403 already."""
    caller = call_of(request).caller
    return json_response(
        {
            "status": "valid",
            "scopes": format_scopes(caller.scopes),
            "setup_state": "setup_completed",
        }
    )


async def revoke_self(request: web.Request) -> web.Response:
    """End the presented credential at once; the owner token ends with the daemon instead."""
    call = call_of(request)
    credential_id = call.caller.credential_id
    if call.caller.is_owner or credential_id is None:
        raise OutOfScope("The owner token ends when the memory service stops.")
    daemon = daemon_of(request)

    def revoke(transaction: Transaction) -> None:
        credentials.revoke(transaction, credential_id, actor=call.attribution)

    await daemon.writable_store().write(revoke)
    daemon.credentials_changed()
    return json_response({"status": "revoked"})


ROUTES: Final = (
    Route("GET", "/auth/token/validate", validate, Access.CREDENTIAL),
    Route("POST", "/auth/token/revoke-self", revoke_self, Access.CREDENTIAL),
)
