"""An unmodified XMemo client, ``hermes-xmemo``, against the running daemon (xmemo.md 16.2).

Its host is not installed; three modules that it imports from there are stand-ins, alive only while
the client is imported.
"""

from __future__ import annotations

import importlib
import random
import string
import sys
import types
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from losing_proxy import LosingProxy
from sandbox_daemon import SandboxDaemon, running

INSTANCE = "hermes-test-installation"
FALSE_OUTCOMES = {"queued", "error", "degraded", "offline"}


def _stand_in(name: str, **members: object) -> types.ModuleType:
    module = types.ModuleType(name)
    for key, value in members.items():
        setattr(module, key, value)
    return module


@pytest.fixture(scope="module")
def hermes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[types.ModuleType]:
    home = tmp_path_factory.mktemp("hermes")
    stand_ins = {
        "hermes_constants": _stand_in("hermes_constants", get_hermes_home=lambda: home),
        "agent": _stand_in("agent", __path__=[]),
        "agent.memory_provider": _stand_in("agent.memory_provider", MemoryProvider=object),
        "tools": _stand_in("tools", __path__=[]),
        "tools.registry": _stand_in("tools.registry", tool_error=lambda text, **_: text),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, module in stand_ins.items():
            patch.setitem(sys.modules, name, module)
        yield importlib.import_module("hermes_xmemo.xmemo.client")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxDaemon]:
    with running(tmp_path_factory.mktemp("hermes-daemon") / "home") as started:
        yield started


@pytest.fixture(scope="module")
def key(daemon: SandboxDaemon) -> str:
    return daemon.add_agent("hermes")


@pytest.fixture
def client(hermes: types.ModuleType, daemon: SandboxDaemon, key: str) -> Iterator[Any]:
    opened = hermes.XMemoClient(daemon.url, key, "hermes", INSTANCE)
    yield opened
    opened.close()


def _unique(text: str) -> tuple[str, str]:
    # letters only: digits inside a word split it into parts that other words share
    word = "".join(random.choices(string.ascii_lowercase, k=12))
    return f"{text} {word}", word


def test_health_is_ok(client: Any) -> None:
    assert client.health()["status"] == "ok"


def test_remember_then_search_context_list_get(client: Any) -> None:
    text, word = _unique("The billing worker of amber-falcon listens on port 49222.")
    made = client.remember(text, f"projects/amber/{word}", importance=0.7)
    assert made["id"] == made["memory_id"]
    assert made["status"] == "created"

    (hit,) = [x for x in client.search(word) if x["id"] == made["id"]]
    assert hit["content"] == text
    assert (hit["bucket"], hit["scope"]) == ("work", "hermes/default")
    assert isinstance(hit["score"], float)
    assert isinstance(hit["similarity"], float)
    assert hit["ownership"] == "current_agent"
    assert hit["memory_agent_boundary"]["relation"] == "self"
    assert hit["agent_boundary"]["boundary"] == "self"
    assert "result" not in made

    pack = client.recall_context(f"which port has {word}", max_items=3, max_tokens=300)
    assert pack["items"][0]["id"] == made["id"]
    assert pack["items"][0]["content"] == text
    blocks = pack["context_text"].split("\n\n")
    assert len(blocks) == len(pack["items"])
    assert word in blocks[0]

    assert [x["id"] for x in client.list_memories(path="projects/amber")] == [made["id"]]
    explained = client.get_memory(made["id"])["memory"]
    assert (explained["id"], explained["content"]) == (made["id"], text)
    assert isinstance(explained["metadata"], dict)


def test_mark_used_and_forget_take_effect_at_once(client: Any) -> None:
    text, word = _unique("The old staging password policy mentions")
    made = client.remember(text, "policy/old")
    assert client.mark_used(made["id"], context="answer", idempotency_key=uuid.uuid4().hex)["id"]
    gone = client.forget(made["id"], reason="obsolete", idempotency_key=uuid.uuid4().hex)
    assert gone["id"] == made["id"]
    assert gone["status"] == "deleted"
    assert client.search(word) == []
    assert made["id"] not in [x["id"] for x in client.recall_context(word)["items"]]
    assert made["id"] not in [x["id"] for x in client.list_memories(path="policy", limit=100)]


def test_temporal_filters_of_the_client(client: Any) -> None:
    text, word = _unique("A dated fact about the")
    made = client.remember(text, "dated/fact")
    window = {"since": "2020-01-01T00:00:00+00:00", "until": "2100-01-01T00:00:00+00:00"}
    found = client.search(word, time_order="desc", owner_timezone="Europe/Berlin", **window)
    assert [x["id"] for x in found] == [made["id"]]
    pack = client.recall_context(
        word, query_mode="activity_log", hypothetical_answer="It is a fact.", **window
    )
    assert made["id"] in [x["id"] for x in pack["items"]]
    past = {"since": "2020-01-01T00:00:00+00:00", "until": "2021-01-01T00:00:00+00:00"}
    assert client.search(word, **past) == []


