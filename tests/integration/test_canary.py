"""No plaintext of a memory, query, key or credential stands in any file (vault.md 16, T15).

All home, configuration, cache, runtime, log and temporary folders are searched twice:
while the daemon runs after a crash, with its write-ahead log, and after it has stopped.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from leak_scan import Leak, scan_folders
from opened_vault import keys_of, opened
from sandbox_daemon import SandboxDaemon, Wire, wait_until


def _mark(name: str) -> str:
    # Characters that JSON, URLs and base64 change, so that every form differs from the raw one.
    return f'canary-{name}-{uuid.uuid4().hex[:12]} "é/秘" end'


FIELDS = (
    "content",
    "path",
    "bucket",
    "scope",
    "source",
    "metadata value",
    "metadata key",
    "provenance",
    "semantic key",
    "agent id",
    "instance id",
    "client name",
    "query",
    "context query",
    "hypothetical answer",
    "reason",
    "patched content",
    "replacement",
    "imported content",
    "cli content",
    "cli query",
    "usage context",
    "idempotency key",
    "refused field",
    "broken json",
    "raw query string",
    "header value",
    "unknown route",
)


@dataclasses.dataclass
class Scenario:
    """Everything below ``root`` is searched, but for the few places that hold secrets by design."""

    root: Path
    daemon: SandboxDaemon
    canaries: dict[str, str | bytes]
    by_design: tuple[Path, ...] = ()

    def text(self, name: str) -> str:
        value = self.canaries[name]
        assert isinstance(value, str)
        return value

    def leaks(self) -> list[Leak]:
        found = scan_folders([self.root], self.canaries)
        return [leak for leak in found if leak.file not in self.by_design]


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenario]:
    folder = tmp_path_factory.mktemp("canary")
    root = folder / "searched"
    user = {name: root / name for name in ("tmp", "config", "cache", "state", "data", "runtime")}
    for path in user.values():
        path.mkdir(parents=True, mode=0o700)
    environment = {
        "TMPDIR": str(user["tmp"]),
        "XDG_CONFIG_HOME": str(user["config"]),
        "XDG_CACHE_HOME": str(user["cache"]),
        "XDG_STATE_HOME": str(user["state"]),
        "XDG_DATA_HOME": str(user["data"]),
        "XDG_RUNTIME_DIR": str(user["runtime"]),
    }
    canaries: dict[str, str | bytes] = {name: _mark(name.replace(" ", "-")) for name in FIELDS}
    # ids and header values may hold neither quotes nor anything but ASCII
    for name in ("agent id", "instance id", "idempotency key", "header value"):
        canaries[name] = f"canary/{uuid.uuid4().hex}+{uuid.uuid4().hex}"
    canaries["passphrase"] = f"orchid {uuid.uuid4().hex} plinth {uuid.uuid4().hex}"
    canaries["wrong passphrase"] = f"wrong {uuid.uuid4().hex} {uuid.uuid4().hex}"
    with SandboxDaemon(root / "home", environment=environment) as daemon:
        # the key file itself is a secret by design; it lies outside of what is searched
        daemon.key_file_path = folder / "vault.key"
        daemon.output_path = root / "daemon.out"
        yield Scenario(root, daemon, canaries)


def _by_agent(scenario: Scenario, wire: Wire) -> None:
    text = scenario.text
    body = {
        "content": text("content"),
        "path": text("path"),
        "bucket": text("bucket"),
        "scope": text("scope"),
        "source": text("source"),
        "metadata": {text("metadata key"): {"deep": [text("metadata value")]}},
        "provenance": {"from": text("provenance")},
        "semantic_key": text("semantic key"),
        "idempotency_key": text("idempotency key"),
    }
    made = wire.post("/v1/remember", body)
    assert made.status in (200, 201), made.code
    address = f"/v1/memories/{made.json['id']}"
    assert wire.get("/v1/memories/search", query=text("query")).status == 200
    asked = {"query": text("context query"), "hypothetical_answer": text("hypothetical answer")}
    assert wire.post("/v1/recall/context", asked).status == 200
    assert wire.search(text("content"))
    assert wire.get(f"{address}/explain", query=text("query")).status == 200
    usage = {"action": "used", "context": text("usage context")}
    assert wire.post(f"{address}/usage", usage).status == 200
    changed = {"content": text("patched content")}
    assert wire.send("PATCH", address, changed).status == 200
    assert wire.post(f"{address}/forget", {"reason": text("reason")}).status == 200
    assert wire.post(f"{address}/restore", {}).status == 200
    second = wire.remember(text("content"), text("path"))
    redaction = {"mode": "redact", "replacement_content": text("replacement")}
    assert wire.post(f"/v1/memories/{second['id']}/forget", redaction).status == 200
    third = wire.remember(text("content"), text("path"))
    gone = wire.post(f"/v1/memories/{third['id']}/forget", {"mode": "hard_delete"})
    assert gone.status == 200


def _mistakes(scenario: Scenario, wire: Wire) -> None:
    text = scenario.text
    refused = {"content": "x", "path": "y", "memory_type": text("refused field")}
    assert wire.post("/v1/remember", refused).status == 422
    assert wire.post("/v1/remember", b'{"content": "' + text("broken json").encode()).status >= 400
    assert wire.get("/v1/memories/search", query="x", since=text("refused field")).status == 422
    assert wire.get("/v1/nothing/" + uuid.uuid4().hex, q=text("unknown route")).status == 404
    assert (
        wire.post("/v1/remember", {"content": text("content") * 5_000, "path": "z"}).status == 422
    )


def _broken_http(scenario: Scenario) -> None:
    """What the parser itself refuses: it must not log the bytes."""
    target = urlsplit(scenario.daemon.url)
    authority = f"{target.hostname}:{target.port}"
    raw = scenario.text("raw query string")
    value = scenario.text("header value")
    token = str(scenario.canaries["agent token"])
    for request in (
        f"GET /v1/memories/search?query={raw}\x01 HTTP/1.1\r\nHost: {authority}\r\n\r\n",
        f"GET /health HTTP/1.1\r\nHost: {authority}\r\nX-Odd: {value}\x00\r\n\r\n",
        f"GET /health HTTP/1.1\r\nHost: {authority}\r\nHost: x\r\nX-API-Key: {token}\r\n\r\n",
        f"GET /health HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n",
        f"{value}\r\n\r\n",
    ):
        with socket.create_connection((target.hostname, target.port), timeout=10) as stream:
            stream.sendall(request.encode())
            stream.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionError):
                while stream.recv(65_536):
                    pass


def _by_owner(scenario: Scenario, folder: Path) -> None:
    daemon, text = scenario.daemon, scenario.text
    passphrase = {"--passphrase-fd": text("passphrase")}
    daemon.cli("remember", text("cli content"), "--json")
    daemon.cli("recall", text("cli query"), "--json")
    daemon.cli("search", text("cli query"))
    source = folder / "imported.jsonl"
    source.write_text(
        json.dumps({"content": text("imported content"), "path": "imported"}, ensure_ascii=False)
        + "\n"
    )
    daemon.cli("import", str(source))
    daemon.cli("lock")
    wrong = daemon.cli("unlock", check=False, secrets={"--passphrase-fd": text("wrong passphrase")})
    assert wrong.returncode != 0
    # a wrong one makes the next one wait
    wait_until(
        lambda: daemon.cli("unlock", check=False, secrets=passphrase).returncode == 0,
        30,
        "the right passphrase opens it",
        0.3,
    )
    daemon.cli("backup", str(scenario.root / "backup.mlb"))
    daemon.cli("export", str(folder / "exported.jsonl"))
    daemon.cli("doctor", "--json", check=False)
    daemon.cli("logs", check=False)
    assert text("imported content").encode() not in (scenario.root / "backup.mlb").read_bytes()
    with daemon.owner() as owner:
        assert owner.post("/v1/recall/rebuild", {"what": "all"}).status in (200, 202)


@pytest.mark.timeout(240)
def test_no_plaintext_in_any_file_after_a_full_scenario(scenario: Scenario) -> None:
    daemon, canaries = scenario.daemon, scenario.canaries
    outside = daemon.key_file.parent
    daemon.init(scenario.text("passphrase")).start()
    canaries.update(keys_of(daemon))
    canaries["agent token"] = daemon.add_agent(scenario.text("client name"))
    canaries["owner token"] = daemon.owner_token
    labels = {"agent": scenario.text("agent id"), "instance": scenario.text("instance id")}
    with daemon.wire(str(canaries["agent token"]), **labels) as wire:
        _by_agent(scenario, wire)
        _mistakes(scenario, wire)
    _broken_http(scenario)
    with daemon.wire("mlk_" + "Q" * 43) as wrong:
        assert wrong.get("/v1/memories/search", query=scenario.text("query")).status == 403
    _by_owner(scenario, outside)
    daemon.kill()
    daemon.start()
    with daemon.wire(str(canaries["agent token"]), **labels) as wire:
        _by_agent_again(scenario, wire)
        canaries["second owner token"] = daemon.owner_token
        scenario.by_design = (daemon.home / "run" / "token",)
        assert (daemon.home / "vault" / "vault.db-wal").stat().st_size > 0
        assert scenario.leaks() == []
    assert daemon.stop() == 0
    scenario.by_design = ()
    assert scenario.leaks() == []
    # the canaries were really stored, and the scanner really sees them in plain text
    assert _stored_content(daemon, scenario.text("patched content"))
    plain = scan_folders([outside / "exported.jsonl"], canaries) or scan_folders(
        [outside], canaries
    )
    assert {leak.canary for leak in plain} >= {"patched content", "imported content"}


def _by_agent_again(scenario: Scenario, wire: Wire) -> None:
    wire.remember(scenario.text("content"), scenario.text("path"))
    assert wire.search(scenario.text("content"))


def _stored_content(daemon: SandboxDaemon, content: str) -> Any:
    with opened(daemon) as connection:
        return connection.execute(
            "SELECT 1 FROM record_version WHERE content = ?", (content,)
        ).fetchone()


def test_a_planted_plaintext_is_reported(scenario: Scenario) -> None:
    planted = scenario.root / "state" / "planted.log"
    planted.write_text(json.dumps({"event": scenario.text("content")}))
    try:
        assert planted in {leak.file for leak in scenario.leaks()}
    finally:
        planted.unlink()
