"""The tool that says who the caller is to us (xmemo.md 11.5)."""

from __future__ import annotations

from typing import Final

from sqlcipher3.dbapi2 import Connection

from memory_manager.api.calls import Access
from memory_manager.api.errors import MissingCredential
from memory_manager.api.mcp import text
from memory_manager.api.mcp.tool import Tool, ToolAnswer, ToolCall
from memory_manager.auth.boundary import BOUNDARY_AUTHORITY, CURRENT_AGENT_TRUST
from memory_manager.auth.scopes import format_scopes
from memory_manager.vault.mcp_profiles import Profile, profile_of


async def _identity(asked: ToolCall) -> ToolAnswer:
    """Who the caller is to us: the account label first, then labels, rights and listing."""
    caller, identity = asked.call.caller, asked.call.identity
    credential_id = caller.credential_id
    if credential_id is None:
        raise MissingCredential

    def profile(connection: Connection) -> Profile:
        return profile_of(connection, credential_id)

    body: dict[str, object] = {
        "account": caller.name,
        "credential_id": credential_id,
        "agent_id": identity.agent_id,
        "agent_instance_id_hash": identity.instance_hash,
        "scopes": format_scopes(caller.scopes),
        "mcp_profile": (await asked.daemon.store().read(profile)).value,
        "boundary_authority": BOUNDARY_AUTHORITY,
        "current_agent_trust": CURRENT_AGENT_TRUST,
        "service": {"name": "memlocket", "version": asked.daemon.version},
    }
    lines = text.facts(
        [
            ("agent", identity.agent_id),
            ("installation", identity.instance_hash),
            ("scopes", ", ".join(format_scopes(caller.scopes))),
            ("tool listing", body["mcp_profile"]),
            ("service", f"memlocket {asked.daemon.version}, local"),
        ]
    )
    return ToolAnswer(f"{text.one_line(caller.name)}\n{lines}", body)


IDENTITY_TOOL: Final = Tool(
    "get_mcp_identity",
    "Show which account, agent and rights this connection has.",
    Access.MCP,
    _identity,
    read_only=True,
)