def test_no_answer_looks_like_a_false_outcome(client: Any) -> None:
    text, word = _unique("An ordinary fact with the word")
    made = client.remember(text, "plain/fact")
    answers = [made, client.recall_context(word), client.get_memory(made["id"]), client.health()]
    assert not FALSE_OUTCOMES & {answer.get("status") for answer in answers}
    assert not [answer for answer in answers if "result" in answer]


def test_unknown_id_is_404_and_not_transient(hermes: types.ModuleType, client: Any) -> None:
    with pytest.raises(hermes.XMemoClientError) as caught:
        client.get_memory(str(uuid.uuid4()))
    assert (caught.value.status_code, caught.value.is_transient) == (404, False)


def test_wrong_key_is_403_and_not_transient(
    hermes: types.ModuleType, daemon: SandboxDaemon
) -> None:
    wrong = "mlk_" + "A" * 43
    opened = hermes.XMemoClient(daemon.url, wrong, "hermes", INSTANCE)
    with pytest.raises(hermes.XMemoClientError) as caught:
        opened.search("anything")
    opened.close()
    assert (caught.value.status_code, caught.value.is_transient) == (403, False)
    assert wrong not in str(caught.value)


def test_locked_vault_is_503_and_transient(hermes: types.ModuleType, tmp_path: Path) -> None:
    with running(tmp_path / "home") as daemon:
        token = daemon.add_agent("hermes")
        with daemon.owner() as owner:
            assert owner.post("/v1/vault/lock").status == 200
        opened = hermes.XMemoClient(daemon.url, token, "hermes", INSTANCE)
        for call in (
            lambda: opened.remember("x", "y"),
            lambda: opened._request("GET", "/v1/memories/search", max_attempts=1),
        ):
            with pytest.raises(hermes.XMemoClientError) as caught:
                call()
            assert (caught.value.status_code, caught.value.is_transient) == (503, True)
            assert caught.value.response_body["error"]["code"] == "vault_locked"
        assert opened.health()["status"] == "ok"
        opened.close()


def test_lost_reply_replayed_with_the_same_key_leaves_one_row(
    hermes: types.ModuleType, daemon: SandboxDaemon, key: str, client: Any
) -> None:
    text, word = _unique("The answer to this write gets lost:")
    idempotency_key = uuid.uuid4().hex
    with LosingProxy(daemon.url) as proxy:
        through = hermes.XMemoClient(proxy.url, key, "hermes", INSTANCE)
        proxy.lose_next()
        with pytest.raises(hermes.XMemoClientError) as caught:
            through.remember(text, "lost/reply", dedupe=False, idempotency_key=idempotency_key)
        assert caught.value.is_transient
        assert proxy.answers_lost == 1
        # The client's queue replays late, with other fields and maybe from another process.
        replayed = through.remember(
            text + " (again)", "lost/elsewhere", dedupe=False, idempotency_key=idempotency_key
        )
        again = client.remember("other text", "lost", dedupe=False, idempotency_key=idempotency_key)
        through.close()
    assert replayed["id"] == again["id"]
    rows = [x for x in client.list_memories(path="lost", limit=100)]
    assert [(x["id"], x["content"]) for x in rows] == [(replayed["id"], text)]
    assert [x["id"] for x in client.search(word)] == [replayed["id"]]


def test_lost_reply_of_forget_and_usage_can_be_replayed(
    hermes: types.ModuleType, daemon: SandboxDaemon, key: str, client: Any
) -> None:
    text, word = _unique("This row is forgotten while the answer gets lost:")
    made = client.remember(text, "lost/forget")
    idempotency_key = uuid.uuid4().hex
    with LosingProxy(daemon.url) as proxy:
        through = hermes.XMemoClient(proxy.url, key, "hermes", INSTANCE)
        proxy.lose_next()
        with pytest.raises(hermes.XMemoClientError):
            through.forget(made["id"], idempotency_key=idempotency_key)
        assert through.forget(made["id"], idempotency_key=idempotency_key)["id"] == made["id"]
        through.close()
    assert client.search(word) == []


# -- state, timeline, restart, reminders (xmemo.md 16.2)


