"""/mcp on the wire: transport, authentication, liveness (xmemo.md 11, W2, W39-W46, A3, A18)."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from mcp_wire import MODERN, listed, modern, result, rpc, tool
from sandbox_daemon import SandboxDaemon, Wire, running

HANDSHAKES = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
WRONG = "mlk_" + "A" * 43


def initialize(wire: Wire, version: str) -> dict[str, Any]:
    params = {
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    return result(rpc(wire, "initialize", params))


@pytest.mark.parametrize("token", [None, WRONG, "not even one of ours"])
def test_without_a_good_credential_it_is_401_and_says_where_to_log_in(
    served: SandboxDaemon, token: str | None
) -> None:
    with Wire(served.url, token) as wire:
        answer = rpc(wire, "tools/list")
    assert answer.status == 401
    assert answer.json["error"] == "invalid_token"
    assert answer.json["error_description"]
    metadata = f"{served.url}/.well-known/oauth-protected-resource/mcp"
    assert answer.headers["WWW-Authenticate"] == f'Bearer resource_metadata="{metadata}"'


def test_a_session_id_is_no_credential(served: SandboxDaemon) -> None:
    with Wire(served.url) as wire:
        assert rpc(wire, "tools/list", **{"Mcp-Session-Id": "of-another-client"}).status == 401


def test_either_header_and_both_carry_the_credential(
    served: SandboxDaemon, agent_token: str
) -> None:
    with Wire(served.url) as wire:
        assert rpc(wire, "ping", **{"X-API-Key": agent_token}).status == 200
        bearer = {"Authorization": f"Bearer {agent_token}"}
        assert rpc(wire, "ping", **bearer).status == 200
        assert rpc(wire, "ping", **bearer, **{"X-API-Key": agent_token}).status == 200
        other = served.add_agent("other-of-two")
        assert rpc(wire, "ping", **bearer, **{"X-API-Key": other}).status == 401


def test_a_revoked_credential_is_401_at_once(served: SandboxDaemon) -> None:
    with served.wire(served.add_agent("leaver")) as wire, served.owner() as owner:
        assert tool(wire, "get_mcp_identity").text.startswith("leaver\n")
        assert owner.post("/v1/agents/leaver/revoke").status == 200
        assert rpc(wire, "tools/list").status == 401


def test_the_path_with_a_slash_is_the_same_and_a_longer_one_is_not(
    served: SandboxDaemon, agent: Wire
) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert agent.post("/mcp/", message).json == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert agent.post("/mcpfoo", message).status == 404
    assert agent.get("/mcp/other").status == 404
    with Wire(served.url) as stranger:
        assert stranger.get("/mcpfoo").status == 404


def test_foreign_origin_and_host_are_refused_before_anything_else(
    served: SandboxDaemon, agent: Wire
) -> None:
    assert rpc(agent, "ping", Origin="https://evil.test").status == 403
    assert rpc(agent, "ping", Host="evil.test").status == 421


def test_get_is_405_at_once_without_a_credential(served: SandboxDaemon) -> None:
    def ask(_number: int) -> tuple[int, str, float]:
        with Wire(served.url, timeout=20) as wire:
            wire.get("/health")  # the connection is there; only the answer is timed
            began = time.perf_counter()
            answer = wire.send("GET", "/mcp", headers={"Accept": "text/event-stream"})
            return answer.status, answer.headers["Allow"], time.perf_counter() - began

    alone = min(ask(number) for number in range(5))
    assert alone[:2] == (405, "POST, DELETE")
    assert min(ask(0)[2] for _ in range(5)) < 0.1
    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(ask, range(50)))
        with Wire(served.url, timeout=20) as wire:
            assert wire.get("/health").status == 200
    assert {answer[:2] for answer in answers} == {(405, "POST, DELETE")}


def test_clients_that_open_a_stream_and_never_read_leave_nothing_behind(
    served: SandboxDaemon,
) -> None:
    port = int(served.url.rsplit(":", 1)[1])
    request = f"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/event-stream\r\n\r\n"
    streams = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(100)]
    try:
        for stream in streams:
            stream.sendall(request.encode())
        with Wire(served.url, timeout=20) as wire:
            assert wire.get("/health").status == 200
        heads = [stream.recv(65_536) for stream in streams]
    finally:
        for stream in streams:
            stream.close()
    assert all(head.startswith(b"HTTP/1.1 405 ") for head in heads)
    assert all(b"transfer-encoding" not in head.lower() for head in heads)


def test_delete_is_204_with_and_without_a_session(served: SandboxDaemon) -> None:
    with Wire(served.url) as wire:
        assert wire.send("DELETE", "/mcp").status == 204
        assert wire.send("DELETE", "/mcp", headers={"Mcp-Session-Id": "x"}).status == 204


def test_no_handshake_no_session_no_version_is_needed(agent: Wire) -> None:
    assert "recall" in listed(agent)
    answer = rpc(agent, "tools/list", **{"Mcp-Session-Id": "never-issued"})
    assert result(answer)["tools"]
    assert "Mcp-Session-Id" not in answer.headers
    assert not tool(agent, "get_mcp_identity").is_error


@pytest.mark.parametrize("accept", ["application/json", "*/*", "text/event-stream", ""])
def test_every_accept_header_gets_json(agent: Wire, accept: str) -> None:
    answer = rpc(agent, "ping", Accept=accept)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Server"] == "memlocket"


@pytest.mark.parametrize("version", HANDSHAKES)
def test_a_known_version_is_echoed(agent: Wire, version: str) -> None:
    answer = initialize(agent, version)
    assert answer["protocolVersion"] == version
    assert answer["serverInfo"]["name"] == "memlocket"
    assert {"tools", "prompts", "resources"} <= set(answer["capabilities"])
    assert len(answer["instructions"].encode()) <= 600


def test_an_unknown_version_gets_the_newest_handshake(agent: Wire) -> None:
    assert initialize(agent, "1999-01-01")["protocolVersion"] == HANDSHAKES[-1]


def test_discovery_and_calls_of_the_version_without_handshake(agent: Wire) -> None:
    assert MODERN in result(modern(agent, "server/discover"))["supportedVersions"]
    assert len(result(modern(agent, "tools/list"))["tools"]) == 8
    called = modern(agent, "tools/call", {"name": "get_mcp_identity", "arguments": {}})
    assert not result(called).get("isError", False)


def test_a_notification_has_no_answer_and_one_with_an_id_an_error(agent: Wire) -> None:
    note: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    answer = agent.post("/mcp", note)
    assert (answer.status, answer.body) == (202, b"")
    began = time.perf_counter()
    answer = agent.post("/mcp", {**note, "id": 7})
    assert time.perf_counter() - began < 10  # at once; what must not happen is a wait
    assert answer.status == 200
    assert answer.json["error"]["code"] == -32601


def test_a_subscription_is_answered_and_the_loop_turns(served: SandboxDaemon, agent: Wire) -> None:
    """With the bare adapter this request stops the whole event loop."""
    assert "error" in modern(agent, "subscriptions/listen", {"notifications": {}}).json
    with Wire(served.url, timeout=20) as wire:
        assert wire.get("/health").status == 200


@pytest.mark.parametrize(
    ("method", "member"),
    [
        ("prompts/list", "prompts"),
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ],
)
def test_lists_are_answered(agent: Wire, method: str, member: str) -> None:
    assert isinstance(result(rpc(agent, method))[member], list)


def test_a_prompt_carries_its_argument(agent: Wire) -> None:
    asked = {"name": "recall", "arguments": {"query": "our deploy day"}}
    (message,) = result(rpc(agent, "prompts/get", asked))["messages"]
    assert "our deploy day" in message["content"]["text"]
    assert "error" in rpc(agent, "prompts/get", {"name": "recall"}).json
    assert "error" in rpc(agent, "prompts/get", {"name": "nothing"}).json


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\\ud800"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":' + b"[" * 100 + b"]" * 100 + b"}}",
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
    ],
    ids=["empty", "cut", "twice", "nan", "surrogate", "deep", "batch"],
)
def test_what_is_no_message_is_refused_as_json(agent: Wire, body: bytes) -> None:
    answer = agent.send("POST", "/mcp", body)
    assert 400 <= answer.status < 500
    assert answer.json["error"]["code"] < 0
    assert rpc(agent, "ping").status == 200


def test_a_body_over_one_mebibyte_is_413_and_text_415(agent: Wire) -> None:
    assert agent.send("POST", "/mcp", b" " * ((1 << 20) + 1)).status == 413
    assert agent.send("POST", "/mcp", b"{}", {"Content-Type": "text/plain"}).status == 415


def test_invalid_parameters_are_a_protocol_error_and_stay_out_of_the_log(
    served: SandboxDaemon, agent: Wire
) -> None:
    secret = "unheard-of-words-7261"
    answer = rpc(agent, "tools/call", {"name": "recall", "arguments": [secret]})
    assert answer.json["error"]["code"] == -32602
    assert tool(agent, "recall", query=[secret]).is_error
    assert secret not in (served.home / "log" / "daemon.log").read_text()


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SandboxDaemon, str]]:
    with running(tmp_path_factory.mktemp("l") / "home") as daemon:
        token = daemon.add_agent("first")
        with daemon.wire(token) as wire:
            wire.remember("something to hide")
        with daemon.owner() as owner:
            assert owner.post("/v1/vault/lock", {"reason": "user"}).status == 200
        yield daemon, token


def test_a_locked_vault_lists_tools_and_refuses_every_one(
    locked: tuple[SandboxDaemon, str],
) -> None:
    daemon, token = locked
    with daemon.wire(token) as wire:
        assert wire.get("/health").status == 200
        assert wire.get("/v1/memories/search", query="hide").status == 503
        assert initialize(wire, HANDSHAKES[-1])["protocolVersion"]
        for name in listed(wire):
            told = tool(wire, name, query="hide", content="x", path="y", memory_id="z")
            assert told.is_error, name
            assert told.text.startswith("XMemo error: "), name
            assert told.body["code"] == "vault_locked", name


def test_a_locked_vault_still_wants_a_credential(locked: tuple[SandboxDaemon, str]) -> None:
    daemon, _ = locked
    with Wire(daemon.url) as wire:
        assert rpc(wire, "tools/list").status == 401
    with daemon.wire("not one of ours") as wire:
        assert rpc(wire, "tools/list").status == 401


def test_the_first_request_loads_the_library_and_health_goes_on(
    tmp_path_factory: pytest.TempPathFactory, tcp: Callable[[int, bytes], Any]
) -> None:
    """The import takes seconds on a busy machine; nobody else waits for it."""
    with running(tmp_path_factory.mktemp("f") / "home") as daemon:
        token = daemon.add_agent("first")
        gaps: list[float] = []
        began_all = time.perf_counter()

        def first() -> str:
            with daemon.wire(token) as wire:
                return tool(wire, "get_mcp_identity").text

        with ThreadPoolExecutor(1) as pool, Wire(daemon.url, timeout=20) as health:
            answer = pool.submit(first)
            while not answer.done():
                began = time.perf_counter()
                assert health.get("/health").status == 200
                gaps.append(time.perf_counter() - began)
            assert answer.result().startswith("first\n")
        # a loop that stood still would be one gap, as long as the whole
        assert max(gaps) < max(1, (time.perf_counter() - began_all) / 2), gaps
