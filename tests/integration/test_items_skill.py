"""Skill operations (W27), ledger, audit and what TypeScript skills store (xmemo.md 6.8, 6.9)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from mcp_wire import tool
from sandbox_daemon import Answer, SandboxDaemon, Wire

SCOPES = ("memory:read", "memory:write", "ledger:read", "ledger:write")


@pytest.fixture(scope="module")
def skilled(served: SandboxDaemon) -> Iterator[Wire]:
    token = served.add_agent("skill", *SCOPES)
    with served.wire(token, agent="xmemo-skill", instance="one") as wire:
        yield wire


def ask(wire: Wire, operation: str, **arguments: object) -> Answer:
    return wire.post("/v1/skill/operations", {"operation": operation, "arguments": arguments})


def result(wire: Wire, operation: str, **arguments: object) -> Any:
    answer = ask(wire, operation, **arguments)
    assert answer.status == 200, answer.body
    body = answer.json
    assert set(body) == {"ok", "operation", "result", "request_id"}
    assert (body["ok"], body["operation"]) == (True, operation)
    return body["result"]


def refusal(answer: Answer) -> tuple[int, str]:
    body = answer.json
    assert body["ok"] is False
    assert body["error"]["message"]
    assert body["request_id"]
    return answer.status, body["error"]["code"]


def test_memories(skilled: Wire) -> None:
    path = f"skill/{uuid.uuid4().hex}"
    made = result(skilled, "remember", content="the pelican nests in June", path=path)
    assert isinstance(made, str)
    for operation in ("recall", "search"):
        hit = {"id": made, "path": path, "content": "the pelican nests in June"}
        assert hit in result(skilled, operation, query="pelican nests")
    assert result(skilled, "update", id=made, content="the pelican left") == {"id": made}
    assert result(skilled, "search", query=made)[0]["content"] == "the pelican left"
    assert result(skilled, "forget", id=made) == {"id": made}
    assert made not in [hit["id"] for hit in result(skilled, "search", query="pelican")]
    assert isinstance(result(skilled, "remember", content="without a path"), str)


def test_states(skilled: Wire) -> None:
    key = f"key-{uuid.uuid4().hex[:8]}"
    assert result(skilled, "state-save", key=key, content="step 3") == {"state_key": key}
    expected = {"state_key": key, "content": "step 3"}
    assert result(skilled, "state-restore", key=key) == expected
    assert result(skilled, "state-restore", state_key=key) == expected
    found = skilled.search("step 3", scope=None)
    assert [hit["expires_at"] for hit in found if hit["semantic_key"] == key] == [None]
    assert refusal(ask(skilled, "state-restore", key="never saved")) == (404, "not_found")


def test_todos(skilled: Wire) -> None:
    text = f"todo {uuid.uuid4().hex}"
    todo = result(skilled, "todo-add", content=text)
    assert todo == {"id": todo["id"], "content": text, "status": "open"}
    assert todo in result(skilled, "todo-list")
    assert result(skilled, "todo-done", id=todo["id"]) == {"id": todo["id"]}
    assert {**todo, "status": "done"} in result(skilled, "todo-list")
    assert refusal(ask(skilled, "todo-done", id=str(uuid.uuid4()))) == (404, "not_found")


def test_expenses_and_the_monthly_summary(skilled: Wire) -> None:
    def spend(amount: object, **more: object) -> Any:
        spent = {"item": "coffee", "amount": amount, "spent_at": "2031-05-31T23:59:59Z", **more}
        return result(skilled, "expense-add", **spent)

    def summary(**query: object) -> dict[str, Any]:
        answer = skilled.get("/v1/me/ledger/monthly-summary", **query)
        assert answer.status == 200, answer.body
        return answer.json  # type: ignore[no-any-return]

    assert isinstance(spend("0.1", currency="eur"), str)
    spend(0.2, currency="EUR", category="drinks")
    spend("-0.05", currency="EUR")
    spend("5")
    spend("7", spent_at="2031-06-01T00:00:00Z", currency="EUR")
    may = summary(month="5", year="2031")
    assert (may["month"], may["currency"], may["total"], may["count"]) == (
        "2031-05",
        "EUR",
        0.25,
        3,
    )
    assert summary(month="2031-05", currency="usd")["total"] == 5
    assert [entry["currency"] for entry in may["currencies"]] == ["EUR", "USD"]
    empty = summary(month="1", year="1999", currency="JPY")
    assert empty == {
        "month": "1999-01",
        "currency": "JPY",
        "total": 0,
        "count": 0,
        "currencies": [],
    }
    assert summary(month="12", year="9999")["count"] == 0
    for wrong in ({"month": "13"}, {"month": "2031-00"}, {"month": "May"}, {"year": "10000"}):
        assert skilled.get("/v1/me/ledger/monthly-summary", **wrong).status == 422


@pytest.mark.parametrize(
    "amount",
    ["", None, "much", "NaN", "Infinity", "-inf", "sNaN", True, [], {}, "1e99", 10**400, 1e300,
     "1000000000.01"],
    ids=[
        "empty", "null", "word", "nan", "inf", "minus-inf", "snan", "flag", "list", "object",
        "huge-text", "huge-whole", "huge-float", "over",
    ],
)  # fmt: skip
def test_impossible_amounts(skilled: Wire, amount: object) -> None:
    answer = ask(skilled, "expense-add", item="x", amount=amount)
    assert refusal(answer)[0] in (400, 422)


def test_doctor_without_with_and_with_a_wrong_token(served: SandboxDaemon, skilled: Wire) -> None:
    with Wire(served.url) as nobody:
        assert result(nobody, "doctor") == {"auth_valid": False, "scopes": []}
        assert refusal(ask(nobody, "recall", query="x")) == (401, "unauthorized")
        assert refusal(ask(nobody, "remember", content="x")) == (401, "unauthorized")
    assert result(skilled, "doctor") == {"auth_valid": True, "scopes": sorted(SCOPES)}
    with served.wire("mlk_" + "A" * 43) as wrong:
        for operation in ("doctor", "recall"):
            assert refusal(ask(wrong, operation, query="x")) == (403, "permission_denied")


def test_rights_are_those_of_the_operation(served: SandboxDaemon) -> None:
    with served.wire(served.add_agent("reader", "memory:read")) as reader:
        assert isinstance(result(reader, "recall", query="anything"), list)
        for operation, arguments in (
            ("remember", {"content": "x"}),
            ("todo-add", {"content": "x"}),
            ("expense-add", {"item": "x", "amount": "1"}),
        ):
            denied = (403, "permission_denied")
            assert refusal(ask(reader, operation, **arguments)) == denied
        assert reader.get("/v1/me/ledger/monthly-summary").status == 403


def test_an_expense_keeps_its_rights_under_its_id(served: SandboxDaemon, skilled: Wire) -> None:
    """The audit names its id to everybody who may read; its text stays with the ledger's right."""
    expense = result(skilled, "expense-add", item="a telescope", amount="300")
    url = f"/v1/memories/{expense}"
    refusals: list[Answer] = []
    with served.wire(served.add_agent("no-ledger")) as agent:
        refusals += [agent.get(path) for path in (url, f"{url}/explain", f"{url}/versions")]
        refusals.append(agent.send("PATCH", url, {"content": "another"}))
        refusals += [agent.post(f"{url}/{act}", {}) for act in ("forget", "restore", "usage")]
        told = [
            tool(agent, name, memory_id=expense) for name in ("explain_memory", "forget_memory")
        ]
    assert [(answer.status, answer.code) for answer in refusals] == [(403, "scope_missing")] * 7
    assert all(each.is_error and each.body["code"] == "scope_missing" for each in told)
    with served.wire(served.add_agent("ledger-reader", "memory:read", "ledger:read")) as reader:
        assert reader.get(url).json["content"] == "a telescope"
    assert skilled.send("PATCH", url, {"content": "a bigger one"}).status == 200


