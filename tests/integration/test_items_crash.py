"""``kill -9`` while items are written: what was answered is there, whole, and replays are one."""

from __future__ import annotations

import random
import threading
import uuid
from pathlib import Path
from typing import Any

from opened_vault import opened
from sandbox_daemon import BROKEN, SandboxDaemon, Wire, wait_until

WRITERS = 3
KILLS = 3


class Writer(threading.Thread):
    """Works on its own scope until the daemon dies, and remembers what it was told."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.scope = f"writer-{number}"
        self.state_version = 0
        self.completed: set[str] = set()
        self.open: set[str] = set()
        self.resolved: dict[str, str] = {}
        self.last: tuple[str, dict[str, Any], dict[str, Any] | None] | None = None
        self.wire: Wire | None = None
        self.failure: BaseException | None = None

    def clone(self, wire: Wire) -> Writer:
        fresh = Writer(0)
        fresh.__dict__.update(
            {name: getattr(self, name) for name in
             ("scope", "state_version", "completed", "open", "resolved", "last")}
        )  # fmt: skip
        fresh.wire = wire
        return fresh

    def run(self) -> None:
        try:
            while True:
                self.one_round()
        except BROKEN:
            pass
        except BaseException as failure:
            self.failure = failure

    def post(self, path: str, **body: Any) -> dict[str, Any]:
        assert self.wire is not None
        sent = {"scope": self.scope, "idempotency_key": uuid.uuid4().hex, **body}
        self.last = (path, sent, None)
        answer = self.wire.post(path, sent)
        assert answer.status in (200, 201), (path, answer.status, answer.body)
        self.last = (path, sent, answer.json)
        return answer.json  # type: ignore[no-any-return]

    def one_round(self) -> None:
        state = self.post("/v1/update_state", current_task=uuid.uuid4().hex)
        assert state["version"] > self.state_version
        self.state_version = state["version"]
        reminder = self.post("/v1/reminders", content="r")["id"]
        self.open.add(reminder)
        self.post("/v1/timeline/events", content="e")
        self.post(f"/v1/reminders/{reminder}/complete")
        self.open.discard(reminder)
        self.completed.add(reminder)
        decision = self.post("/v1/decisions", context="d")["id"]
        self.post(f"/v1/decisions/{decision}/resolve", resolution=decision)
        self.resolved[decision] = decision
        self.post("/v1/restart/snapshot")

    def check(self, wire: Wire) -> None:
        """Everything that was acknowledged is there; the last request replays to one result."""
        if self.last is not None:
            path, sent, told = self.last
            first = wire.post(path, sent)
            assert first.status in (200, 201)
            assert told is None or first.json == told
            assert wire.post(path, sent).json == first.json
            self.last = None
        found = wire.get("/v1/reminders", scope=self.scope, item_status="%", limit="500").json
        status = {item["id"]: item["item_status"] for item in found["items"]}
        assert found["total"] < 500
        assert all(status[item] == "completed" for item in self.completed)
        assert all(item in status for item in self.open)
        taken = wire.get("/v1/decisions", scope=self.scope, item_status="resolved", limit="500")
        resolutions = {d["id"]: d["resolution"] for d in taken.json["decisions"]}
        assert self.resolved.items() <= resolutions.items()
        states = wire.search("*", scope=self.scope)
        assert len(states) == 1
        assert states[0]["version"] >= self.state_version
        self.state_version = states[0]["version"]
        restored = wire.post("/v1/restart/restore", {"scope": self.scope, "restore_state": False})
        assert restored.status == 200


def test_killed_daemon_loses_no_item_and_leaves_none_half(tmp_path: Path) -> None:
    rng = random.Random(7)
    with SandboxDaemon(tmp_path / "home", ("--no-embeddings",)).init().start() as daemon:
        token = daemon.add_agent("crash")
        writers = [Writer(number) for number in range(WRITERS)]
        for _ in range(KILLS):
            writers = [writer.clone(daemon.wire(token)) for writer in writers]
            before = sum(len(writer.resolved) for writer in writers)
            goal = before + rng.randrange(2, 9)
            for writer in writers:
                writer.start()
            wait_until(
                lambda many=goal, all_of=writers: (
                    sum(len(w.resolved) for w in all_of) >= many
                    or not all(w.is_alive() for w in all_of)
                ),
                60,
                "some rounds are written",
                0.005,
            )
            daemon.kill()
            for writer in writers:
                writer.join(30)
                assert writer.failure is None, writer.failure
            daemon.start()
            with daemon.wire(token) as wire:
                for writer in writers:
                    writer.check(wire)
        daemon.stop()
        with opened(daemon) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            (orphans,) = connection.execute(
                "SELECT count(*) FROM record r LEFT JOIN record_item i ON i.record_rowid = r.rowid"
                " AND i.kind = r.kind WHERE (r.kind = 'memory') = (i.record_rowid IS NOT NULL)"
            ).fetchone()
            assert orphans == 0
            (stale,) = connection.execute(
                "SELECT count(*) FROM record_item i JOIN record r ON r.rowid = i.record_rowid"
                " JOIN record_version v ON v.slot = (r.rowid << 24) + r.version"
                " WHERE ifnull(i.item_status, '') <> ifnull(json_extract(v.item, '$.item_status'),"
                " '')"
            ).fetchone()
            assert stale == 0