def test_update_state_keeps_one_slot(client: Any) -> None:
    key = f"slot-{uuid.uuid4().hex[:8]}"
    first = client.update_state(state_key=key, current_task="mend the pump", ttl_seconds=0)
    second = client.update_state(
        state_key=key, next_action="test the pump", idempotency_key=uuid.uuid4().hex
    )
    assert first["id"] == second["id"] == second["memory_id"] == second["state_id"]
    assert (first["version"], second["version"]) == (1, 2)
    assert first["expires_at"] is None
    assert second["expires_at"] is not None
    (hit,) = [x for x in client.search("pump", scope="hermes/default") if x["id"] == first["id"]]
    assert hit["content"] == "Next action: test the pump"


def test_record_event_and_restart_snapshot(client: Any) -> None:
    event = client.record_event("the pump runs", event_type="milestone", session_id="s-1")
    assert event["id"] == event["event_id"] == event["event"]["id"]
    assert (event["content"], event["event_type"]) == ("the pump runs", "milestone")
    snapshot = client.create_restart_snapshot(session_id="s-1", idempotency_key=uuid.uuid4().hex)
    assert snapshot["id"] == snapshot["snapshot_id"]
    assert snapshot["created_at"]


def test_reminders_from_create_to_complete(client: Any) -> None:
    text, _ = _unique("Remember the pump of")
    made = client.create_reminder(text, due_at="2199-01-01T00:00:00+00:00", session_id="s-1")
    assert made["id"] == made["todo_id"] == made["reminder"]["id"]
    assert made["item_status"] == "open"
    assert made["id"] in [x["id"] for x in client.list_reminders(limit=100)]
    for _ in range(2):
        done = client.complete_reminder(made["id"], note="it runs")
        assert (done["id"], done["item_status"]) == (made["id"], "completed")
    assert made["id"] not in [x["id"] for x in client.list_reminders(limit=100)]
    assert made["id"] in [x["id"] for x in client.list_reminders(item_status="completed")]
    assert made["id"] in [x["id"] for x in client.list_reminders(item_status="%")]


def test_item_answers_do_not_look_like_a_false_outcome(client: Any) -> None:
    reminder = client.create_reminder("an ordinary reminder")
    answers = [
        client.update_state(current_task="an ordinary task"),
        client.record_event("an ordinary event"),
        client.create_restart_snapshot(),
        reminder,
        client.complete_reminder(reminder["id"]),
    ]
    assert not FALSE_OUTCOMES & {answer.get("status") for answer in answers}
    assert not [answer for answer in answers if "result" in answer or not answer["id"]]


def test_queued_writes_replay_with_other_fields(
    hermes: types.ModuleType, daemon: SandboxDaemon, key: str, client: Any
) -> None:
    """What the client's outbox sends later: the whole payload, unset fields as ""."""
    scope = f"hermes/{uuid.uuid4().hex[:8]}"
    with LosingProxy(daemon.url) as proxy:
        through = hermes.XMemoClient(proxy.url, key, "hermes", INSTANCE)
        state_key, reminder_key = uuid.uuid4().hex, uuid.uuid4().hex
        proxy.lose_next()
        with pytest.raises(hermes.XMemoClientError) as caught:
            through.update_state(current_task="a", scope=scope, idempotency_key=state_key)
        assert caught.value.is_transient
        payload = {
            "current_task": "a", "next_action": "", "blocked_reason": "", "bucket": "work",
            "scope": scope, "ttl_seconds": 86400,
        }  # fmt: skip
        replayed = through._request(
            "POST", "/v1/update_state", json_body=payload, idempotency_key=state_key
        )
        proxy.lose_next()
        with pytest.raises(hermes.XMemoClientError):
            through.create_reminder("r", scope=scope, idempotency_key=reminder_key)
        payload = {"content": "r", "due_at": "", "bucket": "work", "scope": scope, "session_id": ""}
        reminder = through._request(
            "POST", "/v1/reminders", json_body=payload, idempotency_key=reminder_key
        )
        complete_key = uuid.uuid4().hex
        proxy.lose_next()
        with pytest.raises(hermes.XMemoClientError):
            through.complete_reminder(reminder["id"], idempotency_key=complete_key)
        done = through._request(
            "POST",
            f"/v1/reminders/{reminder['id']}/complete",
            json_body={"bucket": "%", "scope": None},
            idempotency_key=complete_key,
        )
        through.close()
    assert replayed["version"] == 1
    assert done["item_status"] == "completed"
    found = client.list_reminders(scope=scope, item_status="%")
    assert [(x["id"], x["version"]) for x in found] == [(reminder["id"], 2)]


def test_unknown_reminder_is_404_and_not_transient(hermes: types.ModuleType, client: Any) -> None:
    with pytest.raises(hermes.XMemoClientError) as caught:
        client.complete_reminder(str(uuid.uuid4()))
    assert (caught.value.status_code, caught.value.is_transient) == (404, False)
