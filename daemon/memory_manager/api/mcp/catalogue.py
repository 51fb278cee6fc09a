"""All tools by name, and what each profile lists of them (recall.md 13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memory_manager.api.mcp.core_tools import CORE_TOOLS
from memory_manager.api.mcp.memory_tools import MEMORY_TOOLS
from memory_manager.api.mcp.opt_in_tool import OPT_IN_TOOL
from memory_manager.api.mcp.record_tools import RECORD_TOOLS
from memory_manager.api.mcp.tool import Tool
from memory_manager.api.mcp.work_tools import WORK_TOOLS
from memory_manager.vault.mcp_profiles import Profile

ALL_TOOLS: Final = (*CORE_TOOLS, *MEMORY_TOOLS, *WORK_TOOLS, *RECORD_TOOLS, OPT_IN_TOOL)
TOOLS: Final[Mapping[str, Tool]] = {tool.name: tool for tool in ALL_TOOLS}
"""Every tool can be called by name, whatever the caller's profile lists."""

LISTED: Final[Mapping[Profile, list[dict[str, object]]]] = {
    Profile.CORE: [tool.listed(short=True) for tool in CORE_TOOLS],
    Profile.FULL: [tool.listed(short=False) for tool in ALL_TOOLS],
}
