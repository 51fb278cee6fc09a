"""States, timeline, restart, reminders, decisions on the wire: W22-W26 of xmemo.md 17, W9 and W10
for these routes, and what OCL, DSH and HER send (4.10, 4.11, section 6).
"""

from __future__ import annotations

import concurrent.futures
import datetime
import uuid
from typing import Any

import pytest
from mcp_wire import rpc
from sandbox_daemon import Answer, SandboxDaemon, Wire, wait_until

WRITES: dict[str, dict[str, object]] = {
    "/v1/update_state": {"content": "state"},
    "/v1/timeline/events": {"content": "event"},
    "/v1/restart/snapshot": {"label": "snapshot"},
    "/v1/reminders": {"content": "reminder"},
    "/v1/decisions": {"context": "decision"},
}

MAX_READ_BYTES = 2 * 1024 * 1024  # what a public client reads of one answer


def made(answer: Answer) -> dict[str, Any]:
    assert answer.status in (200, 201), (answer.status, answer.body)
    return answer.json  # type: ignore[no-any-return]


def unique_word() -> str:
    # letters only: digits inside a word split it into parts that other words share
    return "".join(chr(97 + byte % 26) for byte in uuid.uuid4().bytes)


def unset_filled(body: dict[str, object]) -> dict[str, object]:
    """As a queue replays it: every optional text is sent, empty or null, and things we ignore."""
    names = ("scope", "session_id", "due_at", "path", "label", "occurred_at", "source", "metadata")
    blanks = {name: "" for name in names}
    return {**blanks, "team_id": None, "snapshot_id": None, "unknown": [1], **body}


# -- W22: state


def test_state_is_one_slot_whose_version_grows(agent: Wire, bucket: str) -> None:
    first = agent.post("/v1/update_state", {"current_task": "a", "bucket": bucket, "scope": "s"})
    assert first.status == 201
    second = made(agent.post("/v1/update_state", {"content": "b", "bucket": bucket, "scope": "s"}))
    assert second["id"] == second["memory_id"] == second["state_id"] == first.json["id"]
    assert (first.json["version"], second["version"]) == (1, 2)
    assert (second["state_key"], second["status"]) == ("active_task", "active")
    item = agent.get(f"/v1/memories/{second['id']}").json
    assert (item["content"], item["current_task"]) == ("b", None)  # replaced as a whole
    others = [
        {"bucket": bucket, "scope": "t"},
        {"bucket": bucket},
        {"bucket": f"{bucket}-2", "scope": "s"},
        {"bucket": bucket, "scope": "s", "state_key": "other"},
    ]
    ids = {made(agent.post("/v1/update_state", {"content": "x", **slot}))["id"] for slot in others}
    assert len(ids) == 4
    assert second["id"] not in ids


def test_state_without_bucket_key_or_text_goes_to_the_defaults(agent: Wire) -> None:
    scope = f"dsh-{uuid.uuid4().hex}"
    body = {"scope": scope, "state_key": "", "bucket": "", "content": "", "ttl_seconds": ""}
    found = made(agent.post("/v1/update_state", body))
    assert (found["bucket"], found["state_key"], found["version"]) == ("work", "active_task", 1)
    again = made(agent.post("/v1/update_state", {"scope": scope, "current_task": "go on"}))
    assert (again["id"], again["version"]) == (found["id"], 2)


def test_time_to_live(agent: Wire, bucket: str) -> None:
    def expiry(ttl: object) -> object:
        body = {"content": "x", "bucket": bucket, "ttl_seconds": ttl}
        return made(agent.post("/v1/update_state", body))["expires_at"]

    assert expiry(0) is None
    assert expiry("0") is None
    most = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2_592_000)
    assert abs(datetime.datetime.fromisoformat(str(expiry(10**12))) - most).total_seconds() < 60
    assert str(expiry(10**12)) > str(expiry(None)) > str(expiry(3600)) > str(expiry(0.001))
    refused = agent.post("/v1/update_state", {"content": "x", "bucket": bucket, "ttl_seconds": -1})
    assert refused.status == 422


