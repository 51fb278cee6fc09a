"""All tools by name, and what each profile lists of them (recall.md 13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlcipher3.dbapi2 import Connection

from memory_manager.api.calls import Call
from memory_manager.api.mcp.core_tools import CORE_TOOLS
from memory_manager.api.mcp.memory_tools import MEMORY_TOOLS
from memory_manager.api.mcp.opt_in_tool import OPT_IN_TOOL
from memory_manager.api.mcp.record_tools import RECORD_TOOLS
from memory_manager.api.mcp.tool import Tool
from memory_manager.api.mcp.work_tools import WORK_TOOLS
from memory_manager.base.errors import MemlocketError
from memory_manager.service.daemon import Daemon
from memory_manager.vault.mcp_profiles import Profile, profile_of

ALL_TOOLS: Final = (*CORE_TOOLS, *MEMORY_TOOLS, *WORK_TOOLS, *RECORD_TOOLS, OPT_IN_TOOL)
TOOLS: Final[Mapping[str, Tool]] = {tool.name: tool for tool in ALL_TOOLS}
"""Every tool can be called by name, whatever the caller's profile lists."""

LISTED: Final[Mapping[Profile, list[dict[str, object]]]] = {
    Profile.CORE: [tool.listed(short=True) for tool in CORE_TOOLS],
    Profile.FULL: [tool.listed(short=False) for tool in ALL_TOOLS],
}


async def listed_profile(daemon: Daemon, call: Call) -> Profile:
    """What the caller is listed; a closed vault lists the core tools at once."""
    credential_id = call.caller.credential_id
    if credential_id is None:
        return Profile.CORE

    def read(connection: Connection) -> Profile:
        return profile_of(connection, credential_id)

    try:
        return await daemon.store().read(read)
    except MemlocketError:
        return Profile.CORE