def test_a_caller_that_only_writes_restores_unseen(served: SandboxDaemon, skilled: Wire) -> None:
    place = {"bucket": f"b-{uuid.uuid4().hex[:8]}"}
    skilled.post("/v1/update_state", {**place, "content": "an unseen state"})
    skilled.post("/v1/timeline/events", {**place, "content": "an unseen event"})
    skilled.post("/v1/restart/snapshot", place)
    with served.wire(served.add_agent("writes-only", "memory:write")) as writer:
        answer = writer.post("/v1/restart/restore", place)
        assert answer.json["restored"] is True
        assert answer.json["state_update"]["version"] == 2
        assert b"unseen" not in answer.body
    assert b"an unseen event" in skilled.post("/v1/restart/restore", place).body


def test_envelope_of_refusals(skilled: Wire) -> None:
    for body in (
        {"operation": "fly", "arguments": {}},
        {"operation": "", "arguments": {}},
        {"arguments": {}},
        {"operation": ["remember"]},
        {"operation": "remember", "arguments": "text"},
        {"operation": "remember", "arguments": {"content": 7}},
        {"operation": "update", "arguments": {"id": 7}},
        b"{",
        b"[]",
    ):
        answer = skilled.post("/v1/skill/operations", body)
        assert refusal(answer)[0] in (400, 404, 422), body


