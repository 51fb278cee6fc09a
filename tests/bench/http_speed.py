"""What a client of the running daemon feels: real processes, real sockets, a credential each."""

from __future__ import annotations

import concurrent.futures
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
from figures import ProcessCost, latency, median_seconds, percentile
from memory_corpus import Corpus
from sandbox_daemon import SandboxDaemon, Wire, wait_until

SEED = 20261
BATCH = 200
LOADERS = 4
WARM_UP = 30
INDEX_SECONDS = 120.0


def load(daemon: SandboxDaemon, corpus: Corpus, rows: int) -> float:
    """Import the first ``rows`` memories of the corpus; rows per second."""
    begun = time.perf_counter()
    with daemon.owner(timeout=300) as owner:
        for start in range(0, rows, BATCH):
            records = [
                {**memory.remember_body(), "agent_id": memory.writer}
                for memory in corpus.memories(min(BATCH, rows - start), start)
            ]
            answer = owner.post("/v1/memories/import", {"records": records})
            assert answer.status == 200, (answer.status, answer.body[:500])
    return rows / (time.perf_counter() - begun)


def load_with_clients(
    daemon: SandboxDaemon, token: str, corpus: Corpus, rows: int, first: int
) -> float:
    """Concurrent ``remember`` calls: group commit end to end; rows per second."""

    def work(part: int) -> None:
        with daemon.wire(token) as wire:
            for number in range(first + part, first + rows, LOADERS):
                body = corpus.memory(number).remember_body()
                assert wire.post("/v1/remember", body).status in (200, 201)

    begun = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(LOADERS) as pool:
        list(pool.map(work, range(LOADERS)))
    return rows / (time.perf_counter() - begun)


def remember_speed(wire: Wire, corpus: Corpus, first: int, count: int) -> list[float]:
    seconds = []
    for memory in corpus.memories(count, first):
        body = memory.remember_body()
        begun = time.perf_counter()
        answer = wire.post("/v1/remember", body)
        seconds.append(time.perf_counter() - begun)
        assert answer.status in (200, 201), answer.code
    return seconds


def search_once(wire: Wire, query: str) -> dict[str, Any]:
    answer = wire.get("/v1/memories/search", query=query, limit=10)
    assert answer.status == 200, answer.code
    return answer.json  # type: ignore[no-any-return]


def context_once(wire: Wire, query: str) -> dict[str, Any]:
    return wire.context(query, max_items=5, max_tokens=900)


def recall_speed(daemon: SandboxDaemon, token: str, queries: list[str]) -> dict[str, object]:
    """Search and context, one client, warm, distinct queries; CPU of daemon and worker."""
    assert daemon.process is not None
    report: dict[str, object] = {}
    with daemon.wire(token) as wire:
        for query in queries[:WARM_UP]:
            search_once(wire, query)
        # different questions for each: the vector of a question is remembered
        half = (len(queries) + WARM_UP) // 2
        parts = {"search": queries[WARM_UP:half], "context": queries[half:]}
        for name, call in (("search", search_once), ("context", context_once)):
            measured = parts[name]
            own = psutil.Process(daemon.process.pid)
            service, workers = ProcessCost([own]), ProcessCost(daemon.children())
            before = service.cpu_seconds(), workers.cpu_seconds()
            seconds, degraded = [], 0
            for query in measured:
                begun = time.perf_counter()
                answer = call(wire, query)
                seconds.append(time.perf_counter() - begun)
                degraded += bool(answer["degraded"])
            after = service.cpu_seconds(), workers.cpu_seconds()
            report[name] = latency(seconds)
            report[f"{name}_cpu"] = {
                "daemon_ms": (after[0] - before[0]) * 1000 / len(measured),
                "worker_ms": (after[1] - before[1]) * 1000 / len(measured),
                "degraded_answers": degraded,
            }
    return report


def recall_by_many(daemon: SandboxDaemon, token: str, queries: list[str], clients: int) -> object:
    def work(part: int) -> list[float]:
        seconds = []
        with daemon.wire(token) as wire:
            for query in queries[part::clients]:
                begun = time.perf_counter()
                search_once(wire, query)
                seconds.append(time.perf_counter() - begun)
        return seconds

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        return latency([x for part in pool.map(work, range(clients)) for x in part])


