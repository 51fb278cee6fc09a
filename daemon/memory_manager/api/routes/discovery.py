"""Discovery, onboarding and OAuth metadata: open to everybody, without any secret (xmemo.md 7)."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from memory_manager.api import discovery_documents as documents
from memory_manager.api.answers import json_response
from memory_manager.api.calls import Access, call_of
from memory_manager.api.compatibility import AUTHORIZATION_SERVER_PATH, PROTECTED_RESOURCE_PATH
from memory_manager.api.errors import NoSuchRoute
from memory_manager.api.mcp.introduction import CARD_PATH, server_card
from memory_manager.api.routing import Route, RouteHandler, daemon_of
from memory_manager.vault.status import VaultState


async def memory_os(request: web.Request) -> web.Response:
    version = daemon_of(request).version
    return json_response(documents.memory_os(call_of(request).base_url, version))


async def agent_discovery(request: web.Request) -> web.Response:
    version = daemon_of(request).version
    return json_response(documents.agent_discovery(call_of(request).base_url, version))


async def onboarding_status(request: web.Request) -> web.Response:
    """Ready once there is a vault; a locked one only makes the owner unlock it first."""
    has_vault = daemon_of(request).lifecycle.state is not VaultState.ABSENT
    base = call_of(request).base_url
    return json_response(documents.onboarding_status(base, has_vault=has_vault))


async def mcp_config(request: web.Request) -> web.Response:
    """The settings entry of one MCP client; 404 for a client nobody knows."""
    found = documents.mcp_config(call_of(request).base_url, request.match_info["client"])
    if found is None:
        raise NoSuchRoute("There is no entry for this client.")
    return json_response(found)


async def mcp_server_card(request: web.Request) -> web.Response:
    return json_response(server_card(daemon_of(request).version))


async def authorization_server(request: web.Request) -> web.Response:
    return json_response(documents.authorization_server(call_of(request).base_url))


async def protected_resource(request: web.Request) -> web.Response:
    return json_response(documents.protected_resource(call_of(request).base_url))


def _at_root(path: str, handler: RouteHandler) -> Route:
    return Route("GET", path, handler, Access.OPEN, at_root=True)


ROUTES: Final = (
    _at_root("/.well-known/memory-os.json", memory_os),
    _at_root("/.well-known/agent-discovery.json", agent_discovery),
    _at_root("/.well-known/xmemo-agent.json", agent_discovery),
    _at_root(CARD_PATH, mcp_server_card),
    _at_root(AUTHORIZATION_SERVER_PATH, authorization_server),
    _at_root(f"{AUTHORIZATION_SERVER_PATH}/mcp", authorization_server),
    _at_root(PROTECTED_RESOURCE_PATH, protected_resource),
    _at_root(f"{PROTECTED_RESOURCE_PATH}/mcp", protected_resource),
    Route("GET", "/onboarding/status", onboarding_status, Access.OPEN),
    Route("GET", "/mcp/config/{client}", mcp_config, Access.OPEN),
)
