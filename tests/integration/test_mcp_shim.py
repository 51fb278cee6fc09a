"""``memlocket mcp`` as a client starts it: lines in, lines out (xmemo.md 11.3, W49)."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sandbox_daemon import SandboxDaemon, Wire, running, wait_until
from short_folder import short_folder

from memory_manager.client.device_login import DeviceLogin
from memory_manager.client.errors import ClientNotConnected

PROGRAM = str(Path(sys.executable).with_name("memlocket"))
FORBIDDEN = ("aiohttp", "nacl", "sqlcipher3", "mcp", "pydantic", "keyring", "platformdirs")


class Shim:
    """One running shim."""

    def __init__(self, environment: dict[str, str], *command: str) -> None:
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def write(self, *messages: Any) -> None:
        assert self.process.stdin is not None
        for message in messages:
            if not isinstance(message, bytes):
                message = json.dumps(message, ensure_ascii=False).encode()
            self.process.stdin.write(message + b"\n")
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())  # type: ignore[no-any-return]

    def ask(self, method: str, params: dict[str, Any] | None = None, number: int = 1) -> Any:
        self.write({"jsonrpc": "2.0", "id": number, "method": method, "params": params or {}})
        return self.read()

    def close(self) -> tuple[int, float, bytes, bytes]:
        """Exit code, seconds after the end of input, what was left on both outputs."""
        began = time.perf_counter()
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, time.perf_counter() - began, out, err


@contextlib.contextmanager
def shim(
    environment: dict[str, str], *arguments: str, program: Sequence[str] = (PROGRAM, "mcp")
) -> Iterator[Shim]:
    started = Shim(environment, *program, *arguments)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.wait(20)
        for stream in (started.process.stdin, started.process.stdout, started.process.stderr):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()


def poor(home: Path, **more: str) -> dict[str, str]:
    """The whole environment: what the official clients pass on."""
    return {"HOME": str(home), "PATH": os.defpath, "USER": "somebody", **more}


@pytest.fixture(scope="module")
def user() -> Iterator[SandboxDaemon]:
    """A daemon in the ordinary place of a user; the shim may know no more than HOME.

    The daemon's socket lies in a runtime directory that no variable of the shim names.
    """
    with short_folder() as home:
        runtime = home / "x"
        runtime.mkdir(mode=0o700)
        data = home / ".local" / "share" / "memlocket"
        variables = {"MEMLOCKET_HOME": "", "HOME": str(home), "XDG_RUNTIME_DIR": str(runtime)}
        with running(data, **variables) as daemon:
            daemon.cli("connect", "generic", "--yes")
            assert daemon.discovery["socket"].startswith(str(runtime))
            with shim(poor(home)) as started:  # the first call waits for the daemon's MCP library
                asked = {"name": "get_mcp_identity", "arguments": {}}
                assert started.ask("tools/call", asked)["result"]
            yield daemon


@pytest.fixture
def environment(user: SandboxDaemon) -> dict[str, str]:
    return poor(user.home.parents[2])


def test_home_path_and_user_are_enough(environment: dict[str, str]) -> None:
    with shim(environment) as started:
        assert started.ask("ping") == {"jsonrpc": "2.0", "id": 1, "result": {}}
        tools = started.ask("tools/list", number=2)
        assert tools["id"] == 2
        assert len(tools["result"]["tools"]) == 8
        code, seconds, out, err = started.close()
    assert (code, out, err) == (0, b"", b"")
    assert seconds < 5  # two on an idle machine; what must not happen is a wait for answers


def test_only_answers_are_lines(environment: dict[str, str]) -> None:
    with shim(environment) as started:
        started.write(
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 9, "result": {}},
            b"",
            b"   ",
            b"no json",
            [],
            {"jsonrpc": "2.0", "id": "last", "method": "ping"},
        )
        answers = [started.read() for _ in range(3)]
        code, _, out, _ = started.close()
    assert (code, out) == (0, b"")
    assert sorted(str(answer["id"]) for answer in answers) == ["None", "None", "last"]
    refused = [answer["error"]["code"] for answer in answers if answer["id"] is None]
    assert sorted(refused) == [-32700, -32600]
    assert {"jsonrpc": "2.0", "id": "last", "result": {}} in answers


@pytest.mark.parametrize("mebibytes", [1, 5])
def test_what_is_too_long_is_refused_and_the_next_one_served(
    environment: dict[str, str], mebibytes: int
) -> None:
    """One is over the daemon's limit, five over the shim's own."""
    with shim(environment) as started:
        answer = started.ask("ping", {"filler": "x" * (mebibytes << 20)})
        assert "error" in answer
        assert started.ask("ping", number=2) == {"jsonrpc": "2.0", "id": 2, "result": {}}


@pytest.mark.parametrize(
    "narrow",
    [
        {},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "cp1252:strict"},
    ],
    ids=["plain", "C locale", "cp1252"],
)
def test_g07_text_of_any_script_goes_through(
    environment: dict[str, str], narrow: dict[str, str]
) -> None:
    text = "Grüße Привет 安装 \u2028 \U0001f511 \n line"
    with shim({**environment, **narrow}) as started:
        arguments = {"content": text, "path": "s/安装"}
        called = started.ask("tools/call", {"name": "remember", "arguments": arguments})
        memory_id = called["result"]["structuredContent"]["result"]["id"]
        found = started.ask("tools/call", {"name": "recall", "arguments": {"query": memory_id}})
    assert found["result"]["structuredContent"]["result"]["results"][0]["content"] == text


def test_rows_carry_the_installations_labels(
    user: SandboxDaemon, environment: dict[str, str]
) -> None:
    def identity() -> dict[str, Any]:
        with shim(environment) as started:
            called = started.ask("tools/call", {"name": "get_mcp_identity", "arguments": {}})
        return called["result"]["structuredContent"]["result"]  # type: ignore[no-any-return]

    first = identity()
    assert first["account"] == "generic"
    assert first["agent_id"]
    assert first["agent_instance_id_hash"].startswith("sha256:")
    assert identity() == first  # a restart is the same installation


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("server/discover", {}, None),
        ("tools/call", {"name": "get_mcp_identity", "arguments": {}}, "get_mcp_identity"),
        ("tools/call", {"name": "nö\ntool", "arguments": {}}, None),
    ],
)
def test_the_version_without_handshake_gets_its_headers(
    environment: dict[str, str], method: str, params: dict[str, Any], name: str | None
) -> None:
    """Without them the library answers -32020: headers and body differ."""
    prefix = "io.modelcontextprotocol/"
    meta = {
        f"{prefix}protocolVersion": "2026-07-28",
        f"{prefix}clientInfo": {"name": "t", "version": "1"},
        f"{prefix}clientCapabilities": {},
    }
    with shim(environment) as started:
        answer = started.ask(method, {**params, "_meta": meta})
    assert answer.get("error", {}).get("code") in (None, -32602)
    assert ("result" in answer) == (name is not None or not params)


@pytest.mark.parametrize("name", ["never-connected", "../../etc/passwd", ""])
def test_an_unknown_client_is_told_to_connect(environment: dict[str, str], name: str) -> None:
    with shim(environment, "--client", name) as started:
        answer = started.ask("initialize", number=5)
    assert answer["id"] == 5
    assert "memlocket connect" in answer["error"]["message"]


def test_a_client_connected_later_works_without_a_restart(
    user: SandboxDaemon, environment: dict[str, str]
) -> None:
    with shim(environment, "--client=cursor") as started:
        assert "memlocket connect cursor" in started.ask("ping")["error"]["message"]
        user.cli("connect", "cursor", "--yes")
        assert started.ask("ping")["result"] == {}
        user.cli("disconnect", "cursor", "--yes")
        assert "memlocket connect cursor" in started.ask("ping")["error"]["message"]


def test_a_client_nobody_connected_asks_the_owner(tmp_path: Path) -> None:
    def decide(owner: Wire, decision: str) -> str:
        """Decide about the one login that waits; its code."""
        codes: list[str] = []

        def found() -> bool:
            codes[:] = [
                entry["user_code"] for entry in owner.get("/v1/approvals").json["approvals"]
            ]
            return bool(codes)

        wait_until(found, 20, "a login waits")
        assert owner.post(f"/v1/approvals/{codes[0]}/{decision}").status == 200
        return codes[0]

    identity = {"name": "get_mcp_identity", "arguments": {}}
    with running(tmp_path / "home") as daemon, daemon.owner() as owner:
        environment = poor(tmp_path, MEMLOCKET_HOME=str(daemon.home))
        with shim(environment) as started:
            waits = started.ask("tools/call", identity)["error"]
            code = decide(owner, "deny")
            assert f"memlocket approve {code}" in waits["message"]
            assert waits["data"]["code"] == "awaits_approval"
            wait_until(lambda: "refused" in said(started.ask("ping")), 20, "the refusal is told")
            assert "memlocket connect generic" in said(started.ask("ping"))
        with pytest.raises(ClientNotConnected) as refused:
            DeviceLogin("generic", environment).installation(wait=0)
        assert refused.value.hint == f"Approve it: memlocket approve {decide(owner, 'deny')}"
        with shim(environment) as started:
            assert started.ask("ping")["result"] == {}
            decide(owner, "approve")
            wait_until(lambda: "result" in started.ask("tools/call", identity), 20, "it is let in")
        with shim(environment) as started:  # it is kept
            assert started.ask("tools/call", identity)["result"]["structuredContent"]


def test_a_server_opens_while_its_client_waits_for_approval(tmp_path: Path) -> None:
    """What a client asks at its start is answered at once, as an approved one hears it."""
    hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "x"}}
    lists = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
    with running(tmp_path / "home") as daemon, daemon.owner() as owner:
        environment = poor(tmp_path, MEMLOCKET_HOME=str(daemon.home))
        with shim(environment) as started:
            began = time.perf_counter()
            opened = started.ask("initialize", hello)["result"]
            listed = {method: started.ask(method)["result"] for method in lists}
            newest = started.ask("initialize", {**hello, "protocolVersion": "1"})["result"]
            assert time.perf_counter() - began < 5
            (login,) = owner.get("/v1/approvals").json["approvals"]
            code = login["user_code"]
            way = f" This client waits for your approval. Approve it: memlocket approve {code}"
            assert opened["instructions"].endswith(way)
            # later versions are told by the daemon alone
            meta = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
            assert way.strip() == said(started.ask("tools/list", meta))
        daemon.cli("connect", "generic", "--yes")
        hello["clientInfo"] = {"name": "x", "version": "1"}
        with shim(environment) as started:
            asked = started.ask("initialize", hello)["result"]
            assert {**opened, "instructions": opened["instructions"].removesuffix(way)} == asked
            assert listed == {method: started.ask(method)["result"] for method in lists}
            asked = started.ask("initialize", {**hello, "protocolVersion": "1"})["result"]
            assert newest["protocolVersion"] == asked["protocolVersion"]


def said(answer: dict[str, Any]) -> str:
    """The message of an error; nothing for a result."""
    return str(answer.get("error", {}).get("message", ""))


def test_a_login_is_told_at_once_under_the_clients_name_and_ends_with_it(tmp_path: Path) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "some-editor", "version": "1"},
        },
    }
    with running(tmp_path / "home") as daemon, daemon.owner() as owner:
        with shim(poor(tmp_path, MEMLOCKET_HOME=str(daemon.home))) as started:
            began = time.perf_counter()
            started.write(hello)
            assert started.process.stderr is not None
            told = started.process.stderr.readline().decode()
            assert time.perf_counter() - began < 5
            (login,) = owner.get("/v1/approvals").json["approvals"]
            assert login["client"] == "some-editor-mcp"
            assert f"memlocket approve {login['user_code']}" in told
            assert "some-editor" in told
            code, _, _, noise = started.close()
            assert (code, noise) == (0, b"")
            assert owner.get("/v1/approvals").json["approvals"] == []


def test_with_auto_approve_it_works_at_once(tmp_path: Path) -> None:
    with running(tmp_path / "home", "--auto-approve") as daemon:
        environment = poor(tmp_path, MEMLOCKET_HOME=str(daemon.home))
        with shim(environment) as started:
            called = started.ask("tools/call", {"name": "get_mcp_identity", "arguments": {}})
        identity = called["result"]["structuredContent"]["result"]
        assert identity["scopes"] == ["memory:read", "memory:write"]
        (kept,) = (daemon.home / "clients").glob("generic.json")
        assert kept.stat().st_mode & 0o777 == 0o600
        # a name that was asked for is not made up: only the owner connects it
        with shim(environment, "--client", "cursor") as started:
            assert "memlocket connect cursor" in started.ask("ping")["error"]["message"]


def test_a_daemon_that_comes_and_goes(tmp_path: Path) -> None:
    with running(tmp_path / "home") as daemon:
        environment = poor(tmp_path, MEMLOCKET_HOME=str(daemon.home))
        daemon.cli("connect", "generic", "--yes")
        with shim(environment) as started:
            assert started.ask("ping")["result"] == {}
            daemon.stop()
            assert "memlocket up" in started.ask("ping")["error"]["message"]
            daemon.start()
            assert started.ask("ping")["result"] == {}
            daemon.kill()  # the discovery file stays behind
            assert "memlocket up" in started.ask("ping")["error"]["message"]


def test_it_starts_the_daemon_only_where_the_user_allows_it(tmp_path: Path) -> None:
    with running(tmp_path / "home") as daemon:
        daemon.cli("connect", "generic", "--yes")
        daemon.stop()
        environment = {**daemon.env, "PATH": os.defpath}
        try:
            with shim(environment, "--start") as started:
                answer = started.ask("tools/call", {"name": "recall", "arguments": {"query": "x"}})
            # without its key file the vault is locked, which is an answer of the daemon
            assert answer["result"]["isError"]
            assert (daemon.home / "run" / "daemon.json").exists()
        finally:
            daemon.cli("stop")


def test_the_end_of_input_waits_for_nobody(environment: dict[str, str]) -> None:
    """Answers that are ready soon are still given; then it ends, whatever is under way."""
    given: list[bytes] = []
    while not any(given) and len(given) < 5:  # on a busy machine "soon" may once be too soon
        with shim(environment) as started:
            started.write({"jsonrpc": "2.0", "id": 1, "method": "ping"})
            code, seconds, out, _ = started.close()
        assert (code, seconds < 5) == (0, True)
        given.append(out)
    assert json.loads(given[-1])["result"] == {}


def test_a_client_that_is_gone_leaves_no_noise(environment: dict[str, str]) -> None:
    with shim(environment) as started:
        assert started.process.stdout is not None
        started.process.stdout.close()
        started.write({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert started.process.stdin is not None
        started.process.stdin.close()
        wait_until(lambda: started.process.poll() is not None, 10, "the shim ends")
        assert started.process.stderr is not None
        assert (started.process.returncode, started.process.stderr.read()) == (0, b"")


def test_it_starts_light(environment: dict[str, str]) -> None:
    """Nothing heavy is loaded, not even after a request: a session starts one of these each."""
    watched = (
        "import sys, atexit\n"
        f"atexit.register(lambda: print([n for n in {FORBIDDEN!r} if n in sys.modules],"
        " len(sys.modules), file=sys.stderr))\n"
        "sys.argv = ['memlocket', 'mcp']\n"
        "from memory_manager.cli.entry import main\n"
        "sys.exit(main())\n"
    )
    with shim(environment, program=(sys.executable, "-c", watched)) as started:
        assert started.ask("ping")["result"] == {}
        _, _, _, err = started.close()
    found, count = err.decode().rsplit(" ", 1)
    assert found == "[]"
    assert int(count) < 190
