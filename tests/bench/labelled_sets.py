"""Labelled sets as namespaces of rows with questions: LoCoMo, MIRACL-ko, the multilingual probe.

Texts of the first two never leave this process and never enter the product (their README).
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from word_table import MOMENT_MS, memory_row

from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.vault.rows import Attribution, MemoryRow

LOCOMO_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
LOCOMO_NAMES_SWAPPED = {5: "names swapped"}
"""Adversarial: what is asked about one speaker was said by the other."""
MIRACL_VARIANTS = ("clean", "spacing", "josa", "jamo", "compound", "homonym")


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    text: str = dataclasses.field(repr=False)
    group: str
    evidence: frozenset[int]  # rowids
    scope: str | None = None  # where it is asked; None: everywhere


@dataclasses.dataclass(frozen=True, slots=True)
class Namespace:
    """Rows that a question searches among; rowids start at 1."""

    name: str
    rows: tuple[MemoryRow, ...] = dataclasses.field(repr=False)
    questions: tuple[Question, ...] = dataclasses.field(repr=False)


def locomo(file: Path, categories: Mapping[int, str] = LOCOMO_CATEGORIES) -> list[Namespace]:
    """One namespace per conversation, one row per turn; questions of these categories with
    evidence.
    """
    found: list[Namespace] = []
    for conversation in json.loads(file.read_text(encoding="utf-8"))["conversations"]:
        rows: list[MemoryRow] = []
        rowid_of: dict[str, int] = {}
        for session in conversation["sessions"]:
            start = datetime.datetime.strptime(session["date"], "%I:%M %p on %d %B, %Y")
            start_ms = int(start.replace(tzinfo=datetime.UTC).timestamp() * 1000)
            for turn in session["turns"]:
                caption = turn.get("caption")
                text = turn["text"] + (f" [shares image: {caption}]" if caption else "")
                rowid = rowid_of[turn["id"]] = len(rows) + 1
                speaker = Attribution(AgentIdentity(None, None), None, turn["speaker"])
                rows.append(
                    memory_row(
                        rowid, text, path="chat", writer=speaker, created_at_ms=start_ms + rowid
                    )
                )
        questions = [
            Question(q["question"], categories[q["category"]], evidence)
            for q in conversation["questions"]
            if q["category"] in categories
            and (evidence := frozenset(rowid_of[e] for e in q["evidence"] if e in rowid_of))
        ]
        found.append(Namespace(conversation["id"], tuple(rows), tuple(questions)))
    return found


def one_vault(spaces: Sequence[Namespace]) -> Namespace:
    """All of them in one namespace, each in a scope in which its questions are asked."""
    rows: list[MemoryRow] = []
    questions: list[Question] = []
    for space in spaces:
        before = len(rows)
        rows += [
            dataclasses.replace(row, rowid=row.rowid + before, scope=space.name)
            for row in space.rows
        ]
        questions += [
            dataclasses.replace(
                asked,
                evidence=frozenset(rowid + before for rowid in asked.evidence),
                scope=space.name,
            )
            for asked in space.questions
        ]
    return Namespace("one vault", tuple(rows), tuple(questions))


def miracl(folder: Path) -> Namespace:
    """The whole corpus as one namespace; groups are ``clean`` and the perturbations."""
    rowid_of: dict[str, int] = {}
    rows: list[MemoryRow] = []
    for entry in _lines(folder / "corpus.jsonl"):
        rowid = rowid_of[entry["docid"]] = len(rows) + 1
        rows.append(_plain_row(rowid, f"{entry['title']} {entry['text']}"))
    relevant: dict[str, set[int]] = defaultdict(set)
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines():
        query_id, _, document, grade = line.split("\t")
        if grade != "0":
            relevant[query_id].add(rowid_of[document])
    questions: list[Question] = []
    for variant in MIRACL_VARIANTS:
        name = "queries_clean" if variant == "clean" else f"perturbations/{variant}"
        questions += [
            Question(entry["text"], variant, frozenset(relevant[entry["qid"]]))
            for entry in _lines(folder / f"{name}.jsonl")
            if relevant[entry["qid"]]
        ]
    return Namespace("miracl-ko", tuple(rows), tuple(questions))


def multilingual_probe(file: Path) -> list[Namespace]:
    """One namespace per language of the memories; questions in English and in that language."""
    probe = json.loads(file.read_text(encoding="utf-8"))
    found: list[Namespace] = []
    for language in probe["languages"]:
        texts = [fact["facts"][language] for fact in probe["facts"]]
        texts += [noise["text"] for noise in probe["noise"]]
        asked = [
            Question(fact["questions"][source], group, frozenset({number}))
            for group, source in (("same language", language), ("English question", "en"))
            if group == "same language" or language != "en"
            for number, fact in enumerate(probe["facts"], start=1)
        ]
        rows = tuple(_plain_row(number, text) for number, text in enumerate(texts, start=1))
        found.append(Namespace(f"probe-{language}", rows, tuple(asked)))
    return found


def _plain_row(rowid: int, text: str) -> MemoryRow:
    return memory_row(rowid, text, created_at_ms=MOMENT_MS)


def _lines(file: Path) -> Iterator[dict[str, str]]:
    with file.open(encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)
