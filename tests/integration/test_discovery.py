"""Discovery, onboarding and metadata: W29, and that nothing leads elsewhere (xmemo.md 7)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sandbox_daemon import SandboxDaemon, Wire

DOCUMENTS = [
    "/.well-known/memory-os.json",
    "/.well-known/agent-discovery.json",
    "/.well-known/xmemo-agent.json",
    "/.well-known/oauth-authorization-server",
    "/.well-known/oauth-authorization-server/mcp",
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-protected-resource/mcp",
    "/v1/onboarding/status",
    "/api/v1/onboarding/status",
]
CLIENTS = ["cursor", "codex", "claude-code", "vscode", "zed", "gemini", "windsurf", "copilot-cli"]
HOSTS = ["127.0.0.1", "localhost", "[::1]"]


@pytest.fixture
def wire(served: SandboxDaemon) -> Iterator[Wire]:
    with Wire(served.url) as opened:
        yield opened


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for member in value.values():
            yield from texts(member)
    elif isinstance(value, list):
        for member in value:
            yield from texts(member)


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("path", [*DOCUMENTS, *(f"/v1/mcp/config/{name}" for name in CLIENTS)])
def test_every_address_has_the_base_that_was_asked(
    served: SandboxDaemon, wire: Wire, path: str, host: str
) -> None:
    port = served.url.rpartition(":")[2]
    answer = wire.send("GET", path, headers={"Host": f"{host}:{port}"})
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("application/json")
    addresses = [text for text in texts(answer.json) if "://" in text]
    assert all(text.startswith(f"http://{host}:{port}") for text in addresses), addresses
    text = json.dumps(answer.json)
    assert "xmemo.dev" not in text
    assert not re.search(r"mlk_[A-Za-z0-9_-]{43}", text)


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_json_content_type_without_a_body_is_fine(wire: Wire, path: str) -> None:
    assert wire.send("GET", path, headers={"Content-Type": "application/json"}).status == 200


def test_what_the_command_line_client_looks_at(wire: Wire) -> None:
    found = wire.get("/.well-known/memory-os.json").json
    assert found["service"] == "memory-os"
    assert found["version"].startswith("0.4.")
    assert found["server"]["name"] == "memlocket"
    assert found["server"]["version"] != found["version"]
    assert found["auth"]["token_env_var"] == "XMEMO_KEY"
    assert {"discover_service"} <= set(found["agent_boundary"]["client_allowed"])
    assert {"issue_token"} <= set(found["agent_boundary"]["admin_required"])
    assert wire.get("/health").json["version"] == found["version"]
    for entry in found["clients"]["mcp"]:
        path = entry["config_endpoint"].partition(found["urls"]["api_base"])[2]
        assert wire.get(path).json["client"] == entry["id"]


def test_what_its_doctor_looks_at(wire: Wire) -> None:
    found = wire.get("/.well-known/agent-discovery.json").json
    assert found["security"] == {"no_remote_code_execution": True, "token_in_discovery": False}
    assert found["auth"]["token_in_discovery"] is False
    assert found["service"] == "memory-os"
    root = found["urls"]["root_discovery"].partition(found["urls"]["api_base"])[2]
    assert wire.get(root).json["version"].startswith("0.4.")
    assert found["name"]
    assert found["schema_version"]
    assert found["protocol"]
    assert [client["id"] for client in found["clients"]] == found["supported_clients"]


def test_onboarding_leads_to_the_owners_page(wire: Wire) -> None:
    found = wire.get("/v1/onboarding/status").json
    assert found["ready"] is True
    assert found["requirements"]["token_required"] is True
    assert found["requirements"]["token_portal_url"].endswith("/me")


def test_the_metadata_names_one_issuer(wire: Wire) -> None:
    server = wire.get("/.well-known/oauth-authorization-server").json
    resource = wire.get("/.well-known/oauth-protected-resource/mcp").json
    assert resource["authorization_servers"] == [server["issuer"]]
    assert resource["resource"] == f"{server['issuer']}/mcp" == server["resource"]
    assert server["code_challenge_methods_supported"] == ["S256"]
    assert server["token_endpoint_auth_methods_supported"] == ["none"]


@pytest.mark.parametrize("client", ["nobody", "cursor%2F..", "CURSOR", "%00", "x" * 300])
def test_an_unknown_client_has_no_entry(wire: Wire, client: str) -> None:
    answer = wire.get(f"/v1/mcp/config/{client}")
    assert answer.status == 404
    assert answer.json["error"]["code"] == "route_not_found"


def test_a_poisoned_host_gets_no_document(
    served: SandboxDaemon, tcp: Callable[[int, bytes], Any]
) -> None:
    port = int(served.url.rpartition(":")[2])
    for host in (
        "evil.test", f"evil.test:{port}", f"127.0.0.1:{port}@evil.test", f"127.0.0.1:{port + 1}",
        f"127.0.0.1:{port}/x", "127.0.0.1", f"127.0.0.1.nip.io:{port}",
    ):  # fmt: skip
        request = f"GET {DOCUMENTS[0]} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        answer = tcp(port, request)
        assert answer.status == 421, host
        assert b"evil" not in answer.body