def start_speed(
    daemon: SandboxDaemon, token: str, queries: list[str], repeats: int, meaning: bool
) -> dict[str, object]:
    """Process start to the first answer by words, and by meaning; the daemon runs afterwards."""
    empty = median_seconds(
        lambda: subprocess.run([sys.executable, "-c", "pass"], check=True, env=daemon.env), 5
    )
    words: list[float] = []
    unlocked: list[float] = []
    by_meaning: list[float] = []
    for turn in range(repeats):
        daemon.stop()
        begun = time.perf_counter()
        daemon.start()
        unlocked.append(time.perf_counter() - begun)
        with daemon.wire(token) as wire:
            search_once(wire, queries[turn])
            words.append(time.perf_counter() - begun)
            if meaning:
                wait_until(
                    lambda wire=wire: not search_once(wire, queries[-1])["degraded"],
                    INDEX_SECONDS,
                    "an answer by meaning",
                    0.01,
                )
                by_meaning.append(time.perf_counter() - begun)
    return {
        "empty_python_ms": empty * 1000,
        "start_to_health_unlocked_ms": percentile(unlocked, 0.5) * 1000,
        "start_to_words_ms": percentile(words, 0.5) * 1000,
        "start_to_meaning_ms": percentile(by_meaning, 0.5) * 1000,
        "words_over_empty_python": percentile(words, 0.5) / empty,
        "harden_to_ready_ms_by_its_log": percentile(ready_durations(daemon), 0.5),
    }


def mcp_speed(daemon: SandboxDaemon, token: str, repeats: int) -> dict[str, object]:
    """The first requests over MCP after a start: opening, and a call that needs the library."""
    seconds: dict[str, list[float]] = {"initialize": [], "tools_list": [], "first_call": []}
    rss: list[tuple[float, float]] = []
    client = {"name": "bench", "version": "1"}
    initialize = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    for _ in range(repeats):
        daemon.stop()
        daemon.start()
        assert daemon.process is not None
        own = ProcessCost([psutil.Process(daemon.process.pid)])
        before = own.rss_mb()
        with daemon.wire(token) as wire:
            for name, method, params in (
                ("initialize", "initialize", initialize),
                ("tools_list", "tools/list", {}),
                ("first_call", "tools/call", {"name": "get_mcp_identity", "arguments": {}}),
            ):
                message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                begun = time.perf_counter()
                answer = wire.post("/mcp", message)
                seconds[name].append(time.perf_counter() - begun)
                assert "result" in answer.json, answer.body[:500]
        rss.append((before, own.rss_mb()))
    return {
        **{f"{name}_ms": percentile(values, 0.5) * 1000 for name, values in seconds.items()},
        "rss_before_mb": percentile([x[0] for x in rss], 0.5),
        "rss_after_mb": percentile([x[1] for x in rss], 0.5),
    }


def ready_durations(daemon: SandboxDaemon) -> list[float]:
    """What the daemon says of its own start: from the first statement to open doors."""
    lines = (daemon.home / "log" / "daemon.log").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    return [x["duration_ms"] for x in events if x["event"] == "daemon_ready"]


def unlock_speed(daemon: SandboxDaemon, token: str, passphrase: str) -> dict[str, object]:
    """Lock, then unlock with a passphrase: Argon2id, opening, ready for a recall by words."""
    seconds = []
    with daemon.owner() as owner, daemon.wire(token) as wire:
        changed = owner.post("/v1/vault/passphrase", {"old": None, "new": passphrase})
        if changed.status != 200:
            return {"unlock_skipped": changed.code}
        for _ in range(3):
            assert owner.post("/v1/vault/lock").status == 200
            begun = time.perf_counter()
            assert owner.post("/v1/vault/unlock", {"passphrase": passphrase}).status == 200
            unlocked = time.perf_counter() - begun
            search_once(wire, "unlock")
            seconds.append((unlocked, time.perf_counter() - begun))
    return {
        "unlock_with_passphrase_ms": percentile([x[0] for x in seconds], 0.5) * 1000,
        "unlock_to_words_ms": percentile([x[1] for x in seconds], 0.5) * 1000,
    }


def footprint(daemon: SandboxDaemon, rows: int) -> dict[str, object]:
    assert daemon.process is not None
    own = ProcessCost([psutil.Process(daemon.process.pid)])
    workers = ProcessCost(daemon.children())
    return {
        "daemon_rss_mb": own.rss_mb(),
        "worker_rss_mb": workers.rss_mb(),
        "bytes_per_memory": vault_bytes(daemon.home) / max(rows, 1),
    }


def vault_bytes(home: Path) -> int:
    """Database and write-ahead log; ballast, slots and anchor are of constant size."""
    return sum(x.stat().st_size for x in home.rglob("vault.db*") if x.suffix != ".rekey")


def embeddings(daemon: SandboxDaemon) -> dict[str, Any]:
    return dict(daemon.status().get("embeddings") or {})


def wait_for_vectors(daemon: SandboxDaemon, rows: int, seconds: float) -> dict[str, object]:
    """Until the queue is empty; texts per second of the backfill."""
    begun = time.perf_counter()
    start = int(embeddings(daemon).get("covered") or 0)
    wait_until(lambda: embeddings(daemon).get("queued") == 0, seconds, "all rows embedded", 0.5)
    took = time.perf_counter() - begun
    done = int(embeddings(daemon).get("covered") or 0) - start
    return {"texts_per_second": done / took if done else None, "seconds": took}