def test_expired_state_is_gone_and_its_slot_goes_on(agent: Wire, bucket: str) -> None:
    word = unique_word()
    state = {"content": word, "bucket": bucket, "ttl_seconds": 1}
    first = made(agent.post("/v1/update_state", state))
    url = f"/v1/memories/{first['id']}"
    wait_until(lambda: agent.get(url).status == 404, 10, "the state expires")
    assert agent.search(word) == []
    for path in (f"{url}/versions", f"{url}/explain"):
        assert agent.get(path).status == 404
    again = made(agent.post("/v1/update_state", {**state, "ttl_seconds": 0}))
    assert (again["id"], again["version"], again["expires_at"]) == (first["id"], 2, None)
    assert agent.get(url).status == 200


def test_state_is_recalled_and_names_its_fields(agent: Wire, bucket: str) -> None:
    word = unique_word()
    body = {"current_task": f"mend {word}", "next_action": "test it", "bucket": bucket}
    state = made(agent.post("/v1/update_state", body))
    (hit,) = agent.search(word, bucket=bucket)
    assert (hit["id"], hit["kind"], hit["memory_type"]) == (state["id"], "state", "working")
    assert hit["metadata"] == {"current_task": f"mend {word}", "next_action": "test it"}
    assert word in agent.context(word, bucket=bucket)["context_text"]


def test_memory_with_the_same_key_is_another_row(agent: Wire, bucket: str) -> None:
    memory = agent.remember("memory", bucket=bucket, semantic_key="active_task")
    state = made(agent.post("/v1/update_state", {"content": "state", "bucket": bucket}))
    assert state["id"] != memory["id"]
    assert agent.remember("m2", bucket=bucket, semantic_key="active_task")["id"] == memory["id"]
    assert agent.get(f"/v1/memories/{state['id']}").json["content"] == "state"


# -- W23, W24, W26: dual shapes, completing, resolving


@pytest.mark.parametrize(
    ("path", "name", "alias"),
    [
        ("/v1/timeline/events", "event", "event_id"),
        ("/v1/reminders", "reminder", "todo_id"),
        ("/v1/decisions", "decision", "decision_id"),
        ("/v1/restart/snapshot", "snapshot", "snapshot_id"),
    ],
)
def test_answers_are_flat_and_nested(
    agent: Wire, bucket: str, path: str, name: str, alias: str
) -> None:
    answer = agent.post(path, unset_filled({**WRITES[path], "bucket": bucket}))
    assert answer.status == 201, answer.body
    body = answer.json
    assert body["id"] == body[alias] == body["memory_id"]
    assert "result" not in body
    nested = body[name]
    assert {key: body[key] for key in nested} == nested
    assert (nested["bucket"], nested["scope"]) == (bucket, None)
    assert nested["memory_agent_boundary"]["relation"] == "self"
    assert nested["security_envelope"]["security_mode"] == "vault"


def test_reminder_completed_twice_and_lists(agent: Wire, bucket: str) -> None:
    here = {"bucket": bucket}
    first, second = (
        made(agent.post("/v1/reminders", {"content": text, **here})) for text in ("one", "two")
    )
    assert (first["item_status"], first["status"], first["due_at"]) == ("open", "open", None)
    url = f"/v1/reminders/{first['id']}/complete"
    done = made(agent.post(url, {"note": "fine", "bucket": "%", "scope": None}))
    assert (done["item_status"], done["status"], done["note"]) == ("completed", "completed", "fine")
    assert made(agent.post(url, {})) == done  # the same state, nothing written
    assert made(agent.post(url, b""))["reminder"] == done["reminder"]

    def ids(**filters: str) -> list[str]:
        answer = agent.get("/v1/reminders", **here, **filters).json
        assert answer["reminders"] == answer["items"]
        assert answer["total"] == len(answer["items"])
        first_only = agent.get("/v1/reminders", **here, **filters, limit="1").json
        assert (first_only["items"], first_only["total"]) == (answer["items"][:1], answer["total"])
        return [item["id"] for item in answer["items"]]

    assert ids() == ids(item_status="open") == ids(item_status="") == [second["id"]]
    assert ids(item_status="completed") == [first["id"]]
    assert ids(item_status="%") == [second["id"], first["id"]]
    assert ids(item_status="nothing") == []
    assert agent.post(f"/v1/reminders/{uuid.uuid4()}/complete", {}).status == 404
    decision = made(agent.post("/v1/decisions", {"context": "x", **here}))
    assert agent.post(f"/v1/reminders/{decision['id']}/complete", {}).status == 404


