"""Complaints about offline use and vendors' keys (field-complaints F25, F26, F28, F30).

A guard module is put into the daemon and its worker by the ordinary start-up hook of Python. It
writes down every attempt to leave the machine and refuses it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox_daemon import SandboxDaemon, running

GUARD = """
import os, socket, sys

def _note(what):
    with open(os.environ["SOCKET_GUARD_LOG"], "a") as stream:
        stream.write(f"{os.getpid()} {what}\\n")

def _guard(event, arguments):
    if event == "socket.connect" and arguments[0].family != socket.AF_UNIX:
        host = str(arguments[1][0])
        if not host.startswith("127.") and host != "::1":
            _note(f"connect {host}")
            raise OSError("no network in this test")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        host = arguments[0]
        if host not in ("127.0.0.1", "::1", "localhost", None, b"127.0.0.1"):
            _note(f"lookup {host}")
            raise OSError("no network in this test")

sys.addaudithook(_guard)
_note("guarded")
"""
VENDOR_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HF_TOKEN", "XMEMO_KEY")


def _guarded(folder: Path, **environment: str) -> Iterator[SandboxDaemon]:
    guard = folder / "guard"
    guard.mkdir()
    (guard / "sitecustomize.py").write_text(GUARD)
    log = folder / "attempts"
    path = os.pathsep.join(x for x in (str(guard), os.environ.get("PYTHONPATH")) if x)
    hooks = {"PYTHONPATH": path, "SOCKET_GUARD_LOG": str(log), **environment}
    with running(folder / "home", **hooks) as daemon:
        assert not set(VENDOR_KEYS) & set(daemon.env)
        yield daemon
    lines = log.read_text().splitlines()
    assert [line for line in lines if line.endswith(" guarded")], "the guard was not loaded"
    assert [line for line in lines if not line.endswith(" guarded")] == []


@pytest.fixture(params=["", "1"], ids=["plain", "HF_HUB_OFFLINE=1"])
def offline(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SandboxDaemon]:
    extra = {"HF_HUB_OFFLINE": request.param} if request.param else {}
    yield from _guarded(tmp_path, **extra)


def test_f26_f30_everything_works_with_no_key_and_no_network(
    offline: SandboxDaemon, tmp_path: Path
) -> None:
    token = offline.add_agent("offline")
    with offline.wire(token) as wire:
        ids = [wire.remember(f"offline fact {n} about walnuts", "f30")["id"] for n in range(5)]
        address = f"/v1/memories/{ids[0]}"
        assert len(wire.search("walnuts", path="f30")) == 5
        assert len(wire.context("walnuts", path="f30%", max_items=5)["items"]) == 5
        assert wire.send("PATCH", address, {"content": "changed almonds"}).status == 200
        assert wire.get(f"{address}/explain").status == 200
        assert wire.post(f"{address}/usage", {"action": "used"}).status == 200
        assert wire.post(f"{address}/forget").status == 200
        assert wire.post(f"{address}/restore", {}).status == 200
    for command in (
        ("status", "--json"),
        ("remember", "from the command line", "--json"),
        ("recall", "walnuts", "--json"),
        ("search", "walnuts", "--json"),
        ("list", "--json"),
        ("doctor", "--json"),
        ("agent", "list", "--json"),
    ):
        done = offline.cli(*command)
        assert done.returncode == 0
        json.loads(done.stdout)


def test_f25_missing_model_is_said_with_the_command_and_words_answer(
    offline: SandboxDaemon,
) -> None:
    with offline.wire(offline.add_agent("words")) as wire:
        made = wire.remember("The spare key hangs behind the piano", "f25")
        pack = wire.context("where is the spare key")
        assert [x["id"] for x in pack["items"]] == [made["id"]]
        assert "status" not in pack
        answer = wire.get("/v1/memories/search", query="spare key").json
    status = offline.status()
    if "embeddings" in answer["degraded"]:
        assert "memlocket" in json.dumps(status["embeddings"])  # the command that mends it
