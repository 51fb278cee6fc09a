"""JSON-RPC to /mcp by hand: what is tested is the wire, not a client's idea of it."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

from sandbox_daemon import Answer, Wire

MODERN = "2026-07-28"
_META = "io.modelcontextprotocol/"
_numbers = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class Told:
    """What a tool answered."""

    text: str
    is_error: bool
    body: Any  # the structured result, or the error


def rpc(wire: Wire, method: str, params: dict[str, Any] | None = None, **headers: str) -> Answer:
    """One request as an old client sends it."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": next(_numbers), "method": method}
    if params is not None:
        message["params"] = params
    return wire.post("/mcp", message, **headers)


def modern(wire: Wire, method: str, params: dict[str, Any] | None = None) -> Answer:
    """One request of the version without a handshake."""
    meta = {
        f"{_META}protocolVersion": MODERN,
        f"{_META}clientInfo": {"name": "test", "version": "1"},
        f"{_META}clientCapabilities": {},
    }
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    if params and "name" in params:
        headers["Mcp-Name"] = params["name"]
    return rpc(wire, method, {**(params or {}), "_meta": meta}, **headers)


def result(answer: Answer) -> dict[str, Any]:
    assert answer.status == 200, (answer.status, answer.body)
    assert "result" in answer.json, answer.body
    return answer.json["result"]  # type: ignore[no-any-return]


def tool(wire: Wire, name: str, /, **arguments: Any) -> Told:
    """Call a tool."""
    told = result(rpc(wire, "tools/call", {"name": name, "arguments": arguments}))
    (content,) = told["content"]
    is_error = told.get("isError", False)
    structured = told["structuredContent"]
    return Told(content["text"], is_error, structured["error" if is_error else "result"])


def listed(wire: Wire) -> list[str]:
    """Names of the listed tools."""
    return [entry["name"] for entry in result(rpc(wire, "tools/list"))["tools"]]
