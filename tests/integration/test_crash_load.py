"""``kill -9`` of the daemon under a mixed write load: no acknowledged write is lost, none is half.

Contract: vault.md 16, T1 and oracle I1. The ledger lives in this process, so it survives.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from pathlib import Path

import pytest
from listing import list_all
from sandbox_daemon import BROKEN, SandboxDaemon, Wire, wait_until
from write_ledger import FOLDER, Ledger, Version

WRITERS = 4
MOST_WRITES_BETWEEN_KILLS = 40
LONGEST_WRITE_SECONDS = 0.03
LONGEST_START_SECONDS = 0.7
KILLED_WHILE_STARTING = 0.2  # share of the kills


class Writer(threading.Thread):
    """Writes until the daemon dies. Each memory belongs to one writer, so its order is known."""

    def __init__(self, wire: Wire, ledger: Ledger, own: list[str], seed: int) -> None:
        super().__init__()
        self._wire, self._ledger, self._own = wire, ledger, own
        self._rng = random.Random(seed)
        self.refused: list[tuple[int, str]] = []

    def run(self) -> None:
        try:
            while not self.refused:
                self._one_write()
        except BROKEN:
            pass
        finally:
            self._wire.close()

    def _one_write(self) -> None:
        live = self._own
        choice = self._rng.random()
        if not live or choice < 0.55:
            self._remember()
            return
        tracked = self._ledger.memories[self._rng.choice(live)]
        state = tracked.acknowledged
        if state.deleted:
            self._change(tracked.id, Version(state.number), "POST", "/restore", {})
        elif choice < 0.85:
            version = self._ledger.next_version()
            self._change(tracked.id, version, "PATCH", "", version.body())
        else:
            forgotten = Version(state.number, deleted=True)
            self._change(tracked.id, forgotten, "POST", "/forget", {"mode": "soft_delete"})

    def _remember(self) -> None:
        version, key = self._ledger.next_version(), uuid.uuid4().hex
        self._ledger.begin_remember(version, key)
        answer = self._wire.post("/v1/remember", {**version.body(), "idempotency_key": key})
        if answer.status not in (200, 201):
            self.refused.append((answer.status, answer.code))
            return
        self._ledger.acknowledge_remember(version, answer.json["id"])
        self._own.append(answer.json["id"])

    def _change(
        self, memory_id: str, version: Version, method: str, part: str, body: dict[str, object]
    ) -> None:
        self._ledger.begin_change(memory_id, version)
        answer = self._wire.send(method, f"/v1/memories/{memory_id}{part}", body)
        if answer.status not in (200, 201):
            self.refused.append((answer.status, answer.code))
            return
        self._ledger.acknowledge_change(memory_id)


def _load_until_killed(
    daemon: SandboxDaemon, token: str, ledger: Ledger, own: list[list[str]], rng: random.Random
) -> None:
    writers = [Writer(daemon.wire(token), ledger, own[i], rng.random()) for i in range(WRITERS)]
    for writer in writers:
        writer.start()
    goal = ledger.acknowledged + rng.randint(0, MOST_WRITES_BETWEEN_KILLS)
    wait_until(lambda: ledger.acknowledged >= goal, 60, "some writes are acknowledged", 0.001)
    time.sleep(rng.uniform(0.0, LONGEST_WRITE_SECONDS))  # the random moment is the point
    daemon.kill()
    for writer in writers:
        writer.join(30)
        assert not writer.is_alive()
        assert writer.refused == []


def _kill_while_starting(daemon: SandboxDaemon, rng: random.Random) -> None:
    daemon.launch()
    time.sleep(rng.uniform(0.0, LONGEST_START_SECONDS))  # the random moment is the point
    daemon.kill()


def _check(daemon: SandboxDaemon, token: str, ledger: Ledger, rng: random.Random) -> None:
    vault = daemon.status()["vault"]
    assert vault["state"] == "unlocked", vault
    with daemon.wire(token) as wire:
        waiting = dict(ledger.unanswered)
        assert ledger.verify(list_all(wire, path=FOLDER)) == []
        _replay(wire, ledger, waiting)
        live = [x for x in ledger.memories.values() if not x.acknowledged.deleted]
        for tracked in rng.sample(live, min(5, len(live))):
            found = wire.search(tracked.acknowledged.word, limit=3)
            assert tracked.id in [row["id"] for row in found], "the words of a row are missing"
            assert tracked.acknowledged.is_whole(wire.get(f"/v1/memories/{tracked.id}").json)


def _replay(wire: Wire, ledger: Ledger, waiting: dict[int, str]) -> None:
    """A client sends its unanswered writes again, as XMemo clients do: one row each."""
    by_number = {x.acknowledged.number: x.id for x in ledger.memories.values()}
    for number, key in waiting.items():
        body = {**Version(number).body(), "idempotency_key": key}
        answer = wire.post("/v1/remember", body)
        assert answer.status in (200, 201)
        if number in by_number:
            assert answer.json["id"] == by_number[number], "a replay made a second row"
            assert answer.headers.get("Idempotent-Replay") == "true"
        else:
            ledger.acknowledge_remember(Version(number), answer.json["id"])


def _crash(home: Path, kills: int, seed: int) -> tuple[int, int]:
    rng, chosen = random.Random(seed), random.Random(seed)  # how many rows there are is no plan
    ledger, own = Ledger(), [[] for _ in range(WRITERS)]
    with SandboxDaemon(home) as daemon:
        daemon.init().start()
        token = daemon.add_agent("crash")
        done = 0
        while done < kills:
            if rng.random() < KILLED_WHILE_STARTING:
                daemon.kill()
                _kill_while_starting(daemon, rng)
            else:
                _load_until_killed(daemon, token, ledger, own, rng)
            done += 1
            daemon.start()
            _check(daemon, token, ledger, chosen)
        assert daemon.stop() == 0
        checked = daemon.cli("doctor", "--json", check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        daemon.start()
        _check(daemon, token, ledger, chosen)
    return ledger.acknowledged, len(ledger.memories)


@pytest.mark.slow
@pytest.mark.timeout(2_400)
def test_random_kills_under_load_lose_no_acknowledged_write(tmp_path: Path, thorough: bool) -> None:
    kills = 200 if thorough else 40
    # on four vaults in turn: the check after each kill reads every memory there is
    crashed = [_crash(tmp_path / f"home{x}", kills=kills // 4, seed=200 + x) for x in range(4)]
    acknowledged, memories = (sum(counts) for counts in zip(*crashed, strict=True))
    print(f"\n{kills} kills: {acknowledged} acknowledged writes, {memories} memories, none lost")
    assert acknowledged > 10 * kills
