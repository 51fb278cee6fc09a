"""Opening /mcp does not wait for the MCP library (field-complaints F15, recall.md R50).

The library of these daemons loads only when the test lets it: what is answered before cannot
have needed it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from mcp_wire import MODERN, modern, result, rpc, tool
from sandbox_daemon import SandboxDaemon, Wire, running, wait_until

HOLD = """
import os, sys, time

class Hold:
    def find_spec(self, name, path=None, target=None):
        if name == "mcp_types":
            open(os.environ["ASKED_FOR"], "w").close()
            while not os.path.exists(os.environ["MAY_LOAD"]):
                time.sleep(0.01)

if "MAY_LOAD" in os.environ:
    sys.meta_path.insert(0, Hold())
"""
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "1999-01-01")
CLIENT = {"name": "tester", "version": "1"}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")


class Held:
    """A daemon whose MCP library waits for ``release``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked_for, self.may_load = folder / "asked", folder / "may-load"
        (folder / "sitecustomize.py").write_text(HOLD)
        path = os.pathsep.join(x for x in (str(folder), os.environ.get("PYTHONPATH")) if x)
        self.environment = {
            "PYTHONPATH": path,
            "ASKED_FOR": str(self.asked_for),
            "MAY_LOAD": str(self.may_load),
        }

    def release(self) -> None:
        self.may_load.touch()

    def is_loaded(self) -> bool:
        return '"mcp_loaded"' in (self.folder / "home" / "log" / "daemon.log").read_text()


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(tmp_path)


@pytest.fixture
def daemon(held: Held) -> Iterator[SandboxDaemon]:
    with running(held.folder / "home", "--no-embeddings", **held.environment) as started:
        yield started
        held.release()


def initialize(wire: Wire, version: str = VERSIONS[3], **more: Any) -> Any:
    params = {"protocolVersion": version, "capabilities": {"roots": {}}, "clientInfo": CLIENT}
    return result(rpc(wire, "initialize", {**params, **more}))


def opening(wire: Wire) -> dict[str, Any]:
    """Everything that clients ask before they want anything of the memories."""
    asked: dict[str, Any] = {version: initialize(wire, version) for version in VERSIONS}
    note = wire.post("/mcp", INITIALIZED)
    asked["initialized"] = (note.status, note.body, note.headers["Content-Type"])
    for method in ("ping", *LISTS):
        asked[method] = result(rpc(wire, method))
        asked[f"{method} {{}}"] = result(rpc(wire, method, {}))
        headers = {"MCP-Protocol-Version": VERSIONS[3]}
        token = {"_meta": {"progressToken": 7}}
        asked[f"{method} later"] = result(rpc(wire, method, token, **headers))
    for method in ("server/discover", *LISTS):
        asked[f"{method} {MODERN}"] = result(modern(wire, method))
    return asked


def test_what_clients_open_with_is_answered_before_the_library_is_there(
    daemon: SandboxDaemon, held: Held
) -> None:
    """And a call that needs it waits, and is answered; then both ways say the same."""
    with daemon.owner() as owner:
        token = daemon.add_agent("opener")
        for name in ("opener", "opener-of-all"):
            full = token if name == "opener" else daemon.add_agent(name)
        chosen = owner.post("/v1/agents/opener-of-all/mcp-profile", {"mcp_profile": "full"})
        assert chosen.status == 200
    with daemon.wire(token) as wire, daemon.wire(full) as all_wire:
        assert not held.asked_for.exists()  # nobody has asked over MCP: nothing is loaded
        before = opening(wire), opening(all_wire)
        wait_until(held.asked_for.exists, 20, "the first request began to load the library")
        assert len(before[0]["tools/list"]["tools"]) == 8
        assert len(before[1]["tools/list"]["tools"]) > 30
        with ThreadPoolExecutor(1) as pool, daemon.wire(token) as caller:
            called = pool.submit(tool, caller, "get_mcp_identity")
            assert initialize(wire)["serverInfo"]["name"] == "memlocket"
            assert not called.done()
            assert not held.is_loaded()
            held.release()
            assert called.result(60).text.startswith("opener\n")
        assert held.is_loaded()
        assert (opening(wire), opening(all_wire)) == before


@pytest.mark.parametrize(
    "message",
    [
        {"method": "initialize", "params": {"protocolVersion": 3}},
        {"method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}}},
        {"method": "tools/list", "params": {"cursor": 5}},
        {"method": "ping", "params": {"_meta": {"progressToken": []}}},
        {"method": "server/discover"},
        {"method": "no/such/method"},
        {"method": "notifications/initialized"},
    ],
    ids=lambda message: json.dumps(message)[:60],
)
def test_whatever_is_in_another_form_is_left_to_the_library(
    daemon: SandboxDaemon, held: Held, message: dict[str, Any]
) -> None:
    with daemon.wire(daemon.add_agent("odd")) as wire, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(wire.post, "/mcp", {"jsonrpc": "2.0", "id": 1, **message})
        wait_until(held.asked_for.exists, 20, "the request began to load the library")
        assert not answer.done()
        held.release()
        assert "error" in answer.result(60).json


def test_headers_and_envelope_that_differ_are_left_to_the_library(
    daemon: SandboxDaemon, held: Held
) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call"}
    with daemon.wire(daemon.add_agent("odd")) as wire, ThreadPoolExecutor(1) as pool:
        answer = pool.submit(rpc, wire, "tools/list", {"_meta": meta}, **headers)
        wait_until(held.asked_for.exists, 20, "the request began to load the library")
        assert not answer.done()
        held.release()
        assert answer.result(60).status == 400


def test_a_locked_vault_opens_as_well_and_still_wants_a_credential(
    daemon: SandboxDaemon, held: Held
) -> None:
    with daemon.wire(daemon.add_agent("early")) as wire, daemon.owner() as owner:
        assert owner.post("/v1/vault/lock", {"reason": "user"}).status == 200
        with Wire(daemon.url) as stranger:
            assert rpc(stranger, "ping").status == 401
        assert not held.asked_for.exists()
        assert initialize(wire)["protocolVersion"] == VERSIONS[3]
        assert len(result(rpc(wire, "tools/list"))["tools"]) == 8
        assert not held.is_loaded()


def test_a_library_that_cannot_be_loaded_is_said_at_the_first_call_and_tried_again(
    tmp_path: Path,
) -> None:
    """Opening goes on; what needs the library says that it failed, until it is there."""
    broken = tmp_path / "broken"
    (broken / "mcp_types").mkdir(parents=True)
    (broken / "mcp_types" / "__init__.py").write_text("raise ImportError('torn')\n")
    path = os.pathsep.join(x for x in (str(broken), os.environ.get("PYTHONPATH")) if x)
    with running(tmp_path / "home", "--no-embeddings", PYTHONPATH=path) as daemon:
        with daemon.wire(daemon.add_agent("patient")) as wire:
            assert initialize(wire)["protocolVersion"] == VERSIONS[3]
            call = {"name": "get_mcp_identity", "arguments": {}}
            assert rpc(wire, "tools/call", call).status == 500
            assert initialize(wire)["protocolVersion"] == VERSIONS[3]
            (broken / "mcp_types").rename(tmp_path / "away")
            deadline = time.monotonic() + 60
            while (answer := rpc(wire, "tools/call", call)).status == 500:
                assert time.monotonic() < deadline
            assert result(answer)["content"]
