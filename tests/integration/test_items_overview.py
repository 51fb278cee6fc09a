"""Numbers, activity and a project at a glance: read through MCP, since no REST route shows them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from opened_vault import opened
from sandbox_daemon import SandboxDaemon, Wire, running

SCOPES = ("memory:read", "memory:write", "ledger:read", "ledger:write")


def call(wire: Wire, tool: str, **arguments: object) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    answer = wire.post("/mcp", body, Accept="application/json")
    assert answer.status == 200, answer.body
    result = answer.json["result"]
    assert not result.get("isError"), result
    found = result["structuredContent"]
    return found.get("result", found)  # type: ignore[no-any-return]


def fill(wire: Wire, scope: str) -> dict[str, str]:
    here = {"bucket": "work", "scope": scope}
    made = {
        "memory": wire.remember("the pelican nests in June", path=f"{scope}/birds", **here)["id"]
    }
    for name, path, body in (
        ("state", "/v1/update_state", {"current_task": "count pelicans"}),
        ("event", "/v1/timeline/events", {"content": "counted"}),
        ("reminder", "/v1/reminders", {"content": "count again"}),
        ("decision", "/v1/decisions", {"context": "when to count"}),
    ):
        answer = wire.post(path, {**here, **body})
        assert answer.status == 201
        made[name] = answer.json["id"]
    return made


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxDaemon]:
    """A vault of its own: its records are counted."""
    with running(tmp_path_factory.mktemp("counted") / "home") as daemon:
        yield daemon


def test_numbers_and_activity_with_and_without_the_gate(counted: SandboxDaemon) -> None:
    token = counted.add_agent("overview", *SCOPES)
    with counted.wire(token, agent="overview") as wire:
        scope = uuid.uuid4().hex
        made = fill(wire, scope)
        gone = wire.post("/v1/reminders", {"content": "forgotten"}).json["id"]
        assert wire.post(f"/v1/memories/{gone}/forget", {}).status == 200
        call(wire, "add_expense", item="binoculars", amount=99.5, currency="EUR")

        stats = call(wire, "memory_stats")
        assert stats["total"] == 2
        kinds = {"memory": 1, "state": 1, "event": 1, "reminder": 1, "decision": 1, "expense": 1}
        assert stats["kinds"] == kinds
        assert stats["scopes"] == {scope: 2}
        assert stats["memory_types"] == {"semantic": 1, "working": 1}
        assert stats["agents"] == {"overview": 2}

        overview = call(wire, "memory_overview")
        assert (overview["total"], overview["kinds"]) == (2, kinds)
        assert (overview["open_reminders"], overview["pending_decisions"]) == (1, 1)
        assert [item["id"] for item in overview["recent"]] == [made["memory"]]
        assert [item["id"] for item in overview["states"]] == [made["state"]]

        def acts(kind: str, **more: object) -> list[tuple[str, str]]:
            found = call(wire, "memory_activity", activity_type=kind, limit=50, **more)
            return [(act["action"], act["target_id"]) for act in found["activities"]]

        assert acts("deletions") == [("reminder.deleted", gone)]
        assert ("reminder.created", made["reminder"]) in acts("reminders")
        assert [action for action, _ in acts("ledger")] == ["expense.created"]
        assert acts("timeline") == [("event.created", made["event"])]
        assert {action for action, _ in acts("writes")} == {
            "memory.created", "state.created", "decision.created",
        }  # fmt: skip
        assert len(acts("all")) == 8
        assert len(acts("all", until="2020-01-01T00:00:00Z")) == 0
        feed = call(wire, "memory_activity")
        assert [event["id"] for event in feed["events"]] == [made["event"]]
        assert call(wire, "memory_activity", include_timeline=False)["events"] == []

        ledger = call(wire, "list_ledger_transactions")
        assert [(entry["item"], entry["amount"]) for entry in ledger["transactions"]] == [
            ("binoculars", 99.5)
        ]
        assert call(wire, "list_ledger_transactions", month=1, year="1999")["transactions"] == []
        assert call(wire, "get_monthly_ledger_summary")["total"] == 99.5

    counted.stop()
    with opened(counted) as connection:
        connection.execute("UPDATE record SET retrieval_visibility = 'not_retrievable'")
    counted.start()
    with counted.wire(token) as wire:
        stats = call(wire, "memory_stats")
        assert (stats["total"], stats["kinds"], stats["buckets"]) == (0, {}, {})
        overview = call(wire, "memory_overview")
        assert (overview["open_reminders"], overview["pending_decisions"]) == (0, 0)
        assert (overview["recent"], overview["states"]) == ([], [])
        activity = call(wire, "memory_activity")
        assert (activity["activities"], activity["events"]) == ([], [])
        project = call(wire, "get_project_context", project_id=scope)
        assert (project.get("items", []), project.get("active_state")) == ([], None)
        assert (project["reminders"], project["decisions"]) == ([], [])


@pytest.mark.parametrize("by", ["scope", "path"])
def test_a_project_shows_its_own(served: SandboxDaemon, by: str) -> None:
    word = "".join(chr(97 + byte % 26) for byte in uuid.uuid4().bytes)
    with served.wire(served.add_agent(f"project-{by}", *SCOPES)) as wire:
        made, other = fill(wire, word), fill(wire, f"{word}-other")
        project = word if by == "scope" else f"{word}/birds"
        found = call(wire, "get_project_context", project_id=project, query="pelican nests")
        ids = [item["id"] for item in found["items"]]
        assert made["memory"] in ids
        assert other["memory"] not in ids
        assert "pelican" in found["context_text"]
        if by == "scope":
            assert found["active_state"]["id"] == made["state"]
            assert [item["id"] for item in found["reminders"]] == [made["reminder"]]
            assert [item["id"] for item in found["decisions"]] == [made["decision"]]
        else:
            assert (found["reminders"], found["decisions"]) == ([], [])
        assert call(wire, "get_project_context", project_id=project)["items"]
        for action, name, own in (
            ("todos", "reminders", "reminder"),
            ("decisions", "decisions", "decision"),
            ("timeline", "events", "event"),
        ):
            listed = call(wire, "project", action=action, project_id=word)[name]
            assert [item["id"] for item in listed] == [made[own]]
