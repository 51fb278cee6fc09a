"""Wire checks over the application's own list of routes: W1-W4, W9, W17, W34-W36, A3, A6, A14.

What single routes answer stands beside their groups (test_api_*, test_items_*, test_logins_*,
test_mcp_*); here is what must hold for every one of them, the next one included.
"""

from __future__ import annotations

import concurrent.futures
import re
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from sandbox_daemon import Answer, SandboxDaemon, Wire

from memory_manager.api.application import ALL_ROUTES
from memory_manager.api.calls import Access
from memory_manager.api.routing import Route

ROW = str(uuid.UUID(int=7))
OPEN = (Access.OPEN, Access.OPTIONAL)
WRITES: dict[str, dict[str, Any]] = {
    "/v1/remember": {"content": "written once", "path": "once/x"},
    "/v1/update_state": {"content": "written once"},
    "/v1/timeline/events": {"content": "written once"},
    "/v1/reminders": {"content": "written once"},
    "/v1/decisions": {"context": "written once"},
    "/v1/restart/snapshot": {"label": "written once"},
    "/v1/memories": {"text": "written once"},
    "/v1/memory-conflicts": {"title": "t", "context": "written once", "resolution": "r"},
}


def guarded() -> Iterator[tuple[Route, str]]:
    """Every route that wants a credential, under both prefixes, with ids filled in."""
    for route in ALL_ROUTES:
        if route.access not in OPEN:
            for path in route.paths():
                yield route, re.sub(r"\{\w+\}", ROW, path)


def send(wire: Wire, route: Route, path: str, **headers: str) -> Answer:
    return wire.send(route.method, path, {} if route.method != "GET" else None, headers)


def test_w2_missing_is_401_and_wrong_is_403_on_every_route(served: SandboxDaemon) -> None:
    assert sum(1 for _ in guarded()) > 80
    with (
        served.wire(None) as nobody,  # type: ignore[arg-type]
        served.wire("mlk_" + "w" * 43) as wrong,
        served.wire("xmemo_" + "w" * 43) as foreign,
    ):
        for route, path in guarded():
            assert send(nobody, route, path).status == 401, path
            # a scheme we do not know, and a token where no header is
            basic = send(nobody, route, path, Authorization="Basic dTpw")
            assert basic.status == 401, path
            query = send(nobody, route, f"{path}?api_key=mlk_{'w' * 43}&token=x")
            assert query.status == 401, path
            for wire in (wrong, foreign):
                answer = send(wire, route, path)
                assert answer.status == 403, path
                assert b"w" * 20 not in answer.body


def test_w3_a_revoked_credential_is_refused_on_every_route(
    served: SandboxDaemon, owner: Wire
) -> None:
    with served.wire(served.add_agent("leaving")) as leaving:
        assert leaving.get("/v1/auth/token/validate").status == 200
        assert owner.post("/v1/agents/leaving/revoke").status == 200
        for route, path in guarded():
            assert send(leaving, route, path).status == 403, path
        answer = leaving.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        assert answer.status == 401
        assert "WWW-Authenticate" in answer.headers


def test_rights_bound_every_route(served: SandboxDaemon) -> None:
    """A route that needs a right refuses every credential without it, and does nothing."""
    needed = {
        Access.READ: "memory:read",
        Access.WRITE: "memory:write",
        Access.RESTORE: "memory:restore",
        Access.LEDGER_READ: "ledger:read",
        Access.LEDGER_WRITE: "ledger:write",
    }
    for scope in needed.values():
        with served.wire(served.add_agent(f"only-{scope.replace(':', '-')}", scope)) as wire:
            for route, path in guarded():
                if route.path.endswith("/revoke-self"):
                    continue
                answer = send(wire, route, path)
                if route.access in (Access.OWNER, Access.LOCAL):
                    assert answer.status == 403, (scope, path)
                elif route.access is Access.RESTORE and scope == "memory:write":
                    assert answer.status != 403, (scope, path)
                elif route.access in needed and needed[route.access] != scope:
                    assert (answer.status, answer.code) == (403, "scope_missing"), (scope, path)
                elif route.access in needed:
                    assert answer.status != 403, (scope, path)


@pytest.mark.parametrize("path", WRITES)
def test_w1_w9_a_key_is_known_under_both_prefixes_and_for_one_credential(
    path: str, served: SandboxDaemon, agent: Wire, bucket: str
) -> None:
    body = {**WRITES[path], "bucket": bucket, "scope": bucket}
    key = uuid.uuid4().hex
    first = agent.post(path, body, **{"Idempotency-Key": key})
    assert first.status in (200, 201)
    other = {**body, "scope": "", "due_at": "", "unknown": [1]}
    for again in (path, f"/api{path}", f"{path}/"):
        for headers in ({"Idempotency-Key": key}, {"X-Idempotency-Key": key}):
            answer = agent.post(again, other, **headers)
            assert (answer.status, answer.body) == (first.status, first.body)
            assert answer.headers["Idempotent-Replay"] == "true"
        answer = agent.post(again, {**other, "idempotency_key": key})
        assert answer.body == first.body
    for poorer in ({}, {"content": 7, "path": None, "context": []}):
        answer = agent.post(path, poorer, **{"Idempotency-Key": key})
        assert (answer.status, answer.body) == (first.status, first.body)
        assert answer.headers["Idempotent-Replay"] == "true"
    with served.wire(served.add_agent(f"other-{bucket}")) as stranger:
        answer = stranger.post(path, body, **{"Idempotency-Key": key})
        assert answer.status in (200, 201)
        assert "Idempotent-Replay" not in answer.headers