def test_keys_count_within_one_operation(skilled: Wire) -> None:
    key = {"Idempotency-Key": uuid.uuid4().hex}

    def post(operation: str, content: str) -> Answer:
        body = {"operation": operation, "arguments": {"content": content}}
        return skilled.post("/v1/skill/operations", body, **key)

    first, again = post("remember", "once"), post("remember", "twice")
    assert first.json["result"] == again.json["result"]
    assert again.headers["Idempotent-Replay"] == "true"
    todo = post("todo-add", "another operation").json["result"]
    assert todo["content"] == "another operation"


# -- audit


@pytest.mark.parametrize(
    ("operation", "arguments", "expected"),
    [
        ("todo-add", {"content": "call Ada"}, {"content": "", "status": "open"}),
        ("state-save", {"key": "replayed", "content": "step 1"}, {"state_key": ""}),
        ("expense-add", {"item": "a lamp", "amount": "9"}, None),
    ],
)
def test_a_replay_after_a_redaction_answers_without_the_text(
    skilled: Wire, operation: str, arguments: dict[str, str], expected: dict[str, str] | None
) -> None:
    asked = {"operation": operation, "arguments": arguments, "idempotency_key": uuid.uuid4().hex}
    first = skilled.post("/v1/skill/operations", asked).json["result"]
    if operation == "state-save":
        (hit,) = skilled.search("step 1", path="state/replayed")
        first = hit
    record = first if isinstance(first, str) else first["id"]
    assert skilled.post(f"/v1/memories/{record}/forget", {"mode": "redact"}).status == 200
    again = skilled.post("/v1/skill/operations", asked)
    assert again.status == 200, again.body
    replayed = again.json["result"]
    assert replayed == record if expected is None else expected.items() <= replayed.items()


def test_audit_tells_what_was_done_and_no_text(skilled: Wire, bucket: str) -> None:
    word = f"audited{uuid.uuid4().hex}"
    made = skilled.post("/v1/reminders", {"content": word, "bucket": bucket}).json
    skilled.post(f"/v1/reminders/{made['id']}/complete", {})
    skilled.post(f"/v1/memories/{made['id']}/forget", {"reason": word})
    answer = skilled.get("/v1/audit/events", target_id=made["id"])
    assert word.encode() not in answer.body
    events = answer.json["events"]
    actions = ["reminder.deleted", "reminder.updated", "reminder.created"]
    assert [event["action"] for event in events] == actions
    assert {event["target_id"] for event in events} == {made["id"]}
    assert {event["agent_id"] for event in events} == {"xmemo-skill"}
    assert all(isinstance(event["id"], str) and event["created_at"] for event in events)
    one = skilled.get("/v1/audit/events", target_id=made["id"], limit="1").json["events"]
    assert [event["action"] for event in one] == ["reminder.deleted"]
    chosen = {"action": "reminder.created", "target_id": made["id"]}
    assert len(skilled.get("/v1/audit/events", **chosen).json["events"]) == 1
    since = events[0]["created_at"]
    assert skilled.get("/v1/audit/events", target_id=made["id"], until=since).json["events"] == (
        [event for event in events if event["created_at"] < since]
    )
    assert skilled.get("/v1/audit/consolidation", action_type="merge", limit="5").status == 200


def test_agents_see_no_entries_about_the_vault(served: SandboxDaemon, skilled: Wire) -> None:
    served.add_agent(f"audited-{uuid.uuid4().hex[:6]}")
    with served.owner() as owner:
        everything = owner.get("/v1/audit/events", limit="500").json["events"]
    assert any(event["action"].startswith("credential") for event in everything)
    for event in skilled.get("/v1/audit/events", limit="500").json["events"]:
        assert not event["action"].startswith("credential")


# -- XSK


def test_texts_and_conflicts_of_skills(skilled: Wire) -> None:
    text = f"ostrich {uuid.uuid4().hex}"
    made = skilled.post("/api/v1/memories", {"text": text, "category": "birds"})
    assert (made.status, made.json["path"]) == (201, "skills/birds")
    found = skilled.get("/api/v1/memories/search", q=text).json["results"]
    assert (found[0]["id"], found[0]["content"]) == (made.json["id"], text)
    conflict = {"title": "Tabs or spaces", "context": "two files differ", "resolution": "spaces"}
    stored = skilled.post("/api/v1/memory-conflicts", conflict)
    assert stored.status == 201
    item = skilled.get(f"/v1/memories/{stored.json['id']}").json
    assert item["content"] == "Tabs or spaces\ntwo files differ\nResolution: spaces"
    for path, body in (
        ("/api/v1/memories", {"category": "birds"}),
        ("/api/v1/memories", {"text": ""}),
        ("/api/v1/memories", {"text": 7}),
        ("/api/v1/memory-conflicts", {"context": "x"}),
    ):
        assert skilled.post(path, body).status == 422
