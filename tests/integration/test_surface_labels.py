"""Secrets as labels: agent ids, names and addresses of clients, and what MCP errors repeat."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from leak_scan import scan_bytes, scan_folders
from made_up_token import token_of
from mcp_wire import rpc, tool
from oauth_client import REDIRECT_URI, granted_code, register
from opened_vault import opened
from sandbox_daemon import SandboxDaemon, Wire, running


def test_secrets_as_labels_reach_neither_disk_nor_log(tmp_path: Path) -> None:
    secrets = {name: token_of(name) for name in ("header", "instance", "argument", "name", "uri")}
    headers = {"agent": secrets["header"], "instance": secrets["instance"]}
    answers: list[bytes] = []
    with running(tmp_path / "home") as daemon:
        with daemon.wire(daemon.add_agent("labelled"), **headers) as wire:
            stored = wire.remember("written under an odd label")
            item = wire.get(f"/v1/memories/{stored['id']}").json
            assert item["agent_boundary"]["relation"] == "self"
            del wire.headers["X-Memory-OS-Agent-ID"]
            tool(wire, "record_event", content="an event", agent_id=secrets["argument"])
            answers.append(wire.get("/v1/audit/events").body)
        with Wire(daemon.url) as wire, daemon.owner() as owner:
            odd = f"{REDIRECT_URI}?key={secrets['uri']}"
            client = register(wire, secrets["name"], odd, REDIRECT_URI)
            assert client.redeem(granted_code(client, owner)).status == 200
            answers.append(owner.get("/v1/agents").body)
        assert daemon.stop() == 0
        plain = bytearray(b"\n".join(answers))
        with opened(daemon) as connection:
            for table in (
                "audit",
                "credential_label",
                "credential",
                "oauth_client",
                "record_version",
            ):
                rows = connection.execute(f'SELECT * FROM "{table}"').fetchall()
                assert rows, table
                plain += json.dumps(rows, default=repr, ensure_ascii=False).encode()
        assert REDIRECT_URI.encode() in plain
        assert list(scan_bytes(bytes(plain), secrets)) == []
        assert scan_folders([daemon.home], secrets) == []


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "method": "tools/call", "params": {"name": "recall"}},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": "SECRET"},
        {"jsonrpc": "2.0", "id": 1, "method": ["SECRET"]},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/SECRET"},
        {"jsonrpc": "2.0", "id": 1, "error": "SECRET"},
        {"jsonrpc": "2.0", "id": {"a": "SECRET"}, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1.5, "method": "ping", "params": {"a": "SECRET"}},
        {"jsonrpc": "2.0", "id": True, "method": "ping"},
        [{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"a": "SECRET"}}],
    ],
    ids=[
        "version",
        "params",
        "method",
        "unknown",
        "error",
        "id-object",
        "id-part",
        "id-flag",
        "batch",
    ],
)
def test_an_error_of_mcp_repeats_nothing_of_the_request(
    served: SandboxDaemon, agent: Wire, message: object
) -> None:
    words = "quartz-heron-51"
    body = json.dumps(message).replace("SECRET", words).encode()
    answer = agent.send("POST", "/mcp", body)
    assert answer.json["error"]["code"] in (-32600, -32601)
    assert answer.json["error"]["message"]
    assert words.encode() not in answer.body
    assert b"input" not in answer.body
    assert int(answer.headers["Content-Length"]) == len(answer.body)
    assert words not in (served.home / "log" / "daemon.log").read_text()


def test_a_blank_version_header_counts_as_absent(agent: Wire) -> None:
    assert rpc(agent, "tools/list", **{"MCP-Protocol-Version": " "}).status == 200
