"""``memlocket bench`` with a model: figures of each leg, sizes, and the start (recall.md 12)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from memory_corpus import Corpus
from sandbox_daemon import SandboxDaemon, wait_until

from memory_manager.recall.models.installed import PreparedModel

pytestmark = [pytest.mark.embed, pytest.mark.timeout(600)]

ROWS = 40
SYSTEMS = {"words (BM25)", "meaning", "both"}
SPEED = {"wall_ms_p50", "wall_ms_p95", "cpu_ms_per_query"}


def use_models(daemon: SandboxDaemon, model: PreparedModel) -> None:
    daemon.home.mkdir(mode=0o700, exist_ok=True)
    (daemon.home / "models").mkdir(mode=0o700)
    (daemon.home / "models" / model.folder.name).symlink_to(model.folder.resolve())


def embedded(daemon: SandboxDaemon) -> bool:
    said = daemon.status()["embeddings"]
    return said["covered"] >= ROWS and said["queued"] == 0


def check_systems(report: dict[str, Any]) -> None:
    assert set(report["systems"]) == SYSTEMS
    for figures in report["systems"].values():
        assert SPEED <= set(figures)
        assert 0 < figures["wall_ms_p50"] <= figures["wall_ms_p95"]


def test_every_leg_has_figures_of_its_own(tmp_path: Path, minilm: PreparedModel) -> None:
    lines = tmp_path / "corpus.jsonl"
    memories = list(Corpus().memories(ROWS))
    lines.write_text("".join(json.dumps({"content": m.content}) + "\n" for m in memories))
    with SandboxDaemon(tmp_path / "home") as daemon:
        daemon.init()
        use_models(daemon, minilm)
        daemon.start()
        daemon.cli("import", str(lines))
        wait_until(lambda: embedded(daemon), 120, "all rows have vectors", 0.2)
        daemon.stop()
        daemon.start()
        report = json.loads(daemon.cli("bench", "--count", "20", "--json").stdout)
    check_systems(report)
    found = report["footprint"]
    assert found["pieces"] >= ROWS
    assert found["index_bytes"] > found["stored_bytes"]["vectors"] >= ROWS * 384
    assert found["worker_rss_bytes"] > 50_000_000
    assert found["start"]["vectors_ms"] >= found["start"]["words_ms"] > 0


def test_a_labelled_set_tells_of_a_start_with_its_vectors(
    tmp_path: Path, minilm: PreparedModel
) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    passages = [
        {"docid": "1#0", "title": "Heron", "text": "It built its nest beside the mill."},
        {"docid": "2#0", "title": "Lunch", "text": "It is served at noon."},
    ]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(p) + "\n" for p in passages))
    asked = {"qid": "7", "text": "where does the bird live"}
    (folder / "queries_clean.jsonl").write_text(json.dumps(asked))
    (folder / "qrels.tsv").write_text("7\t0\t1#0\t1\n7\t0\t2#0\t0\n")
    outside = SandboxDaemon(tmp_path / "home")
    use_models(outside, minilm)
    report = json.loads(outside.cli("bench", "--miracl", str(folder), "--json").stdout)
    assert report["embeddings"] == "used"
    check_systems(report)
    assert report["systems"]["meaning"]["hit@1"] == 1.0
    start = report["footprint"]["start"]
    assert start["vectors_ms"] >= start["words_ms"] > 0
    assert report["footprint"]["pieces"] == len(passages)
