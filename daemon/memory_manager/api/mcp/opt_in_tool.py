"""The tool with which an agent asks the owner to opt a memory in; it grants nothing."""

from __future__ import annotations

from typing import Final

from memory_manager.api.calls import Access
from memory_manager.api.mcp.running import Body, writing
from memory_manager.api.mcp.tool import Argument, Tool
from memory_manager.api.operations.opt_in import request_opt_in


def _asked(body: Body) -> str:
    if body.get("status") == "awaiting_owner":
        return "Asked; the owner decides"
    return "Nothing was filed: it waits or is opted in already"


OPT_IN_TOOL: Final = Tool(
    "request_opt_in",
    "Ask the owner to let hosted agents recall one memory; only the owner can grant it.",
    Access.WRITE,
    writing(request_opt_in, _asked),
    (
        Argument("memory_id", "id of the memory", required=True),
        Argument("reason", "why, for the owner"),
    ),
    idempotent=True,
)
