"""``memlocket bench`` on a vault of 500 memories (recall.md 12, R53)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mcp_wire import result, rpc
from memory_corpus import Corpus
from sandbox_daemon import SandboxDaemon, running

FIGURES = {f"{kind}@{k}" for kind in ("hit", "recall") for k in (1, 5, 10)} | {"mrr", "ndcg@10"}
SPEED = {"wall_ms_p50", "wall_ms_p95", "cpu_ms_per_query"}
NAIVE = "naive words (FTS5 OR)"
TEXTS = {"model_key", "processor", "advice"}  # the only members of the report that hold a text


def texts_of(value: Any, name: str = "") -> Iterator[str]:
    """Names of the members that hold a text."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from texts_of(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item, name)
    elif isinstance(value, str):
        yield name


def listing_bytes(daemon: SandboxDaemon, profile: str) -> tuple[int, int]:
    """Tools and bytes of the result of ``tools/list``, as a client of that profile gets it."""
    with daemon.owner() as owner, daemon.wire(daemon.add_agent(f"sees-{profile}")) as wire:
        address = f"/v1/agents/sees-{profile}/mcp-profile"
        assert owner.post(address, {"mcp_profile": profile}).status == 200
        got = result(rpc(wire, "tools/list"))
    return len(got["tools"]), len(
        json.dumps(got, ensure_ascii=False, separators=(",", ":")).encode()
    )


def test_bench_reports_both_measures_writes_nothing_and_shows_no_text(tmp_path: Path) -> None:
    memories = list(Corpus().memories(500))
    lines = tmp_path / "corpus.jsonl"
    lines.write_text(
        "".join(json.dumps({"content": m.content, "path": m.path}) + "\n" for m in memories)
    )
    with running(tmp_path / "home", "--no-embeddings") as daemon:
        daemon.cli("import", str(lines))
        # the first run outlasts what the service still writes after an import
        daemon.cli("bench", "--count", "60", "--json")
        before = daemon.status()["vault"]["anchor"]
        done = daemon.cli("bench", "--count", "60", "--json")
        assert daemon.status()["vault"]["anchor"] == before
        report = json.loads(done.stdout)
        words = report["systems"]["words (BM25)"]
        assert set(words) == FIGURES | SPEED
        assert set(report["systems"]) == {"words (BM25)"}
        assert 0 < words["wall_ms_p50"] <= words["wall_ms_p95"]
        assert words["hit@10"] >= words["hit@5"] >= words["hit@1"] > 0.5
        assert report["questions"] == 60
        assert report["synthetic"] is True
        assert words["cpu_ms_per_query"] is None or words["cpu_ms_per_query"] > 0
        assert set(texts_of(report)) <= TEXTS
        assert report["processor"] is None or report["processor"].isprintable()
        assert not any(word in done.stdout for memory in memories for word in [memory.content])
        questions = tmp_path / "questions.jsonl"
        found = json.loads(daemon.cli("search", memories[7].content, "--json").stdout)["results"]
        asked = {"q": memories[7].content, "ids": [found[0]["id"]]}
        questions.write_text(json.dumps(asked) + "\n")
        own = json.loads(daemon.cli("bench", "--questions", str(questions), "--json").stdout)
        assert own["systems"]["words (BM25)"]["hit@1"] == 1.0
        assert own["synthetic"] is False
        shown = daemon.cli("bench", "--count", "20").stdout
        assert "HIT@5" in shown
        assert "RECALL@10" in shown
        assert "P95 MS" in shown
        assert "first answer after" in shown
        assert NAIVE not in shown


def test_bench_tells_what_the_service_takes(tmp_path: Path) -> None:
    """Sizes, the start, and the context that the listing costs, beside what clients really get."""
    memories = list(Corpus().memories(60))
    lines = tmp_path / "corpus.jsonl"
    lines.write_text(
        "".join(json.dumps({"content": m.content, "path": m.path}) + "\n" for m in memories)
    )
    with running(tmp_path / "home", "--no-embeddings") as daemon:
        daemon.cli("import", str(lines))
        report = json.loads(daemon.cli("bench", "--peer", "--count", "30", "--json").stdout)
        found = report["footprint"]
        assert found["daemon_rss_bytes"] > 20_000_000
        assert (found["worker_rss_bytes"], found["pieces"], found["index_bytes"]) == (None, 0, 0)
        texts = sum(len(memory.content.encode()) for memory in memories)
        assert found["stored_bytes"]["words"] > texts
        assert found["stored_bytes"]["vectors"] == 0
        start = found["start"]
        assert 50 < start["doors_ms"] <= start["words_ms"] < 60_000
        assert start["vectors_ms"] is None
        for profile in ("core", "full"):
            tools, size = listing_bytes(daemon, profile)
            assert found["tools_list"][profile] == {"tools": tools, "bytes": size}
        assert found["tools_list"]["core"]["bytes"] <= 8_192
        naive = report["systems"][NAIVE]
        assert set(naive) == FIGURES | SPEED
        assert naive["hit@10"] > 0.5
        assert set(texts_of(report)) <= TEXTS


def test_only_the_owner_learns_sizes_and_times(tmp_path: Path) -> None:
    with running(tmp_path / "home", "--no-embeddings") as daemon:
        with daemon.wire(daemon.add_agent("curious")) as wire:
            assert wire.get("/v1/recall/footprint").status == 403
        with daemon.owner() as owner:
            assert owner.get("/v1/recall/footprint").status == 200
            assert owner.post("/v1/vault/lock", {"reason": "user"}).status == 200
            assert owner.get("/v1/recall/footprint").code == "vault_locked"
