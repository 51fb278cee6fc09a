"""Parsing labelled sets: own tiny files of the two shapes, and everything that can be wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_manager.cli import bench_run
from memory_manager.cli.bench_run import BOTH, MEANING, WORDS, Question
from memory_manager.cli.errors import FileProblem, Usage
from memory_manager.cli.labelled_sets import read_locomo, read_miracl

SECRET_TEXT = "zyxquark"
CONVERSATION: dict[str, Any] = {
    "id": "c-1",
    "speakers": ["Ann", "Bob"],
    "sessions": [
        {
            "session": 1,
            "date": "1:56 pm on 8 May, 2023",
            "turns": [
                {"id": "D1:1", "speaker": "Ann", "text": f"Hello {SECRET_TEXT}."},
                {"id": "D1:2", "speaker": "Bob", "text": "Look.", "caption": "a red kite"},
            ],
        }
    ],
    "questions": [
        {"n": 0, "question": "What did Bob show?", "category": 1, "evidence": ["D1:2", "D9:9"]},
        {"n": 1, "question": "Who is away?", "category": 5, "evidence": ["D1:1"]},
        {"n": 2, "question": "Nobody knows?", "category": 4, "evidence": []},
    ],
}


def locomo_file(folder: Path, *conversations: dict[str, Any]) -> Path:
    file = folder / "set.json"
    file.write_text(json.dumps({"format": "locomo-dev/1", "conversations": conversations}))
    return file


def test_locomo_keeps_speaker_time_and_caption_and_one_scope_per_conversation(
    tmp_path: Path,
) -> None:
    found = read_locomo(locomo_file(tmp_path, CONVERSATION, CONVERSATION))
    assert (found.spaces, found.granularity, found.unasked) == (2, "turn", 2)
    assert len({record.id for record in found.records}) == 4
    first, second = found.records[:2]
    assert second.content == "Look. [shares image: a red kite]"
    assert (first.writer.client, second.writer.client) == ("Ann", "Bob")
    assert second.created_at_ms == 1_683_554_160_002  # 2023-05-08 13:56 UTC, second turn
    assert [record.scope for record in found.records] == ["conversation-1"] * 2 + [
        "conversation-2"
    ] * 2
    known, adversarial = found.questions[:2]
    assert known.ids == {second.id}  # evidence that names no turn is no evidence
    assert known.filters == {"scope": "conversation-1"}
    assert (known.group, known.headline) == ("multi-hop", True)
    assert (adversarial.group, adversarial.headline) == ("adversarial", False)


Change = Callable[[dict[str, Any]], object]
BROKEN: list[Change] = [
    lambda c: c.pop("sessions"),
    lambda c: c.pop("questions"),
    lambda c: c["sessions"].append("x"),
    lambda c: c["sessions"][0].update(date=f"{SECRET_TEXT} day"),
    lambda c: c["sessions"][0].update(date="1:56 pm on 8 May, 0023"),
    lambda c: c["sessions"][0]["turns"][0].update(text=None),
    lambda c: c["sessions"][0]["turns"][0].update(text="half \ud83d"),
    lambda c: c["sessions"][0]["turns"][1].update(caption="half \ud83d"),
    lambda c: c["sessions"][0]["turns"][0].pop("speaker"),
    lambda c: c["sessions"][0]["turns"][1].update(id="D1:1"),
    lambda c: c["questions"][0].update(category=9),
    lambda c: c["questions"][0].update(category=[1]),
    lambda c: c["questions"][0].update(evidence="D1:2"),
    lambda c: c["questions"][0].pop("question"),
    lambda c: c.update(questions=[]),
]


@pytest.mark.parametrize("number", range(len(BROKEN)))
def test_a_broken_locomo_file_is_refused_without_its_texts(number: int, tmp_path: Path) -> None:
    conversation = copy.deepcopy(CONVERSATION)
    BROKEN[number](conversation)
    with pytest.raises(Usage) as refused:
        read_locomo(locomo_file(tmp_path, conversation))
    assert SECRET_TEXT not in refused.value.message
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"\xff\xfe\x00", b"[" * 100_000, b"null"])
def test_a_file_of_another_kind_is_refused(raw: bytes, tmp_path: Path) -> None:
    file = tmp_path / "set.json"
    file.write_bytes(raw)
    with pytest.raises(Usage):
        read_locomo(file)


def test_what_cannot_be_read_is_a_file_problem(tmp_path: Path) -> None:
    for read in (read_locomo, read_miracl):
        with pytest.raises(FileProblem) as refused:
            read(tmp_path / "absent")
        assert refused.value.exit_code == 4
    with pytest.raises(FileProblem):
        read_locomo(tmp_path)


def miracl_folder(folder: Path, qrels: str = "q1\t0\td#1\t1\nq1\t0\td#2\t0\n") -> Path:
    def write(name: str, *entries: dict[str, str]) -> None:
        lines = [json.dumps(entry, ensure_ascii=False) + "\n" for entry in entries]
        (folder / name).write_text("".join(lines), encoding="utf-8")

    (folder / "perturbations").mkdir()
    # a line separator inside a text ends no line
    write(
        "corpus.jsonl",
        {"docid": "d#1", "title": "연", "text": "빨간\u2028연"},
        {"docid": "d#2", "title": "", "text": "파란 배"},
    )
    write("queries_clean.jsonl", {"qid": "q1", "text": "빨간 연?"}, {"qid": "q2", "text": "무엇?"})
    write("perturbations/spacing.jsonl", {"qid": "q1", "axis": "spacing", "text": "빨간연?"})
    write("perturbations/other.jsonl", {"qid": "q1", "text": "?"})
    (folder / "qrels.tsv").write_text(qrels)
    return folder


def test_miracl_has_clean_questions_in_the_headline_and_perturbations_apart(
    tmp_path: Path,
) -> None:
    found = read_miracl(miracl_folder(tmp_path))
    assert (found.spaces, found.granularity, found.unasked) == (1, "passage", 1)
    assert [record.content for record in found.records] == ["연 빨간\u2028연", "파란 배"]
    asked = [(q.text, q.group, q.headline, q.ids) for q in found.questions]
    relevant = frozenset({str(found.records[0].id)})
    assert asked == [
        ("빨간 연?", "clean", True, relevant),
        ("빨간연?", "spacing", False, relevant),
    ]


@pytest.mark.parametrize("qrels", ["q1\t0\tabsent\t1\n", "q1 0 d#1 1\n", "q1\t0\td#1\t0\n", ""])
def test_odd_relevance_is_refused(qrels: str, tmp_path: Path) -> None:
    with pytest.raises(Usage):
        read_miracl(miracl_folder(tmp_path, qrels))


def test_groups_are_scored_apart_and_only_headline_questions_count_overall() -> None:
    questions = [
        Question("a", frozenset({"1"}), group="x"),
        Question("b", frozenset({"2"}), group="y", headline=False),
    ]
    orders = [
        {WORDS: ["1"], MEANING: list[str](), BOTH: ["1"]},
        {WORDS: ["9"], MEANING: ["2"], BOTH: ["9", "2"]},
    ]
    groups = bench_run._grouped(questions, orders)
    assert {name: group.questions for name, group in groups.items()} == {"x": 1, "y": 1}
    assert groups["y"].systems[WORDS].hit == (0, 0, 0)
    assert groups["y"].systems[MEANING].hit == (1, 1, 1)
    # one question without a hit by meaning counts as not found, it does not leave the mean
    assert groups["x"].systems[MEANING].hit == (0, 0, 0)
    assert list(bench_run._scored(questions, [{**o, MEANING: []} for o in orders], [0])) == [WORDS]
