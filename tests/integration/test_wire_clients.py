"""Many clients at once, and who wrote what: F31, F33-F35 of the field complaints, W50, A4, A5."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from sandbox_daemon import COMMAND, SandboxDaemon, Wire, running

CLIENTS = 20
REQUESTS = 1_000
READS = 2_000
ROWS, FEWER_ROWS = 10_000, 4_000
SLOWEST_SECONDS = 0.250  # xmemo.md 17, W50; measured figures are printed


def percentile(seconds: list[float], part: float) -> float:
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * part))]


@dataclasses.dataclass
class Worker:
    """One client with a credential, an agent id and an installation of its own."""

    daemon: SandboxDaemon
    number: int
    token: str

    def __post_init__(self) -> None:
        self.name = f"many-{self.number}"
        self.written: dict[str, str] = {}
        self.seconds: list[float] = []
        self.faults: list[str] = []

    def run(self, steps: list[str]) -> None:
        wire = self.daemon.wire(self.token, agent=self.name, instance=f"{self.name}-here")
        with contextlib.closing(wire):
            for at, step in enumerate(steps):
                started = time.perf_counter()
                try:
                    getattr(self, f"_{step}")(wire, at)
                except Exception as error:  # counted: one client's fault must not end the others
                    self.faults.append(f"{step}: {error!r}")
                self.seconds.append(time.perf_counter() - started)

    def _ok(self, step: str, status: int) -> None:
        if status not in (200, 201):
            self.faults.append(f"{step}: {status}")

    def _remember(self, wire: Wire, at: int) -> None:
        text = f"note {at} of client {self.number}: blue harbour {at % 7}"
        answer = wire.post("/v1/remember", {"content": text, "path": f"many/{self.name}"})
        self._ok("remember", answer.status)
        self.written[answer.json["id"]] = text

    def _search(self, wire: Wire, at: int) -> None:
        answer = wire.get("/v1/memories/search", query=f"blue harbour {at % 7}", limit=20)
        self._ok("search", answer.status)
        self._attribution(answer.json["results"])

    def _context(self, wire: Wire, at: int) -> None:
        answer = wire.post("/v1/recall/context", {"query": "blue harbour", "max_items": 10})
        self._ok("context", answer.status)
        self._attribution(answer.json["items"])

    def _update(self, wire: Wire, at: int) -> None:
        if not self.written:
            return self._remember(wire, at)
        row = next(iter(self.written))
        self._ok("update", wire.send("PATCH", f"/v1/memories/{row}", {"importance": 0.5}).status)

    def _state(self, wire: Wire, at: int) -> None:
        body = {"content": f"state of {self.name}", "scope": self.name}
        self._ok("state", wire.post("/v1/update_state", body).status)

    def _tool(self, wire: Wire, at: int) -> None:
        call = {"name": "get_mcp_identity", "arguments": {}}
        message = {"jsonrpc": "2.0", "id": at, "method": "tools/call", "params": call}
        answer = wire.post("/mcp", message)
        self._ok("tool", answer.status)
        if self.name not in answer.body.decode():
            self.faults.append("tool: another identity")

    def _attribution(self, items: list[dict[str, Any]]) -> None:
        """Whose a row is follows from its text; the label must say the same."""
        for item in items:
            if not item["path"].startswith("many/many-"):
                continue
            mine = item["path"] == f"many/{self.name}"
            relation = item["memory_agent_boundary"]["relation"]
            if relation != ("self" if mine else "other_agent"):
                self.faults.append(f"{item['path']} seen by {self.name} as {relation}")


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_thousand_mixed_requests_of_twenty_clients(
    served: SandboxDaemon, record_property: Any
) -> None:
    workers = [Worker(served, n, served.add_agent(f"many-{n}")) for n in range(CLIENTS)]
    kinds = ["remember"] * 5 + ["search"] * 6 + ["context"] * 4 + ["update"] * 2 + ["state", "tool"]
    plan = random.Random(7)
    each = REQUESTS // CLIENTS
    started = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda worker: worker.run(plan.choices(kinds, k=each)), workers))
    elapsed = time.perf_counter() - started
    seconds = [value for worker in workers for value in worker.seconds]
    assert len(seconds) == REQUESTS
    assert [fault for worker in workers for fault in worker.faults] == []
    figures = f"p50 {percentile(seconds, 0.5):.3f} s, p95 {percentile(seconds, 0.95):.3f} s"
    print(f"{REQUESTS} mixed requests of {CLIENTS} clients in {elapsed:.1f} s: {figures}")
    record_property("mixed_requests", figures)
    with served.owner() as owner:
        agents = {agent["id"]: agent for agent in owner.get("/v1/agents").json["agents"]}
        assert len([a for a in agents.values() if a["name"].startswith("many-")]) == CLIENTS
    for worker in workers:  # every row is there once, unchanged, and says who wrote it
        wire = served.wire(worker.token, agent=worker.name, instance=f"{worker.name}-here")
        with contextlib.closing(wire):
            rows = wire.get("/v1/memories", path=f"many/{worker.name}", limit=200).json["results"]
            assert {row["id"]: row["content"] for row in rows} == worker.written
            assert {row["ownership"] for row in rows} <= {"current_agent"}


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory, thorough: bool) -> Iterator[SandboxDaemon]:
    """A daemon with many short memories."""
    rows = ROWS if thorough else FEWER_ROWS
    with running(tmp_path_factory.mktemp("f") / "home") as daemon:
        words = [f"word{n}" for n in range(2_000)]
        choice = random.Random(3)
        with daemon.owner() as wire:
            for start in range(0, rows, 250):
                records = [
                    {"content": " ".join(choice.choices(words, k=12)), "path": f"full/{row % 50}"}
                    for row in range(start, start + 250)
                ]
                assert wire.post("/v1/memories/import", {"records": records}).status == 200
        yield daemon


@pytest.mark.slow
@pytest.mark.bench
@pytest.mark.timeout(300)
def test_w50_two_thousand_reads_in_a_row(full: SandboxDaemon, record_property: Any) -> None:
    choice = random.Random(9)
    seconds: list[float] = []
    with full.wire(full.add_agent("reader")) as wire:
        assert wire.get("/v1/memories", limit=1).json["results"]
        for _ in range(READS):
            query = f"word{choice.randrange(2_000)} word{choice.randrange(2_000)}"
            started = time.perf_counter()
            answer = wire.get("/v1/memories/search", query=query, limit=5)
            seconds.append(time.perf_counter() - started)
            assert answer.status == 200
    figures = f"p50 {percentile(seconds, 0.5):.4f} s, p95 {percentile(seconds, 0.95):.4f} s"
    print(f"{READS} searches: {figures}")
    record_property("reads", figures)
    assert percentile(seconds, 0.95) < SLOWEST_SECONDS


# -- whose is it


def test_f34_every_result_says_who_wrote_it_and_filters_by_it(served: SandboxDaemon) -> None:
    tokens = {name: served.add_agent(f"f34-{name}") for name in ("ann", "bob")}
    for name, token in tokens.items():
        with served.wire(token, agent=f"agent-{name}", instance=f"inst-{name}") as wire:
            wire.remember(f"the f34 lighthouse as {name} sees it", "f34/view")
    with served.wire(tokens["ann"], agent="agent-ann", instance="inst-ann") as wire:
        for items in (
            wire.search("f34 lighthouse", path="f34"),
            wire.context("f34 lighthouse", path="f34")["items"],
            wire.get("/v1/memories", path="f34").json["results"],
        ):
            seen = {item["content"].split()[-3]: item["ownership"] for item in items}
            assert seen == {"ann": "current_agent", "bob": "other_agent"}
        (only,) = wire.search("f34 lighthouse", path="f34", agent_id="agent-bob")
        assert only["agent_id"] == "agent-bob"


@pytest.mark.parametrize("place", ["header", "body", "metadata", "pre-hashed"])
def test_f35_a_borrowed_name_never_becomes_the_credential(
    place: str, served: SandboxDaemon, bucket: str
) -> None:
    victim = served.add_agent(f"victim-{bucket}")
    thief = served.add_agent(f"thief-{bucket}")
    with served.wire(victim, agent="victim", instance="victim-1") as wire:
        own = wire.remember("what the victim wrote", "f35/own", bucket=bucket)
    fields: dict[str, Any] = {}
    agent, instance = "thief", "thief-1"
    if place == "header":
        agent, instance = "victim", "victim-1"
    elif place == "pre-hashed":
        from memory_manager.auth.agent_identity import agent_instance_id_hash

        agent, instance = "victim", agent_instance_id_hash("victim-1")
    elif place == "body":
        fields = {"agent_id": "victim", "agent_instance_id": "victim-1", "credential_id": "owner"}
    else:
        fields = {"metadata": {"agent_id": "victim", "credential_id": "owner", "writer": "victim"}}
    with served.wire(thief, agent=agent, instance=instance) as wire:
        forged = wire.remember("what the thief wrote", "f35/forged", bucket=bucket, **fields)
        relation = wire.get(f"/v1/memories/{own['id']}").json["memory_agent_boundary"]["relation"]
        assert relation == ("other_agent" if place in ("body", "metadata") else "self")
        # a label opens nothing: the same rights as before, no act of the owner
        assert wire.get("/v1/agents").status == 403
        assert wire.get("/v1/memories", include_deleted="true").status in (200, 403)
    with served.wire(victim, agent="victim", instance="victim-1") as wire:
        seen = wire.get(f"/v1/memories/{forged['id']}").json["memory_agent_boundary"]["relation"]
        assert seen == ("other_agent" if place in ("body", "metadata") else "self")
        # the credential that wrote each row is on record, whatever the labels say
        for row, writer in ((own, "victim"), (forged, "thief")):
            (version,) = wire.get(f"/v1/memories/{row['id']}/versions").json["versions"]
            assert version["client"] == f"{writer}-{bucket}"


def test_f31_a_canary_of_another_project_is_in_no_answer(
    served: SandboxDaemon, agent: Wire
) -> None:
    canary = "canary" + "".join(random.Random(31).choices("bcdfghjk", k=14))
    agent.remember(f"the {canary} belongs to alpha", "alpha/x", bucket="f31", scope="alpha")
    agent.remember("beta has something of its own", "beta/x", bucket="f31", scope="beta")
    agent.post("/v1/timeline/events", {"content": canary, "bucket": "f31", "scope": "alpha"})
    agent.post("/v1/reminders", {"content": canary, "bucket": "f31", "scope": "alpha"})
    agent.post("/v1/update_state", {"content": canary, "bucket": "f31", "scope": "alpha"})
    inside = {"bucket": "f31", "scope": "beta"}
    answers = [
        agent.get("/v1/memories/search", query=canary, **inside),
        agent.get("/v1/memories/search", query="*", **inside),
        agent.post("/v1/recall/context", {"query": f"{canary} belongs", **inside}),
        agent.get("/v1/memories", **inside),
        agent.get("/v1/timeline", **inside),
        agent.get("/v1/reminders", **inside),
        agent.get("/v1/decisions", **inside),
        agent.post("/v1/restart/restore", inside),
    ]
    for answer in answers:
        assert answer.status == 200
        assert canary not in answer.body.decode().replace(f'"query":"{canary}"', "")
    assert agent.get("/v1/memories", **inside).json["results"][0]["scope"] == "beta"


def test_f33_two_profiles_share_nothing(served: SandboxDaemon, agent: Wire, bucket: str) -> None:
    made = agent.remember("the private trip to the f33 lake", "private/trip", bucket=bucket)
    with running(served.home.with_name("work")) as work:
        token = work.add_agent("first")
        assert work.discovery["url"] != served.discovery["url"]
        assert work.discovery["daemon_id"] != served.discovery["daemon_id"]
        with work.wire(token, agent="tester", instance="tester-installation") as wire:
            assert wire.search("private trip f33 lake") == []
            assert wire.get(f"/v1/memories/{made['id']}").status == 404
        with served.wire(token) as stranger:  # a credential of one profile is none of the other
            assert stranger.get("/v1/memories").status == 403


def test_f15_a_connected_client_is_served_with_next_to_no_environment(
    served: SandboxDaemon, tmp_path: Any
) -> None:
    """The entry as ``connect`` wrote it, started as a client does: HOME, PATH, USER and no more."""
    user = dataclasses.replace(served, environment={"HOME": str(tmp_path)})
    user.cli("connect", "cursor", "--yes")
    entry = json.loads((tmp_path / ".cursor/mcp.json").read_bytes())["mcpServers"]["memlocket"]
    assert os.path.basename(entry["command"]) == "memlocket"
    messages = [
        {"id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "t",
            "version": "1"}}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "get_mcp_identity", "arguments": {}}},
        {"id": 3, "method": "tools/call", "params": {"name": "remember", "arguments": {
            "content": "written through the entry", "path": "f15/shim"}}},
    ]  # fmt: skip
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    command = [*COMMAND, *entry["args"]]  # the program of this interpreter, the entry's arguments
    with subprocess.Popen(
        command,
        env={
            **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
            "HOME": str(tmp_path),
            "USER": "someone",
            **entry["env"],
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(lines)
        client.stdin.flush()
        # a client ends the program when it was answered: the first call of all takes a while
        told = [json.loads(client.stdout.readline()) for _ in range(3)]
        answers = {answer["id"]: answer for answer in told}
        client.stdin.close()
        assert (client.stdout.read(), client.wait(60)) == ("", 0)
    assert set(answers) == {1, 2, 3}
    assert "cursor" in json.dumps(answers[2]["result"])
    with served.owner() as owner:
        (row,) = owner.get("/v1/memories", path="f15").json["results"]
    kept = json.loads((served.home / "clients" / "cursor.json").read_bytes())
    with served.wire(kept["credential"], agent="cursor", instance=kept["instance_id"]) as wire:
        assert wire.get(f"/v1/memories/{row['id']}").json["ownership"] == "current_agent"
    (status,) = [
        client
        for client in json.loads(user.cli("connect", "--status", "--json").stdout)["clients"]
        if client["client"] == "cursor"
    ]
    assert status["last_seen"]
    user.cli("disconnect", "cursor", "--yes")
