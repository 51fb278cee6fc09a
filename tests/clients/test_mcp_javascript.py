"""The JavaScript SDK, MCP Inspector and mcp-remote, over HTTP and stdio (xmemo.md 16.3)."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from sandbox_daemon import COMMAND, SandboxDaemon, Wire

DRIVER: Final = Path(__file__).with_name("js_session.mjs")
CLIENT_SECONDS: Final = 60.0
HEALTH_GAP_SECONDS: Final = 1.0  # asked every 100 ms while a client works


def _environment(daemon: SandboxDaemon) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(daemon.home), "NO_UPDATE_NOTIFIER": "1"}


def _run(command: Sequence[str | Path], node: Path, daemon: SandboxDaemon, **extra: str) -> str:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=node,
        env={**_environment(daemon), **extra},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=CLIENT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    return done.stdout


@pytest.fixture
def health(daemon: SandboxDaemon) -> Iterator[None]:
    """The daemon goes on answering others while the client works."""
    stop, gaps = threading.Event(), [0.0]

    def watch() -> None:
        with Wire(daemon.url) as wire:
            last = time.monotonic()
            while not stop.wait(0.1):
                assert wire.get("/health").status == 200
                gaps.append(time.monotonic() - last)
                last = time.monotonic()

    watcher = threading.Thread(target=watch)
    watcher.start()
    yield
    stop.set()
    watcher.join()
    assert max(gaps) < HEALTH_GAP_SECONDS


@pytest.fixture(scope="module")
def shim(daemon: SandboxDaemon) -> list[str]:
    """The stdio command with the installation of a connected client."""
    daemon.cli("connect", "generic", "--yes")
    home = f"MEMLOCKET_HOME={daemon.home}"  # clients pass on few variables of their own
    return ["/usr/bin/env", home, *COMMAND, "mcp", "--client", "generic"]


def _check_session(answers: dict[str, Any], kind: str) -> None:
    assert {"get_mcp_identity", "remember", "recall", "search_memory"} <= set(answers["tools"])
    assert isinstance(answers["prompts"], list)
    assert answers["resources"] == []
    for name in ("identity", "remember", "recall", "search_memory"):
        assert not answers[name].get("isError"), answers[name]
    for name in ("recall", "search_memory"):
        assert f"over {kind} keeps gooseberries" in answers[name]["content"][0]["text"]
    unknown = answers["unknown"]
    assert "error" in unknown or unknown["result"]["isError"]


@pytest.mark.usefixtures("health")
def test_the_javascript_sdk_over_http(node: Path, daemon: SandboxDaemon, key: str) -> None:
    told = _run(["node", DRIVER, "http", f"{daemon.url}/mcp", key], node, daemon)
    _check_session(json.loads(told), "http")


def test_the_javascript_sdk_over_stdio(node: Path, daemon: SandboxDaemon, shim: list[str]) -> None:
    told = _run(["node", DRIVER, "stdio", *shim], node, daemon)
    _check_session(json.loads(told), "stdio")


@pytest.mark.usefixtures("health")
def test_inspector_over_http(node: Path, daemon: SandboxDaemon, key: str) -> None:
    target = ["--server-url", f"{daemon.url}/mcp", "--transport", "http"]
    header = ["--header", f"Authorization: Bearer {key}"]
    inspector = node / "node_modules" / ".bin" / "mcp-inspector"
    told = _run([inspector, "--cli", *target, *header, "--method", "tools/list"], node, daemon)
    assert "get_mcp_identity" in told


def test_inspector_over_stdio(node: Path, daemon: SandboxDaemon, shim: list[str]) -> None:
    inspector = node / "node_modules" / ".bin" / "mcp-inspector"
    told = _run([inspector, "--cli", *shim, "--method", "tools/list"], node, daemon)
    assert "get_mcp_identity" in told


class _Remote:
    """mcp-remote as an IDE runs it: JSON-RPC lines on its standard streams."""

    def __init__(self, node: Path, daemon: SandboxDaemon, key: str) -> None:
        command = node / "node_modules" / ".bin" / "mcp-remote"
        header = f"Authorization:Bearer {key}"
        self._process = subprocess.Popen(
            [str(command), f"{daemon.url}/mcp", "--header", header],
            env={**_environment(daemon), "BROWSER": "/bin/false"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> _Remote:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def tell(self, message: dict[str, object]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def ask(self, identifier: int, method: str, **params: object) -> dict[str, Any]:
        assert self._process.stdout is not None
        self.tell({"id": identifier, "method": method, "params": params})
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") == identifier:
                assert isinstance(answer, dict)
                return answer
        raise AssertionError("mcp-remote ended without an answer")

    def first_complaint(self, *words: str) -> str:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if any(word in line for word in words):
                return line
        raise AssertionError("mcp-remote said nothing of it")


@pytest.mark.usefixtures("health")
def test_mcp_remote_lists_the_tools(node: Path, daemon: SandboxDaemon, key: str) -> None:
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "ide", "version": "1"},
    }
    with _Remote(node, daemon, key) as remote:
        assert "result" in remote.ask(1, "initialize", **hello)
        remote.tell({"method": "notifications/initialized"})
        tools = remote.ask(2, "tools/list")["result"]["tools"]
    assert "get_mcp_identity" in {tool["name"] for tool in tools}


def test_mcp_remote_reports_a_wrong_key(node: Path, daemon: SandboxDaemon) -> None:
    with _Remote(node, daemon, "mlk_" + "x" * 43) as remote:
        complaint = remote.first_complaint("401", "Unauthorized", "invalid_token", "authoriz")
    assert complaint