def test_due_before_leaves_out_later_and_undated(agent: Wire, bucket: str) -> None:
    for text, due in (("soon", "2026-01-01T00:00:00Z"), ("late", "2030-01-01T00:00:00+01:00")):
        made(agent.post("/v1/reminders", {"content": text, "due_at": due, "bucket": bucket}))
    made(agent.post("/v1/reminders", {"content": "some day", "due_at": None, "bucket": bucket}))
    found = agent.get("/v1/reminders", bucket=bucket, due_before="2026-06-01T00:00:00Z").json
    assert [item["content"] for item in found["items"]] == ["soon"]
    assert found["items"][0]["due_at"] == "2026-01-01T00:00:00.000Z"
    edge = agent.get("/v1/reminders", bucket=bucket, due_before="2026-01-01T00:00:00Z").json
    assert edge["items"] == []


def test_decision_from_question_to_resolution(agent: Wire, bucket: str) -> None:
    body = {"context": "Which database?", "options": ["a", "b"], "scope": "s", "bucket": bucket}
    decision = made(agent.post("/v1/decisions", body))
    (listed,) = agent.get("/v1/decisions", bucket=bucket).json["decisions"]
    assert (listed["context"], listed["options"]) == ("Which database?", ["a", "b"])
    assert (listed["item_status"], listed["resolution"]) == ("open", None)
    url = f"/v1/decisions/{decision['id']}/resolve"
    done = made(agent.post(url, {"resolution": "a"}))
    assert done["id"] == decision["id"]
    assert made(agent.post(url, {"resolution": "a"}))["version"] == done["version"]
    assert made(agent.post(url, {"resolution": "b"}))["resolution"] == "b"
    assert agent.get("/v1/decisions", bucket=bucket).json["decisions"] == []
    (taken,) = agent.get("/v1/decisions", bucket=bucket, item_status="resolved").json["decisions"]
    assert (taken["resolution"], taken["item_status"]) == ("b", "resolved")
    assert agent.post(f"/v1/decisions/{uuid.uuid4()}/resolve", {"resolution": "x"}).status == 404


def test_limits_of_a_decision(agent: Wire, bucket: str) -> None:
    def status(**body: object) -> int:
        return agent.post("/v1/decisions", {"bucket": bucket, **body}).status

    assert status(context="x" * 20_000, options=["o"] * 20) == 201
    assert status(context="x" * 20_001) == 422
    assert status(context="x", options=["o"] * 21) == 422
    assert status(context="x", options=None) == 201
    made_one = made(agent.post("/v1/decisions", {"context": "x", "bucket": bucket}))
    url = f"/v1/decisions/{made_one['id']}/resolve"
    assert agent.post(url, {"resolution": "r" * 12_001}).status == 422
    assert agent.post(url, {"resolution": "r" * 12_000}).status == 200


# -- timeline


def test_timeline_is_newest_first_within_since_and_until(agent: Wire, bucket: str) -> None:
    for day in ("02", "04", "03"):
        event = {
            "content": f"day {day}",
            "occurred_at": f"2026-03-{day}T00:00:00Z",
            "event_type": "milestone" if day == "04" else None,
            "session_id": f"session-{day}",
        }
        made(agent.post("/v1/timeline/events", {**event, "bucket": bucket}))

    def days(**filters: str) -> list[str]:
        events = agent.get("/v1/timeline", bucket=bucket, status="active", **filters).json["events"]
        return [event["content"][-2:] for event in events]

    assert days() == ["04", "03", "02"]
    assert days(since="2026-03-02T00:00:00Z", until="2026-03-04T00:00:00Z") == ["03", "02"]
    assert days(event_type="milestone") == ["04"]
    assert days(event_type="event", session_id="%") == ["03", "02"]
    assert days(session_id="session-03") == ["03"]
    assert days(limit="2") == ["04", "03"]
    assert days(limit="0") == ["04"]
    wrong = {"since": "2026-01-02T00:00:00Z", "until": "2026-01-02T00:00:00Z"}
    assert agent.get("/v1/timeline", **wrong).status == 422