@pytest.mark.parametrize("path", WRITES)
def test_w9_two_at_once_with_one_key_are_one(
    path: str, served: SandboxDaemon, agent_token: str, bucket: str
) -> None:
    key = uuid.uuid4().hex

    def write(_: int) -> bytes:
        with served.wire(agent_token) as wire:
            answer = wire.post(path, {**WRITES[path], "bucket": bucket}, **{"Idempotency-Key": key})
            assert answer.status in (200, 201)
            return answer.body

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert len(set(pool.map(write, range(12)))) == 1


def test_w9_keys_survive_a_restart(served: SandboxDaemon, agent_token: str) -> None:
    keys = {path: uuid.uuid4().hex for path in WRITES}
    with served.wire(agent_token) as wire:
        first = {
            path: wire.post(path, WRITES[path], **{"Idempotency-Key": key}).body
            for path, key in keys.items()
        }
    served.stop()
    served.start()
    with served.wire(agent_token) as wire:
        for path, key in keys.items():
            body = {name: f"other {value}" for name, value in WRITES[path].items()}
            answer = wire.post(f"/api{path}", body, **{"Idempotency-Key": key})
            assert answer.body == first[path]


@pytest.mark.parametrize("size", [257, 4_000, 1_000_000], ids=str)
def test_a14_an_overlong_key_stores_nothing(size: int, agent: Wire, bucket: str) -> None:
    body = {"content": "overlong", "path": "a14/x", "bucket": bucket, "idempotency_key": "k" * size}
    answer = agent.post("/v1/remember", body)
    assert answer.status in (200, 201, 413, 422)
    stored = agent.get("/v1/memories", bucket=bucket).json["results"]
    assert len(stored) == (1 if answer.status in (200, 201) else 0)
    if size <= 4_000:  # a longer header line ends in the parser
        headers = {"Idempotency-Key": "k" * size}
        again = agent.post("/v1/remember", {**body, "idempotency_key": None}, **headers)
        assert again.status in (200, 201, 422)


@pytest.mark.parametrize(
    ("agent_id", "instance"),
    [
        ("${XMEMO_AGENT_ID}", "${XMEMO_AGENT_INSTANCE_ID}"),
        ("   ", " "),
        ("a" * 257, "i" * 257),
        ("ok", "sha256:zz"),
        ("\xff\xfe", "\xff"),
    ],
    ids=["placeholder", "blank", "long", "malformed hash", "no utf-8"],
)
def test_w34_odd_labels_never_fail_a_request(
    agent_id: str, instance: str, served: SandboxDaemon, agent_token: str
) -> None:
    headers = {"X-Memory-OS-Agent-ID": agent_id, "X-Memory-OS-Agent-Instance-ID": instance}
    with served.wire(agent_token) as wire:
        for path, body in WRITES.items():
            assert wire.post(path, body, **headers).status in (200, 201), path
        row = wire.post("/v1/remember", WRITES["/v1/remember"], **headers).json["id"]
        item = wire.get(f"/v1/memories/{row}").json
        assert item["agent_id"] == ("ok" if agent_id == "ok" else None)
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert wire.post("/mcp", message, **headers).status == 200


def test_w36_five_types_and_no_sixth(agent: Wire, bucket: str) -> None:
    body = {"content": "of some type", "path": "types/x", "bucket": bucket}
    for kind in ("episodic", "semantic", "procedural", "working", "identity"):
        assert agent.post("/v1/remember", {**body, "memory_type": kind}).json["memory_type"] == kind
    for kind in ("sensitive", "Semantic", "state", "event", "secret"):
        assert agent.post("/v1/remember", {**body, "memory_type": kind}).status == 422, kind
        made = agent.remember("to be changed", "types/y", bucket=bucket)
        changed = agent.send("PATCH", f"/v1/memories/{made['id']}", {"memory_type": kind})
        assert changed.status == 422, kind
    stored = agent.post("/v1/remember", {**body, "memory_type": "auto"}).json["memory_type"]
    assert stored in ("episodic", "semantic", "procedural", "working", "identity")


def test_w17_every_item_has_what_clients_crash_without(agent: Wire, bucket: str) -> None:
    inside = {"bucket": bucket, "scope": "w17"}
    for path, body in WRITES.items():
        assert agent.post(path, {**body, **inside}).status in (200, 201)
    agent.remember("line\n\n\nafter blank lines", "w17/x", **inside)
    answers = [
        agent.get("/v1/memories/search", query="*", limit=50, **inside).json["results"],
        agent.post("/v1/recall/context", {"query": "written once", **inside}).json["items"],
        agent.get("/v1/memories", **inside).json["results"],
        agent.get("/v1/timeline", **inside).json["events"],
        agent.get("/v1/reminders", **inside).json["reminders"],
        agent.get("/v1/reminders", **inside).json["items"],
        agent.get("/v1/decisions", **inside).json["decisions"],
    ]
    for items in answers:
        assert items
        for item in items:
            assert isinstance(item["id"], str)
            assert not set(item["id"]) & set("/ \t\n")
            assert isinstance(item.get("content", item.get("context")), str)
            assert item["scope"] == "w17"
            for name in ("score", "similarity"):
                assert isinstance(item.get(name, 0), int | float)
            assert isinstance(item.get("metadata", {}), dict)
