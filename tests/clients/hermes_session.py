"""Runs inside the environment of the Hermes host: one session of its memory manager.

Arguments: what to do, ``session`` or ``lost_replies``; prints one JSON object. Addresses and key
come from XMEMO_URL and XMEMO_KEY as they would for a user; HERMES_HOME is a fresh folder with the
plugin installed.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

import plugins.memory
from agent.memory_manager import MemoryManager

SESSION = "session-1"
REPLAY_SECONDS = 60.0


def _manager() -> MemoryManager:
    provider = plugins.memory.load_memory_provider("xmemo")
    manager = MemoryManager()
    manager.add_provider(provider)
    manager.initialize_all(
        SESSION,
        platform="cli",
        hermes_home=os.environ["HERMES_HOME"],
        agent_context="primary",
        agent_identity="default",
    )
    return manager


def _call(manager: MemoryManager, tool: str, **arguments: object) -> dict[str, Any]:
    answer = json.loads(manager.handle_tool_call(tool, arguments))
    assert isinstance(answer, dict), (tool, answer)
    return answer


def session() -> dict[str, object]:
    manager = _manager()
    answers: dict[str, object] = {"tools": sorted(manager.get_all_tool_names())}

    def call(name: str, tool: str, **arguments: object) -> dict[str, Any]:
        answers[name] = answer = _call(manager, f"xmemo_{tool}", **arguments)
        return answer

    path = "projects/ferry"
    made = call("remember", "remember", content="The ferry leaves at seven", path=path)
    call("search", "search", query="ferry departure")
    call("get", "get", memory_id=made["id"])
    call("get_unknown", "get", memory_id="01890000-0000-7000-8000-000000000000")
    call("list", "list", path=path)
    call(
        "update_state",
        "update_state",
        current_task="Book the ferry",
        next_action="Call the harbour",
    )
    call("record_event", "record_event", content="Booked the ferry", event_type="milestone")
    call("recall_context", "recall_context", query="ferry", max_items=3)
    call(
        "recall_activity",
        "recall_context",
        query="what happened",
        since="2020-01-01T00:00:00+00:00",
        until="2099-01-01T00:00:00+00:00",
        query_mode="activity_log",
        time_order="desc",
        hypothetical_answer="A ferry was booked",
    )
    todo = call("create_reminder", "create_reminder", content="Renew the ferry pass")
    call("list_reminders", "list_reminders")
    call("complete_reminder", "complete_reminder", todo_id=todo["id"])
    call("list_open_reminders", "list_reminders", item_status="open")
    call("forget", "forget", memory_id=made["id"])
    call("search_after_forget", "search", query="when does the ferry leave the harbour")

    call("remember_again", "remember", content="The lighthouse is green", path="projects/lights")
    manager.queue_prefetch_all("lighthouse colour", session_id=SESSION)
    manager.flush_pending(10.0)
    answers["prefetch"] = manager.prefetch_all("lighthouse colour", session_id=SESSION)
    manager.on_memory_write("add", "memory", "The owner prefers tea")
    manager.sync_all("What do I drink?", "You prefer tea.", session_id=SESSION)
    manager.flush_pending(10.0)
    answers["system_prompt"] = manager.build_system_prompt()
    manager.on_session_end([{"role": "user", "content": "Bye"}])
    manager.shutdown_all()
    return answers


def lost_replies() -> dict[str, object]:
    """Through a proxy that loses answers: two writes are queued; later writes replay them."""
    manager = _manager()
    first = _call(manager, "xmemo_remember", content="The key is under the mat", path="lost/one")
    state = _call(manager, "xmemo_update_state", current_task="Find the mat")
    deadline = time.monotonic() + REPLAY_SECONDS
    for turn in itertools.count():
        statuses = _outbox()
        if set(statuses) == {"sent"} or time.monotonic() > deadline:
            break
        _call(manager, "xmemo_remember", content=f"Turn {turn}", path="lost/turns")
        time.sleep(0.2)
    manager.shutdown_all()
    return {"remember": first, "update_state": state, "outbox": statuses}


def _outbox() -> list[str]:
    path = Path(os.environ["HERMES_HOME"]) / "xmemo_cache.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return [status for (status,) in connection.execute("SELECT status FROM write_outbox")]


if __name__ == "__main__":
    print(json.dumps({"session": session, "lost_replies": lost_replies}[sys.argv[1]]()))