def test_timeline_shows_bucket_work_unless_asked_otherwise(agent: Wire, bucket: str) -> None:
    scope = f"scope-{bucket}"
    for place in ("work", bucket):
        event = {"content": place, "bucket": place, "scope": scope}
        made(agent.post("/v1/timeline/events", event))

    def places(**filters: str) -> list[str]:
        events = agent.get("/v1/timeline", scope=scope, **filters).json["events"]
        return sorted(event["bucket"] for event in events)

    assert places() == places(bucket="") == ["work"]
    assert places(bucket="%") == sorted(["work", bucket])


def test_recall_shows_events_in_the_activity_feed_only(agent: Wire, bucket: str) -> None:
    word = unique_word()
    ids = {}
    for path, body in WRITES.items():
        field = "context" if "decisions" in path else "label" if "snapshot" in path else "content"
        ids[path] = made(agent.post(path, {**body, field: word, "bucket": bucket}))["id"]
    state, event = ids["/v1/update_state"], ids["/v1/timeline/events"]
    assert [hit["id"] for hit in agent.search(word)] == [state]
    assert [hit["id"] for hit in agent.search("*", bucket=bucket)] == [state]
    assert [hit["id"] for hit in agent.get("/v1/memories", bucket=bucket).json["results"]] == [
        state
    ]
    assert agent.get("/v1/memories", bucket=bucket).json["total"] == 1
    assert [item["id"] for item in agent.context(word, bucket=bucket)["items"]] == [state]
    reminder = ids["/v1/reminders"]
    assert reminder not in [hit["id"] for hit in agent.search(reminder, bucket=bucket)]
    window = {"since": "2020-01-01T00:00:00Z", "until": "2100-01-01T00:00:00Z"}
    feed = agent.search("x", bucket=bucket, query_mode="activity_log", **window)
    assert [hit["id"] for hit in feed] == [event, state]


def test_one_id_works_everywhere(agent: Wire, bucket: str) -> None:
    for path, body in WRITES.items():
        found = made(agent.post(path, {**body, "bucket": bucket}))
        url = f"/v1/memories/{found['id']}"
        assert agent.get(url).json["id"] == found["id"]
        assert agent.get(f"{url}/explain", query="x").json["memory"]["id"] == found["id"]
        assert agent.send("PATCH", url, {"content": "changed"}).json["content"] == "changed"
        assert agent.post(f"{url}/usage", {"action": "used"}).status == 200
        versions = agent.get(f"{url}/versions").json["versions"]
        assert [version["action"] for version in versions] == ["created", "updated"]
        assert agent.post(f"{url}/forget", {}).json["status"] == "deleted"
        assert agent.get(url).status == 404
        assert agent.post(f"{url}/restore", {}).status == 200
        assert agent.get(url).json["kind"] == made(agent.get(url))["kind"] != "memory"


# -- W25: restart


def test_restore_without_any_snapshot(agent: Wire, bucket: str) -> None:
    for body in ({"bucket": bucket}, {"snapshot_id": str(uuid.uuid4())}, {"snapshot_id": "no id"}):
        answer = agent.post("/v1/restart/restore", body)
        assert answer.status == 200
        assert answer.json == {"restored": False, "status": "not_found"}


