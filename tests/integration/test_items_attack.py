"""Breaking the routes of items: wrong types at every field, secrets in every field (W37), rows that
the gate hides (W38), odd ids (A12, A15).
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from leak_scan import scan_bytes, scan_folders
from made_up_token import token_of
from opened_vault import opened
from sandbox_daemon import Answer, SandboxDaemon, Wire, running

FIELDS: dict[str, tuple[str, ...]] = {
    "/v1/update_state": (
        "state_key", "content", "current_task", "next_action", "blocked_reason", "bucket", "scope",
        "ttl_seconds", "metadata", "source", "idempotency_key",
    ),
    "/v1/timeline/events": (
        "content", "event_type", "occurred_at", "session_id", "bucket", "scope", "path", "source",
        "importance", "confidence", "metadata", "team_id",
    ),
    "/v1/restart/snapshot": (
        "label", "session_id", "state_key", "bucket", "scope", "metadata", "timeline_limit",
        "reminder_limit", "decision_limit", "ttl_seconds", "path",
    ),
    "/v1/restart/restore": (
        "snapshot_id", "source_session_id", "target_session_id", "state_key", "bucket", "scope",
        "restore_state", "record_restore_event", "ttl_seconds",
    ),
    "/v1/reminders": ("content", "due_at", "bucket", "scope", "session_id", "path", "metadata"),
    "/v1/reminders/{reminder}/complete": ("note", "bucket", "scope", "id"),
    "/v1/decisions": ("context", "content", "options", "due_at", "scope", "path", "bucket"),
    "/v1/decisions/{decision}/resolve": ("resolution", "id"),
    "/v1/memories": ("text", "category", "content", "bucket", "scope", "metadata", "source"),
    "/v1/memory-conflicts": ("title", "context", "resolution", "metadata"),
    "/v1/skill/operations": ("operation", "arguments", "idempotency_key"),
}  # fmt: skip
QUERIES: dict[str, tuple[str, ...]] = {
    "/v1/timeline": ("limit", "bucket", "scope", "session_id", "event_type", "since", "until"),
    "/v1/reminders": ("limit", "bucket", "scope", "item_status", "due_before"),
    "/v1/decisions": ("limit", "bucket", "scope", "item_status", "due_before"),
    "/v1/me/ledger/monthly-summary": ("month", "year", "currency", "bucket"),
    "/v1/audit/events": ("action", "target_id", "limit", "since", "until"),
    "/v1/audit/consolidation": ("action_type", "limit", "since", "until"),
}
VALID: dict[str, Any] = {
    "content": "x", "context": "x", "text": "x", "title": "x", "resolution": "x",
    "operation": "doctor",
}  # fmt: skip
ODD: dict[str, Any] = {
    "null": None, "true": True, "zero": 0, "negative": -1, "huge": 10**400,
    "float": 1e300, "empty": "", "percent": "%", "nul": "a\0b", "list": [],
    "texts": ["x"], "object": {}, "deep": {"a": {"b": [None, {"c": 1}]}},
    "long": "x" * 120_000, "quotes": "\"'; DROP TABLE record;--", "time": "2026-01-01T00:00:00Z",
    "naive": "2026-01-01", "far": "9999-12-31T23:59:59-23:59", "unicode": "\U0010ffff\u202e",
}  # fmt: skip


@pytest.fixture(scope="module")
def places(served: SandboxDaemon, agent_token: str) -> dict[str, str]:
    with served.wire(agent_token) as wire:
        reminder = wire.post("/v1/reminders", {"content": "x", "bucket": "fuzz"}).json["id"]
        decision = wire.post("/v1/decisions", {"context": "x", "bucket": "fuzz"}).json["id"]
    return {"reminder": reminder, "decision": decision}


def typed(answer: Answer, where: object) -> None:
    """2xx, or a 4xx that says what is wrong; never a bug."""
    assert answer.status < 500, (where, answer.status, answer.body)
    assert answer.headers["Content-Type"].startswith("application/json")
    if answer.status >= 400:
        error = answer.json["error"]
        assert error["code"], where
        assert "Traceback" not in answer.body.decode()


@pytest.mark.parametrize("path", FIELDS)
def test_odd_values_at_every_field(agent: Wire, places: dict[str, str], path: str) -> None:
    for field in FIELDS[path]:
        for name, value in ODD.items():
            body = {**VALID, "bucket": "fuzz", field: value}
            typed(agent.post(path.format(**places), body), (path, field, name))
    for raw in (b"", b"{", b"[]", b"null", b'"x"', b'{"a":NaN}', b'{"a":1,"a":2}', b"\xff", b"1e9"):
        typed(agent.post(path.format(**places), raw), (path, raw))


@pytest.mark.parametrize("path", QUERIES)
def test_odd_values_at_every_parameter(agent: Wire, path: str) -> None:
    for field in QUERIES[path]:
        for name, value in ODD.items():
            if isinstance(value, str) and len(value) < 5_000:
                typed(agent.get(path, **{field: value}), (path, field, name))
        for value in ("999999999", "-1", "1e400", "nan", "inf", "x", "5,5"):
            typed(agent.get(path, **{field: value}), (path, field, value))


def test_odd_arguments_of_every_skill_operation(served: SandboxDaemon) -> None:
    from memory_manager.api.operations.skill import OPERATION_NAMES

    fields = ("id", "content", "path", "query", "key", "state_key", "item", "amount", "currency")
    scopes = ("memory:read", "memory:write", "ledger:write")
    with served.wire(served.add_agent("odd-skill", *scopes)) as wire:
        for operation in OPERATION_NAMES:
            for field in fields:
                for name in ("huge", "nul", "list", "object"):
                    value = ODD[name]
                    arguments = {"content": "x", "query": "x", "item": "x", "amount": "1"}
                    body = {"operation": operation, "arguments": {**arguments, field: value}}
                    answer = wire.post("/v1/skill/operations", body)
                    typed(answer, (operation, field, name))
                    assert answer.json["ok"] is (answer.status == 200)


@pytest.mark.parametrize(
    "item_id", ["..", "%2F", "x" * 300, "%00", "0" * 36, "id%20with%20blank", "🦤"], ids=str
)
def test_odd_ids(agent: Wire, item_id: str) -> None:
    from urllib.parse import quote

    for path in (f"/v1/reminders/{quote(item_id, safe='%.')}/complete",):
        answer = agent.post(path, {})
        assert answer.status in (404, 405, 422), (path, answer.status)
    resolve = f"/v1/decisions/{quote(item_id, safe='%.')}/resolve"
    assert agent.post(resolve, {"resolution": "x"}).status in (404, 405, 422)


def test_no_write_without_its_right(served: SandboxDaemon, places: dict[str, str]) -> None:
    with (
        served.wire(served.add_agent("only-reads", "memory:read")) as reader,
        Wire(served.url) as nobody,
    ):
        for path in FIELDS:
            if path == "/v1/skill/operations":
                continue
            assert reader.post(path.format(**places), VALID).status == 403, path
            assert nobody.post(path.format(**places), VALID).status == 401, path
        for path in QUERIES:
            assert nobody.get(path).status == 401, path
    with served.wire(served.add_agent("only-writes", "memory:write")) as writer:
        for path in QUERIES:
            assert writer.get(path).status == 403, path


# -- W37


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxDaemon]:
    with running(tmp_path_factory.mktemp("leaky") / "home") as daemon:
        yield daemon


def test_secrets_in_every_field_reach_nothing(leaky: SandboxDaemon) -> None:
    secrets: dict[str, str] = {}

    def planted(route: str, field: str) -> str:
        name = f"{route}:{field}"
        secrets[name] = token_of(name)
        return f"the value is {secrets[name]} ok"

    answers: list[bytes] = []
    scopes = ("memory:read", "memory:write", "ledger:read", "ledger:write")
    with leaky.wire(leaky.add_agent("leaky", *scopes)) as wire:
        for path, fields in FIELDS.items():
            if "{" in path or "skill" in path:
                continue
            texts = [
                name
                for name in fields
                if not name.endswith(("_at", "_seconds", "_limit", "importance", "confidence"))
                and name not in ("idempotency_key", "metadata", "options", "snapshot_id", "team_id")
            ]
            for field in texts:
                body = {**VALID, "bucket": "b", field: planted(path, field)}
                answers.append(wire.post(path, body).body)
            deep = {"a": [planted(path, "nested value")], planted(path, "nested key"): 1}
            answers.append(wire.post(path, {**VALID, "bucket": "b", "metadata": deep}).body)
        options = {"context": "x", "options": ["a", planted("/v1/decisions", "options")]}
        answers.append(wire.post("/v1/decisions", options).body)
        reminder = wire.post("/v1/reminders", {"content": "x"}).json["id"]
        note = {"note": planted("complete", "note"), "idempotency_key": "k1"}
        answers.append(wire.post(f"/v1/reminders/{reminder}/complete", note).body)
        decision = wire.post("/v1/decisions", {"context": "x"}).json["id"]
        resolution = {"resolution": planted("resolve", "resolution"), "idempotency_key": "k2"}
        answers.append(wire.post(f"/v1/decisions/{decision}/resolve", resolution).body)
        for arguments in (
            {"operation": "expense-add", "arguments": {"item": planted("e", "item"), "amount": 1}},
            {"operation": "todo-add", "arguments": {"content": planted("t", "content")}},
            {"operation": "state-save", "arguments": {"key": "k", "content": planted("s", "c")}},
        ):
            answers.append(wire.post("/v1/skill/operations", arguments).body)
        key = {"Idempotency-Key": secrets["resolve:resolution"]}
        assert wire.post("/v1/reminders", {"content": "x"}, **key).status == 422
        for path in QUERIES:
            answers.append(wire.get(path, bucket="%", item_status="%", limit="500").body)
    assert list(scan_bytes(b"\n".join(answers), secrets)) == []
    leaky.stop()
    with opened(leaky) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        names = [name for (name,) in tables.fetchall()]
        plain = bytearray()
        for name in names:
            try:
                rows = connection.execute(f'SELECT * FROM "{name}"').fetchall()
            except Exception:  # a shadow table that cannot be read on its own
                continue
            plain += json.dumps(rows, default=repr, ensure_ascii=False).encode()
    assert {"idempotency", "audit", "record_item", "record_version"} <= set(names)
    assert list(scan_bytes(bytes(plain), secrets)) == []
    logs = [leaky.home, leaky.output.parent]
    assert scan_folders(logs, secrets) == []


def test_captured_event_with_a_private_key_is_skipped(agent: Wire, bucket: str) -> None:
    body = "\n".join(
        "".join(random.Random(n).choices(string.ascii_letters, k=64)) for n in range(9)
    )
    marks = [f"-----{word} RSA PRIVATE " + "KEY-----" for word in ("BEGIN", "END")]
    text = f"{marks[0]}\n{body}\n{marks[1]}"
    answer = agent.post("/v1/timeline/events", {"content": text, "bucket": bucket})
    assert answer.status == 200
    assert answer.json == {"skipped": True, "status": "skipped", "rules": ["private-key"]}
    assert agent.get("/v1/timeline", bucket=bucket).json["events"] == []
    skipped = agent.get("/v1/audit/events", action="event.skipped").json["events"]
    assert skipped[0]["detail"] == {"skipped": True, "rules": ["private-key"]}
    # what an agent or a person writes on purpose is kept without the key
    for path, field in (("/v1/reminders", "content"), ("/v1/update_state", "content")):
        kept = agent.post(path, {field: text, "bucket": bucket})
        assert kept.status == 201
        assert kept.json["redactions"] == ["private-key"]


# -- W38


def test_hidden_items_answer_nowhere(tmp_path: Path) -> None:
    with SandboxDaemon(tmp_path / "home").init().start() as daemon:
        token = daemon.add_agent("gated", "memory:read", "memory:write", "ledger:read",
                                 "ledger:write")  # fmt: skip
        here = {"bucket": "g", "scope": "g"}
        with daemon.wire(token) as wire:
            made = {
                path: wire.post(path, {**VALID, **here}).json["id"]
                for path in (
                    "/v1/update_state", "/v1/timeline/events", "/v1/reminders", "/v1/decisions",
                    "/v1/restart/snapshot",
                )
            }  # fmt: skip
            expense = {
                "operation": "expense-add",
                "arguments": {"item": "x", "amount": "5", **here},
            }
            made["expense"] = wire.post("/v1/skill/operations", expense).json["result"]
        daemon.stop()
        with opened(daemon) as connection:
            connection.execute("UPDATE record SET retrieval_visibility = 'not_retrievable'")
        daemon.start()
        with daemon.wire(token) as wire:
            for path, name in (
                ("/v1/timeline", "events"),
                ("/v1/reminders", "reminders"),
                ("/v1/decisions", "decisions"),
            ):
                found = wire.get(path, bucket="%", item_status="%").json
                assert (found[name], found["total"]) == ([], 0)
            summary = wire.get("/v1/me/ledger/monthly-summary").json
            assert (summary["total"], summary["count"], summary["currencies"]) == (0, 0, [])
            assert wire.get("/v1/audit/events").json["events"] == []
            for path in ("/v1/reminders/{}/complete", "/v1/decisions/{}/resolve"):
                for item_id in made.values():
                    body = {"resolution": "x"}
                    assert wire.post(path.format(item_id), body).status == 404
            for item_id in made.values():
                assert wire.get(f"/v1/memories/{item_id}").status == 404
                assert wire.post(f"/v1/memories/{item_id}/forget", {}).status == 404
            for body in ({}, {"snapshot_id": made["/v1/restart/snapshot"]}):
                restored = wire.post("/v1/restart/restore", {**here, **body})
                assert restored.json == {"restored": False, "status": "not_found"}
            fresh = wire.post("/v1/restart/snapshot", here).json
            assert set(fresh["captured"].values()) == {0}
            restore = {"operation": "state-restore", "arguments": {"key": "active_task", **here}}
            assert wire.post("/v1/skill/operations", restore).status == 404
        with daemon.owner() as owner:
            assert owner.post("/v1/vault/lock").status == 200
        with daemon.wire(token) as wire:
            places = {"reminder": made["/v1/reminders"], "decision": made["/v1/decisions"]}
            answers = [wire.post(path.format(**places), VALID) for path in FIELDS]
            for answer in (*answers, *(wire.get(path) for path in QUERIES)):
                assert (answer.status, answer.code) == (503, "vault_locked")
                assert answer.headers["Retry-After"] == "5"
        with Wire(daemon.url) as nobody:
            assert nobody.post("/v1/skill/operations", VALID).json["result"]["auth_valid"] is False
