"""How many MCP tools a credential sees listed, decided by the owner (recall.md 13)."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from memory_manager.api.answers import json_response
from memory_manager.api.calls import Access, call_of
from memory_manager.api.parsing import Fields
from memory_manager.api.routing import Route, daemon_of
from memory_manager.base.errors import NotFound
from memory_manager.vault import credentials
from memory_manager.vault.mcp_profiles import Profile, set_profile
from memory_manager.vault.transaction import Transaction

_PROFILES: Final = {profile.value: profile for profile in Profile}


async def choose_profile(request: web.Request) -> web.Response:
    """Counts from the credential's next listing on; no right changes, so no passphrase is asked."""
    fields = Fields.of_body(call_of(request).json_object())
    profile = fields.choice("mcp_profile", _PROFILES)
    if profile is None:
        fields.required_text("mcp_profile")
    fields.check()
    wanted = request.match_info["agent"]

    def choose(transaction: Transaction) -> dict[str, object]:
        found = credentials.find(transaction.connection, wanted)
        if found is None or found.revoked_at_ms is not None or profile is None:
            raise NotFound("There is no such agent credential.")
        set_profile(transaction, found.id, profile)
        return {"id": found.id, "name": found.name, "mcp_profile": profile.value}

    return json_response(await daemon_of(request).writable_store().write(choose))


ROUTES: Final = (Route("POST", "/agents/{agent}/mcp-profile", choose_profile, Access.OWNER),)
