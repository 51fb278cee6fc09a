"""The documents by which public clients find their way (xmemo.md 7, 10, 11.7).

Every address is built from the base of the request; none holds a token, and none names another
service, because clients copy what they find into the settings of editors.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memory_manager.api.compatibility import (
    COMPATIBLE_VERSION,
    PROTECTED_RESOURCE_PATH,
    SERVICE_NAME,
    TOKEN_VARIABLE,
)
from memory_manager.api.operations.skill import OPERATION_NAMES
from memory_manager.auth.agent_identity import AGENT_HEADER, INSTANCE_HEADER
from memory_manager.auth.boundary import BOUNDARY_AUTHORITY
from memory_manager.auth.scopes import ALL_SCOPES, MEMORY_SCOPES, format_scopes

PRODUCT_NAME: Final = "Memlocket"
INSTANCE_VARIABLE: Final = "XMEMO_AGENT_INSTANCE_ID"

_CLIENT_MAY: Final = (
    "discover_service",
    "check_health",
    "start_device_login",
    "register_oauth_client",
    "use_granted_scopes",
    "revoke_own_token",
)
_OWNER_ONLY: Final = (
    "approve_login",
    "issue_token",
    "revoke_other_tokens",
    "unlock_vault",
    "export_memories",
    "destroy_memories",
    "change_settings",
)


def _boundary() -> dict[str, object]:
    return {
        "client_allowed": list(_CLIENT_MAY),
        "admin_required": list(_OWNER_ONLY),
        "boundary_authority": BOUNDARY_AUTHORITY,
    }


def _server(own_version: str) -> dict[str, object]:
    return {"name": "memlocket", "version": own_version}


def _urls(base: str) -> dict[str, object]:
    return {
        "api_base": base,
        "mcp": f"{base}/mcp",
        "guide": f"{base}/guide",
        "docs": f"{base}/docs",
        "token_portal": f"{base}/me",
        "onboarding_status": f"{base}/v1/onboarding/status",
        "root_discovery": f"{base}/.well-known/memory-os.json",
        "agent_discovery": f"{base}/.well-known/agent-discovery.json",
    }


def _clients(base: str) -> list[dict[str, object]]:
    return [{"id": name, "config_endpoint": f"{base}/v1/mcp/config/{name}"} for name in MCP_CLIENTS]


def memory_os(base: str, own_version: str) -> dict[str, object]:
    """``/.well-known/memory-os.json``."""
    return {
        "service": SERVICE_NAME,
        "name": PRODUCT_NAME,
        "version": COMPATIBLE_VERSION,
        "server": _server(own_version),
        "urls": _urls(base),
        "api_base_url": base,
        "mcp_url": f"{base}/mcp",
        "token_portal_url": f"{base}/me",
        "onboarding_status_url": f"{base}/v1/onboarding/status",
        "clients": {"mcp": _clients(base)},
        "auth": _auth(base),
        "agent_boundary": _boundary(),
    }


def _auth(base: str) -> dict[str, object]:
    return {
        "token_env_var": TOKEN_VARIABLE,
        "token_in_discovery": False,
        "device_login": f"{base}/v1/auth/device/start",
        "oauth": f"{base}{PROTECTED_RESOURCE_PATH}",
        "scopes": format_scopes(ALL_SCOPES),
    }


def agent_discovery(base: str, own_version: str) -> dict[str, object]:
    """``/.well-known/agent-discovery.json``; three of its values are looked at exactly."""
    return {
        "service": SERVICE_NAME,
        "name": PRODUCT_NAME,
        "schema_version": "1.0",
        "protocol": "mcp",
        "service_version": COMPATIBLE_VERSION,
        "version": COMPATIBLE_VERSION,
        "server": _server(own_version),
        "urls": _urls(base),
        "api": {"base": base, "mcp": {"url": f"{base}/mcp", "transport": "streamable-http"}},
        "mcp_url": f"{base}/mcp",
        "clients": _clients(base),
        "supported_clients": list(MCP_CLIENTS),
        "standalone_skill": {
            "status": "available",
            "runtime_model": "remote_api",
            "package": {"version": COMPATIBLE_VERSION},
            "operations": sorted(OPERATION_NAMES),
            "auth": {"default_scopes": format_scopes(ALL_SCOPES)},
        },
        "security": {"no_remote_code_execution": True, "token_in_discovery": False},
        "auth": _auth(base),
        "agent_boundary": _boundary(),
    }


def onboarding_status(base: str, *, has_vault: bool) -> dict[str, object]:
    """``/v1/onboarding/status``: whether a login can begin, and where the owner decides on it."""
    return {
        "ready": has_vault,
        "requirements": {
            "token_portal_url": f"{base}/me",
            "token_env_var": TOKEN_VARIABLE,
            "token_required": True,
        },
        "agent_boundary": _boundary(),
    }


def authorization_server(base: str) -> dict[str, object]:
    """RFC 8414; ``issuer`` equals the entry of ``protected_resource``."""
    return {
        "issuer": base,
        "authorization_endpoint": f"{base}/oauth/authorize",
        "token_endpoint": f"{base}/oauth/token",
        "registration_endpoint": f"{base}/oauth/register",
        "revocation_endpoint": f"{base}/oauth/revoke",
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "scopes_supported": format_scopes(MEMORY_SCOPES),
        "resource": f"{base}/mcp",
        "mcp_endpoint": f"{base}/mcp",
    }


def protected_resource(base: str) -> dict[str, object]:
    """RFC 9728."""
    return {
        "resource": f"{base}/mcp",
        "authorization_servers": [base],
        "scopes_supported": format_scopes(MEMORY_SCOPES),
        "bearer_methods_supported": ["header"],
        "resource_name": PRODUCT_NAME,
    }


def _by_url(base: str, name: str) -> dict[str, object]:
    return {
        "url": f"{base}/mcp",
        "headers": {
            "Authorization": f"Bearer ${{env:{TOKEN_VARIABLE}}}",
            AGENT_HEADER: name,
            INSTANCE_HEADER: f"${{env:{INSTANCE_VARIABLE}}}",
        },
    }


def _by_shim(base: str, name: str) -> dict[str, object]:
    return {"command": "memlocket", "args": ["mcp", "--client", name]}


def _by_oauth(base: str, name: str) -> dict[str, object]:
    return {"type": "http", "url": f"{base}/mcp"}


def _gemini(base: str, name: str) -> dict[str, object]:
    return {"httpUrl": f"{base}/mcp", "oauth": {"enabled": True}}


def _codex(base: str, name: str) -> dict[str, object]:
    return {
        "url": f"{base}/mcp",
        "bearer_token_env_var": TOKEN_VARIABLE,
        "http_headers": {AGENT_HEADER: name},
        "env_http_headers": {INSTANCE_HEADER: INSTANCE_VARIABLE},
    }


_SERVERS: Final = "mcpServers"
MCP_CLIENTS: Final = {
    "antigravity": (_SERVERS, _by_oauth),
    "claude-code": (_SERVERS, _by_shim),
    "claude-desktop": (_SERVERS, _by_shim),
    "codex": ("mcp_servers", _codex),
    "copilot-cli": (_SERVERS, _by_shim),
    "cursor": (_SERVERS, _by_url),
    "devin": (_SERVERS, _by_shim),
    "gemini": (_SERVERS, _gemini),
    "kiro": (_SERVERS, _by_shim),
    "opencode": ("mcp", _by_oauth),
    "qwen": (_SERVERS, _by_oauth),
    "trae": (_SERVERS, _by_shim),
    "vscode": ("servers", _by_oauth),
    "windsurf": (_SERVERS, _by_url),
    "zed": ("context_servers", _by_shim),
}
"""Each client's name for the list of servers, and how its entry is made."""


def mcp_config(base: str, client: str) -> Mapping[str, object] | None:
    """The entry for one client's settings, without any token; None for a client nobody knows."""
    found = MCP_CLIENTS.get(client)
    if found is None:
        return None
    key, entry = found
    return {
        "client": client,
        "format": "toml" if client == "codex" else "json",
        "token_env_var": TOKEN_VARIABLE,
        "config": {key: {"memlocket": entry(base, client)}},
    }