def test_snapshot_and_restore(agent: Wire, bucket: str) -> None:
    here = {"bucket": bucket, "scope": "s"}
    state = made(
        agent.post(
            "/v1/update_state",
            {"current_task": "t", "next_action": "n", "blocked_reason": "b", **here},
        )
    )
    event = made(agent.post("/v1/timeline/events", {"content": "e", **here}))
    reminder = made(agent.post("/v1/reminders", {"content": "r", **here}))
    decision = made(agent.post("/v1/decisions", {"context": "d", **here}))
    elsewhere = made(agent.post("/v1/reminders", {"content": "other", "bucket": bucket}))
    snapshot = made(agent.post("/v1/restart/snapshot", {"session_id": "one", **here}))
    assert snapshot["expires_at"] is None
    made(agent.post("/v1/update_state", {"content": "later", **here}))

    body = {"snapshot_id": None, "target_session_id": "two", "ttl_seconds": 0, **here}
    restored = made(agent.post("/v1/restart/restore", body))
    assert restored["id"] == restored["snapshot_id"] == snapshot["id"]
    assert (restored["restored"], restored["status"]) == (True, "restored")
    shown = restored["snapshot"]
    fields = {"current_task": "t", "next_action": "n", "blocked_reason": "b"}
    assert shown["active_state"]["metadata"] == fields
    assert [item["id"] for item in shown["timeline"]] == [event["id"]]
    assert [item["id"] for item in shown["reminders"]] == [reminder["id"]]
    assert [item["id"] for item in shown["decisions"]] == [decision["id"]]
    assert elsewhere["id"] not in str(shown)
    update = restored["state_update"]
    assert (update["id"], update["version"], update["status"]) == (state["id"], 3, "active")
    assert (update["state_key"], update["expires_at"]) == ("active_task", None)
    assert agent.get(f"/v1/memories/{state['id']}").json["current_task"] == "t"
    newest = agent.get("/v1/timeline", **here).json["events"][0]
    assert (newest["event_type"], newest["session_id"]) == ("restart_restored", "two")


def test_restore_can_leave_state_and_timeline_alone(agent: Wire, bucket: str) -> None:
    here = {"bucket": bucket}
    state = made(agent.post("/v1/update_state", {"content": "then", **here}))
    made(agent.post("/v1/restart/snapshot", here))
    made(agent.post("/v1/update_state", {"content": "now", **here}))
    quiet = {"restore_state": False, "record_restore_event": False, **here}
    restored = made(agent.post("/v1/restart/restore", quiet))
    assert restored["state_update"] is None
    assert restored["snapshot"]["active_state"]["content"] == "then"
    assert agent.get(f"/v1/memories/{state['id']}").json["content"] == "now"
    assert agent.get("/v1/timeline", **here).json["events"] == []


def test_restored_answer_forgets_with_the_records_it_quotes(
    served: SandboxDaemon, agent: Wire, bucket: str
) -> None:
    word = unique_word()
    here = {"bucket": bucket}
    state = made(agent.post("/v1/update_state", {"content": f"a {word}", **here}))
    event = made(agent.post("/v1/timeline/events", {"content": f"b {word}", **here}))
    made(agent.post("/v1/restart/snapshot", here))
    key = {"Idempotency-Key": uuid.uuid4().hex}
    first = agent.post("/v1/restart/restore", here, **key)
    assert first.body.count(word.encode()) >= 2
    for item in (state, event):
        redact = {"mode": "redact"}
        assert agent.post(f"/v1/memories/{item['id']}/forget", redact).status == 200
    again = agent.post("/v1/restart/restore", here, **key)
    assert word.encode() not in again.body
    assert (again.status, again.json["restored"], again.json["id"]) == (200, True, first.json["id"])
    assert word.encode() not in agent.post("/v1/restart/restore", here).body


def test_restore_takes_the_newest_that_matches(agent: Wire, bucket: str) -> None:
    for session, key in (("one", "k1"), ("two", "k2"), ("three", "k1")):
        body = {"session_id": session, "state_key": key, "bucket": bucket}
        made(agent.post("/v1/restart/snapshot", body))

    def restored(**body: object) -> object:
        return agent.post("/v1/restart/restore", {"bucket": bucket, **body}).json.get("session_id")

    assert restored() == "three"
    assert agent.post("/v1/restart/restore", {"source_session_id": "two"}).json["bucket"]
    assert restored(source_session_id="one") == "one"
    assert restored(state_key="k2", source_session_id="") == "two"
    assert restored(state_key="k3") is None
    assert restored(scope="elsewhere") is None


