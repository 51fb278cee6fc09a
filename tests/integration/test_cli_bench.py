"""``memlocket bench`` on a vault of 500 memories (recall.md R53)."""

from __future__ import annotations

import json
from pathlib import Path

from memory_corpus import Corpus
from sandbox_daemon import running

FIGURES = {f"{kind}@{k}" for kind in ("hit", "recall") for k in (1, 5, 10)} | {"mrr", "ndcg@10"}


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
        assert set(words) == FIGURES
        assert words["hit@10"] >= words["hit@5"] >= words["hit@1"] > 0.5
        assert report["questions"] == 60
        assert report["synthetic"] is True
        assert report["cpu_ms_per_query"] is None or report["cpu_ms_per_query"] > 0
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
