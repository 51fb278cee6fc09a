"""``hermes-xmemo`` inside the real ``hermes-agent`` host (xmemo.md 16.1)."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from losing_proxy import LosingProxy
from sandbox_daemon import SandboxDaemon

DRIVER = Path(__file__).with_name("hermes_session.py")
FALSE_OUTCOMES = {"queued", "degraded", "offline", "error"}
SESSION_SECONDS = 120.0
TOOLS = {
    "xmemo_" + name
    for name in (
        "remember",
        "search",
        "recall_context",
        "get",
        "list",
        "update_state",
        "record_event",
        "create_reminder",
        "list_reminders",
        "complete_reminder",
        "forget",
    )
}

Host = Callable[[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def host(hermes: Path, key: str, tmp_path_factory: pytest.TempPathFactory) -> Host:
    """Runs one session of the host: what to do, and the address that its user configured."""

    def run(what: str, url: str) -> dict[str, Any]:
        home = tmp_path_factory.mktemp("hermes-home")
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "HERMES_HOME": str(home),
            "XMEMO_URL": url,
            "XMEMO_KEY": key,
        }
        switches = ("enable_workflow_tools", "enable_destructive_tools", "capture_timeline")
        install = [str(hermes.with_name("hermes-xmemo")), "install"]
        subprocess.run(install, env=environment, check=True, capture_output=True)
        (home / "xmemo.json").write_text(json.dumps(dict.fromkeys(switches, True)))
        done = subprocess.run(
            [str(hermes), str(DRIVER), what],
            env=environment,
            cwd=home,
            capture_output=True,
            text=True,
            timeout=SESSION_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        answer = json.loads(done.stdout.splitlines()[-1])
        assert isinstance(answer, dict)
        return answer

    return run


@pytest.fixture(scope="module")
def answers(host: Host, daemon: SandboxDaemon) -> dict[str, Any]:
    return host("session", daemon.url)


def test_the_host_offers_its_eleven_tools(answers: dict[str, Any]) -> None:
    assert set(answers["tools"]) >= TOOLS


def test_no_tool_says_queued_degraded_or_offline(answers: dict[str, Any]) -> None:
    for name, answer in answers.items():
        if isinstance(answer, dict):
            assert answer.get("status") not in FALSE_OUTCOMES, (name, answer)
            assert "error" not in answer or name == "get_unknown", (name, answer)


def test_what_was_remembered_is_found_read_and_listed(answers: dict[str, Any]) -> None:
    made = answers["remember"]["id"]
    for name in ("search", "get", "list", "recall_context"):
        assert "The ferry leaves at seven" in json.dumps(answers[name]), name
    assert made in json.dumps(answers["get"])
    assert "not found" in json.dumps(answers["get_unknown"]).lower()


def test_the_feed_of_a_period_has_event_and_memory(answers: dict[str, Any]) -> None:
    feed = json.dumps(answers["recall_activity"])
    assert "The ferry leaves at seven" in feed
    assert "Booked the ferry" in feed


def test_a_reminder_is_listed_until_it_is_done(answers: dict[str, Any]) -> None:
    assert "Renew the ferry pass" in json.dumps(answers["list_reminders"])
    assert "Renew the ferry pass" not in json.dumps(answers["list_open_reminders"])


def test_a_forgotten_memory_is_found_no_more(answers: dict[str, Any]) -> None:
    assert "The ferry leaves at seven" not in json.dumps(answers["search_after_forget"])


def test_the_prefetch_holds_the_memory(answers: dict[str, Any]) -> None:
    assert answers["prefetch"].lstrip().startswith("## XMemo Memory")
    assert "The lighthouse is green" in answers["prefetch"]


def test_the_session_leaves_its_copy_turn_and_snapshot(
    answers: dict[str, Any], daemon: SandboxDaemon, key: str
) -> None:
    assert answers
    with daemon.wire(key) as wire:
        assert wire.search("owner prefers tea")
        # the snapshot copies the session's events, so none of this is in the answers themselves
        events = wire.get("/v1/timeline", bucket="work", limit=50).json["events"]
        assert any("Booked the ferry" in event["content"] for event in events)
        restored = wire.post("/v1/restart/restore", {"bucket": "work"}).json
        assert restored["restored"] is True


def test_a_lost_answer_leaves_one_row(host: Host, daemon: SandboxDaemon, key: str) -> None:
    with LosingProxy(daemon.url) as proxy:
        proxy.lose_first_of("/v1/remember", "/v1/update_state")
        told = host("lost_replies", proxy.url)
        assert proxy.answers_lost == 2
    assert [told["remember"]["status"], told["update_state"]["status"]] == ["queued", "queued"]
    assert told["outbox"] == ["sent", "sent"]
    with daemon.wire(key) as wire:
        assert len(wire.search("*", path="lost/one")) == 1
