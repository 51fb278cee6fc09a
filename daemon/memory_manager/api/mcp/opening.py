"""What clients ask when they open /mcp, answered while the SDK is still being loaded.

These answers are constants and the caller's list of tools. Only messages in exactly the form that
clients send are answered; any other waits for the SDK, which judges it. Nothing of the SDK here.
Contract: xmemo.md 11.1, recall.md 13.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from aiohttp import web

from memory_manager.api.answers import JSON_TYPE, json_response
from memory_manager.api.calls import Call
from memory_manager.api.mcp.catalogue import LISTED, listed_profile
from memory_manager.api.mcp.introduction import (
    CAPABILITIES,
    HANDSHAKE_VERSIONS,
    INSTRUCTIONS,
    SELF_CONTAINED_VERSION,
    server_info,
)
from memory_manager.api.mcp.prompts import PROMPTS
from memory_manager.service.daemon import Daemon

VERSION_HEADER: Final = "MCP-Protocol-Version"
METHOD_HEADER: Final = "Mcp-Method"
NAME_HEADER: Final = "Mcp-Name"

_META: Final = "io.modelcontextprotocol/"
_VERSION_KEY: Final = f"{_META}protocolVersion"
_CLIENT_KEY: Final = f"{_META}clientInfo"
_ABILITIES_KEY: Final = f"{_META}clientCapabilities"
_SERVER_KEY: Final = f"{_META}serverInfo"

_LISTS: Final = frozenset(
    {"tools/list", "prompts/list", "resources/list", "resources/templates/list"}
)

Json = Mapping[str, object]


async def opening_answer(
    daemon: Daemon, call: Call, message: Json, headers: Mapping[str, str]
) -> web.Response | None:
    """The answer that the SDK would give; None for what only the SDK answers."""
    method, version = message.get("method"), headers.get(VERSION_HEADER, "").strip()
    if "id" not in message:
        noted = method == "notifications/initialized" and _is_handshake(version)
        plain = noted and _is_plain(message.get("params"))
        return web.Response(status=202, content_type=JSON_TYPE) if plain else None
    if message["id"] is None or not isinstance(method, str):
        return None
    if _is_handshake(version):
        result = await _after_handshake(daemon, call, method, message.get("params"))
    elif _is_self_contained(method, message.get("params"), version, headers):
        result = await _self_contained(daemon, call, method)
    else:
        result = None
    if result is None:
        return None
    return json_response({"jsonrpc": "2.0", "id": message["id"], "result": result})


# -- versions that begin with ``initialize``


def _is_handshake(version: str) -> bool:
    return not version or version in HANDSHAKE_VERSIONS


def _is_plain(params: object) -> bool:
    """No parameters but, at most, a token for progress that nobody will report."""
    if params is None:
        return True
    if not isinstance(params, dict):
        return False
    known = cast("dict[str, object]", params)
    meta = known.get("_meta", {})
    if not known.keys() <= {"_meta"} or not isinstance(meta, dict):
        return False
    tokens = cast("dict[str, object]", meta)
    return tokens.keys() <= {"progressToken"} and all(
        isinstance(token, str | int) and not isinstance(token, bool) for token in tokens.values()
    )


async def _after_handshake(daemon: Daemon, call: Call, method: str, params: object) -> Json | None:
    if method == "initialize":
        version = _asked_version(params)
        if version is None:
            return None
        return {
            "protocolVersion": version if version in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[-1],
            "capabilities": CAPABILITIES,
            "serverInfo": server_info(daemon.version),
            "instructions": INSTRUCTIONS,
        }
    if not _is_plain(params):
        return None
    return {} if method == "ping" else await _listing(daemon, call, method)


def _asked_version(params: object) -> str | None:
    """The version in parameters of ``initialize`` that are whole."""
    known = _object(params)
    version, client = known.get("protocolVersion"), known.get("clientInfo")
    whole = set(known) == {"protocolVersion", "capabilities", "clientInfo"}
    if whole and _is_abilities(known.get("capabilities")) and _is_program(client):
        return version if isinstance(version, str) else None
    return None


# -- the version whose requests carry everything


def _is_self_contained(
    method: str, params: object, version: str, headers: Mapping[str, str]
) -> bool:
    known = _object(params)
    meta = _object(known.get("_meta"))
    return (
        version == SELF_CONTAINED_VERSION
        and set(known) == {"_meta"}
        and meta.keys() <= {_VERSION_KEY, _CLIENT_KEY, _ABILITIES_KEY}
        and meta.get(_VERSION_KEY) == version
        and _is_abilities(meta.get(_ABILITIES_KEY))
        and (_CLIENT_KEY not in meta or _is_program(meta[_CLIENT_KEY]))
        and headers.get(METHOD_HEADER) == method
        and NAME_HEADER not in headers
    )


async def _self_contained(daemon: Daemon, call: Call, method: str) -> Json | None:
    if method == "server/discover":
        result: Json | None = {
            "supportedVersions": [SELF_CONTAINED_VERSION],
            "capabilities": CAPABILITIES,
            "instructions": INSTRUCTIONS,
        }
    else:
        result = await _listing(daemon, call, method)
    if result is None:
        return None
    return {
        **result,
        "resultType": "complete",
        "cacheScope": "private",
        "ttlMs": 0,
        "_meta": {_SERVER_KEY: server_info(daemon.version)},
    }


# -- both


async def _listing(daemon: Daemon, call: Call, method: str) -> Json | None:
    if method not in _LISTS:
        return None
    if method == "tools/list":
        return {"tools": LISTED[await listed_profile(daemon, call)]}
    if method == "prompts/list":
        return {"prompts": [prompt.listed() for prompt in PROMPTS.values()]}
    return {"resources": []} if method == "resources/list" else {"resourceTemplates": []}


def _object(value: object) -> Json:
    return cast("Json", value) if isinstance(value, dict) else {}


def _is_abilities(value: object) -> bool:
    """Capabilities as clients state them: objects by name, whatever is in them."""
    return isinstance(value, dict) and all(
        isinstance(one, dict) for one in cast("Json", value).values()
    )


def _is_program(value: object) -> bool:
    known = _object(value)
    return isinstance(known.get("name"), str) and isinstance(known.get("version"), str)