def test_snapshot_lists_are_limited_and_may_expire(agent: Wire, bucket: str) -> None:
    for number in range(3):
        made(agent.post("/v1/reminders", {"content": str(number), "bucket": bucket}))
    body = {"bucket": bucket, "reminder_limit": 2, "timeline_limit": 0, "ttl_seconds": 60}
    snapshot = made(agent.post("/v1/restart/snapshot", body))
    assert snapshot["captured"] == {"state": 0, "timeline": 0, "reminders": 2, "decisions": 0}
    assert snapshot["expires_at"] is not None
    shown = made(agent.post("/v1/restart/restore", {"bucket": bucket}))["snapshot"]
    assert shown["active_state"] is None
    assert [item["content"] for item in shown["reminders"]] == ["2", "1"]


# -- W9, W10: replays


@pytest.mark.parametrize("path", sorted(WRITES))
def test_a_key_decides_alone(
    served: SandboxDaemon, agent: Wire, agent_token: str, bucket: str, path: str
) -> None:
    key = uuid.uuid4().hex
    first = agent.post(path, {**WRITES[path], "bucket": bucket, "idempotency_key": key})
    # the queue's body: unset fields come as "", the key of the state is missing
    replay = unset_filled({"content": "other", "context": "other", "bucket": bucket})
    again = agent.post(f"/api{path}", replay, **{"Idempotency-Key": key})
    assert again.json == first.json
    assert (again.status, again.headers["Idempotent-Replay"]) == (first.status, "true")

    def at_once(_: int) -> Answer:
        with served.wire(agent_token) as wire:
            return wire.post(path, {**WRITES[path], "bucket": bucket, "idempotency_key": key + "2"})

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(at_once, range(4)))
    assert len({answer.json["id"] for answer in answers}) == 1
    with served.wire(served.add_agent(f"second-{key}")) as other:
        own = other.post(path, {**WRITES[path], "bucket": f"{bucket}-2", "idempotency_key": key})
    assert own.json["id"] != first.json["id"]


def test_a_failed_attempt_does_not_use_its_key_up(agent: Wire, bucket: str) -> None:
    key = uuid.uuid4().hex
    for path, body in WRITES.items():
        broken = {**body, "bucket": bucket, "metadata": "text", "idempotency_key": key}
        assert agent.post(path, broken).status == 422
        assert agent.post(path, {**body, "bucket": bucket, "idempotency_key": key}).status == 201
    done = made(agent.post("/v1/reminders", {"content": "x", "bucket": bucket}))
    url = f"/v1/reminders/{done['id']}/complete"
    first = agent.post(url, {"note": "1", "idempotency_key": key})
    assert agent.post(url, {"note": "2", "idempotency_key": key}).json == first.json


def test_long_answers_of_items_stay_below_what_clients_read(agent: Wire, bucket: str) -> None:
    text = "ä" * 90_000
    for number in range(12):
        for path in ("timeline/events", "reminders"):
            agent.post(f"/v1/{path}", {"content": f"{number} {text}", "bucket": bucket})
        agent.remember(f"{number} {text}", bucket=bucket)
    for path, name, several in (("timeline", "events", 9), ("reminders", "reminders", 4)):
        answer = agent.get(f"/v1/{path}", bucket=bucket, limit="500")
        assert len(answer.body) < MAX_READ_BYTES
        assert answer.json["truncated"] is True
        assert len(answer.json[name]) >= several
        assert answer.json["total"] == 12
    agent.post("/v1/restart/snapshot", {"bucket": bucket})
    restored = agent.post("/v1/restart/restore", {"bucket": bucket})
    assert len(restored.body) < MAX_READ_BYTES
    for name in ("timeline", "reminders"):
        assert 1 <= len(restored.json["snapshot"][name]) < 12
    for name in ("memory_overview", "memory_activity"):
        told = rpc(agent, "tools/call", {"name": name, "arguments": {"limit": 50}})
        assert len(told.body) < MAX_READ_BYTES
