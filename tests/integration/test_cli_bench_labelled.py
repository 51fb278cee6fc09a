"""``memlocket bench --locomo`` and ``--miracl`` end to end, words only, on tiny sets of our own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from sandbox_daemon import COMMAND, SandboxDaemon, is_alive, wait_until

FIGURES = {f"{kind}@{k}" for kind in ("hit", "recall") for k in (1, 5, 10)} | {"mrr", "ndcg@10"}
SPEED = {"wall_ms_p50", "wall_ms_p95", "cpu_ms_per_query"}
BIRD = "The heron built its nest beside the mill."


@pytest.fixture
def outside(tmp_path: Path) -> SandboxDaemon:
    """An installation without a vault or a daemon; its temporary files have their own folder."""
    temporary = tmp_path / "t"
    temporary.mkdir()
    return SandboxDaemon(tmp_path / "home", environment={"TMPDIR": str(temporary)})


def locomo_file(folder: Path) -> Path:
    def conversation(name: str, bird: str, other: str) -> dict[str, object]:
        return {
            "id": name,
            "speakers": ["Ann", "Bob"],
            "sessions": [
                {
                    "session": 1,
                    "date": "1:56 pm on 8 May, 2023",
                    "turns": [
                        {"id": "D1:1", "speaker": "Ann", "text": bird},
                        {"id": "D1:2", "speaker": "Bob", "text": other, "caption": "a red kite"},
                    ],
                }
            ],
            "questions": [
                {"n": 0, "question": "heron nest mill", "category": 4, "evidence": ["D1:1"]},
                {
                    "n": 1,
                    "question": "red kite image",
                    "category": 1,
                    "evidence": ["D1:1", "D1:2"],
                },
                {"n": 2, "question": "violin lesson", "category": 5, "evidence": ["D1:1"]},
            ],
        }

    # the same text twice: only the scope tells a question's own conversation from the other
    made = [conversation("a", BIRD, "Lunch at noon?"), conversation("b", BIRD, "Late again.")]
    file = folder / "set.json"
    file.write_text(json.dumps({"format": "locomo-dev/1", "conversations": made}))
    return file


def test_locomo_by_category_with_nothing_kept_or_shown(
    outside: SandboxDaemon, tmp_path: Path
) -> None:
    file = locomo_file(tmp_path)
    before = file.read_bytes()
    done = outside.cli("bench", "--locomo", str(file), "--no-embeddings", "--json")
    report = json.loads(done.stdout)
    assert (report["granularity"], report["embeddings"], report["spaces"]) == ("turn", "off", 2)
    assert (report["records"], report["questions"], report["memories"]) == (4, 4, 4)
    assert set(report["systems"]) == {"words (BM25)"}
    overall = report["systems"]["words (BM25)"]
    assert set(overall) == FIGURES | SPEED
    start = report["footprint"]["start"]
    assert start["words_ms"] >= start["doors_ms"] > 0
    assert start["vectors_ms"] is None
    assert overall["hit@1"] == 1.0
    assert overall["recall@10"] == 0.75  # half of the evidence has none of the words
    groups = report["groups"]
    assert {name: group["questions"] for name, group in groups.items()} == {
        "single-hop": 2,
        "multi-hop": 2,
        "adversarial": 2,
    }
    assert groups["single-hop"]["systems"]["words (BM25)"]["hit@1"] == 1.0
    assert groups["multi-hop"]["systems"]["words (BM25)"]["recall@10"] == 0.5
    assert groups["adversarial"]["systems"]["words (BM25)"]["hit@10"] == 0.0
    shown = outside.cli("bench", "--locomo", str(file), "--no-embeddings")
    assert "off: words only" in shown.stdout
    assert "single-hop (2)" in shown.stdout
    printed = done.stdout + done.stderr + shown.stdout + shown.stderr
    assert not any(word in printed for word in ("heron", "kite", "Ann", "conversation-1"))
    assert list((tmp_path / "t").iterdir()) == []
    assert not outside.home.exists()
    assert file.read_bytes() == before


def test_the_start_is_measured_on_the_filled_vault(outside: SandboxDaemon, tmp_path: Path) -> None:
    """The daemon that took the records in began with an empty one; a second tells of its start."""
    seen: set[int] = set()
    with subprocess.Popen(
        [*COMMAND, "bench", "--locomo", str(locomo_file(tmp_path)), "--no-embeddings", "--json"],
        env=outside.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        while process.poll() is None:
            for discovery in (tmp_path / "t").glob("memlocket-bench-*/run/daemon.json"):
                with contextlib.suppress(OSError, ValueError):
                    seen.add(int(json.loads(discovery.read_bytes())["pid"]))
            time.sleep(0.005)
        assert process.stdout is not None
        assert json.loads(process.stdout.read())["footprint"]["start"]["words_ms"] > 0
    assert len(seen) == 2


def test_peers_are_measured_inside_the_space_of_their_question(
    outside: SandboxDaemon, tmp_path: Path
) -> None:
    """The same text stands in both conversations: without its scope the other one would count."""
    asked = ("--locomo", str(locomo_file(tmp_path)), "--no-embeddings", "--peer", "--json")
    report = json.loads(outside.cli("bench", *asked).stdout)
    assert set(report["systems"]) == {"words (BM25)", "naive words (FTS5 OR)"}
    naive = report["groups"]["single-hop"]["systems"]["naive words (FTS5 OR)"]
    assert naive["hit@1"] == 1.0


def test_miracl_without_a_prepared_model_says_so(outside: SandboxDaemon, tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    passages = [
        {"docid": "1#0", "title": "왜가리", "text": "물레방아 옆에 둥지를 지었다."},
        {"docid": "2#0", "title": "점심", "text": "정오에 먹는다."},
    ]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(p) + "\n" for p in passages))
    (folder / "queries_clean.jsonl").write_text(json.dumps({"qid": "7", "text": "왜가리 둥지"}))
    (folder / "qrels.tsv").write_text("7\t0\t1#0\t1\n7\t0\t2#0\t0\n")
    report = json.loads(outside.cli("bench", "--miracl", str(folder), "--json").stdout)
    assert report["embeddings"] == "absent"
    assert report["granularity"] == "passage"
    assert report["systems"]["words (BM25)"]["hit@1"] == 1.0
    assert list(report["groups"]) == ["clean"]


def test_bad_input_starts_nothing(outside: SandboxDaemon, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"conversations": [{}]}')
    good = locomo_file(tmp_path)
    for arguments, exit_code in (
        (["--locomo", str(tmp_path / "absent.json")], 4),
        (["--miracl", str(tmp_path / "absent")], 4),
        (["--locomo", str(bad)], 2),
        (["--locomo", str(good), "--miracl", str(tmp_path)], 2),
        (["--locomo", str(good), "--count", "5"], 2),
        (["--no-embeddings"], 2),
    ):
        done = outside.cli("bench", *arguments, check=False)
        assert done.returncode == exit_code, (arguments, done.stderr)
        assert "Traceback" not in done.stderr
    assert list((tmp_path / "t").iterdir()) == []


def test_what_a_killed_run_left_goes_at_the_next_start(
    outside: SandboxDaemon, tmp_path: Path
) -> None:
    left = tmp_path / "t" / "memlocket-bench-killed"
    home = SandboxDaemon(left, ("--no-embeddings",)).init().start()
    young = tmp_path / "t" / "memlocket-bench-young"
    young.mkdir()
    try:
        pid = int(home.discovery["pid"])
        an_hour_ago = left.stat().st_mtime - 3600
        os.utime(left, (an_hour_ago, an_hour_ago))
        done = outside.cli("bench", "--locomo", str(locomo_file(tmp_path)), "--no-embeddings")
        assert done.returncode == 0
        assert [path for path in (tmp_path / "t").iterdir() if path.is_dir()] == [young]
        wait_until(lambda: not is_alive(pid), 10, "the daemon that was left is gone")
    finally:
        if home.process is not None and home.process.poll() is None:
            home.process.kill()
            home.process.wait(10)


def test_sigterm_takes_daemon_and_vault_away(outside: SandboxDaemon, tmp_path: Path) -> None:
    questions = json.loads(locomo_file(tmp_path).read_text())
    questions["conversations"][0]["questions"] *= 2000  # it is still asking when it is told to end
    file = tmp_path / "long.json"
    file.write_text(json.dumps(questions))
    found: list[int] = []

    def daemon_answers() -> bool:
        for discovery in (tmp_path / "t").glob("memlocket-bench-*/run/daemon.json"):
            found.append(int(json.loads(discovery.read_bytes())["pid"]))
        return bool(found)

    with subprocess.Popen(
        [*COMMAND, "bench", "--locomo", str(file), "--no-embeddings"],
        env=outside.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        wait_until(daemon_answers, 60, "the temporary daemon is there")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 130
    assert list((tmp_path / "t").iterdir()) == []
    assert not is_alive(found[0])
