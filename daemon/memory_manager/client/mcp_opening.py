"""What an MCP client asks when it opens a server, answered while its access waits for approval.

Nothing here needs access: it is what the daemon tells everybody about its MCP server. Clients
give a server few seconds to open, a person may take longer. Standard library only. Contract:
xmemo.md 11.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from memory_manager.client.discovery import find_daemon
from memory_manager.client.errors import AwaitsApproval, OddAnswer
from memory_manager.client.http import DaemonConnection

CARD_PATH: Final = "/.well-known/mcp/server-card.json"
OPENING_SECONDS: Final = 2.0  # for the daemon to answer; it only hands out a document

_EMPTY: Final[Mapping[str, Mapping[str, object]]] = {
    "ping": {},
    "resources/list": {"resources": []},
    "resources/templates/list": {"resourceTemplates": []},
}
_LISTS: Final = {"tools/list": "tools", "prompts/list": "prompts"}

Json = Mapping[str, object]


def is_opening(method: object) -> bool:
    """Whether a client asks this before it wants anything of the memories."""
    return method == "initialize" or method in _LISTS or method in _EMPTY


def opening_result(message: Json, waiting: AwaitsApproval, environ: Mapping[str, str]) -> Json:
    """The result for a request that ``is_opening``."""
    method = str(message.get("method"))
    if method in _EMPTY:
        return _EMPTY[method]
    with DaemonConnection(find_daemon(environ), timeout_seconds=OPENING_SECONDS) as connection:
        card = connection.request("GET", CARD_PATH).body
    try:
        if method in _LISTS:
            return {_LISTS[method]: card[_LISTS[method]]}
        return {
            "protocolVersion": _version(message, cast("list[object]", card["protocolVersions"])),
            "capabilities": card["capabilities"],
            "serverInfo": card["serverInfo"],
            "instructions": f"{card['instructions']} {waiting.message} {waiting.hint}",
        }
    except (KeyError, IndexError, TypeError):
        raise OddAnswer from None


def _version(message: Json, known: list[object]) -> object:
    """The version that the client asked for, or the newest one we can offer instead."""
    params = message.get("params")
    asked = cast("Json", params).get("protocolVersion") if isinstance(params, dict) else None
    return asked if asked in known else known[-1]
