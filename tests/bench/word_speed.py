"""The word leg against a naive OR of all words on the same encrypted table (target 10)."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from figures import cpu_timed, percentile
from memory_corpus import Corpus
from store_ratio import StoreBench, create

from memory_manager.recall.fulltext import FullTextIndex
from memory_manager.recall.match_query import query_terms
from memory_manager.vault.filters import RowFilter

NATURAL = (
    "Which port does the {} use in staging and why was it changed?",
    "What did we decide about the {} and who is going to own it?",
    "How do I reproduce the problem with the {} that we had in the last week?",
)


def naive_match(question: str) -> str:
    return " OR ".join(f'"{word}"' for word in re.findall(r"\w+", question))


def word_speed(folder: Path, rows: int) -> dict[str, object]:
    """On a store of its own with ``rows`` memories of the corpus."""
    connect = create(folder / "words.db", encrypted=True)
    store = StoreBench(connect, Corpus())
    store.fill(rows)
    store.close()
    connection = connect()
    try:
        return compare_words(connection, rows)
    finally:
        connection.close()


def compare_words(connection: Any, rows: int, questions: int = 40) -> dict[str, object]:
    """CPU milliseconds for the best 100 rows of a question; the vault holds the corpus."""
    corpus = Corpus()
    asked = [
        *corpus.questions(questions),
        *(NATURAL[n % 3].format(corpus.projects[n]) for n in range(questions)),
    ]
    index, now_ms = FullTextIndex(), int(time.time() * 1000)

    def ours(question: str) -> object:
        return index.search(
            connection, query_terms(question), RowFilter(), now_ms, limit=100, wanted=10
        )

    def naive(question: str) -> object:
        return connection.execute(
            "SELECT rowid FROM memory_fts WHERE memory_fts MATCH ? ORDER BY rank LIMIT 100",
            (naive_match(question),),
        ).fetchall()

    seconds: dict[str, list[float]] = {"ours": [], "naive": []}
    for question in asked[:8]:
        ours(question)
        naive(question)
    for question in asked:  # interleaved: a busy moment hits both
        seconds["ours"].append(cpu_timed(lambda q=question: ours(q)))
        seconds["naive"].append(cpu_timed(lambda q=question: naive(q)))
    half = len(asked) // 2
    report: dict[str, object] = {"rows": rows}
    for name, part in (("mixed", slice(0, half)), ("natural", slice(half, None))):
        mine = percentile(seconds["ours"][part], 0.5)
        other = percentile(seconds["naive"][part], 0.5)
        report[name] = {
            "ours_ms": mine * 1000,
            "ours_p95_ms": percentile(seconds["ours"][part], 0.95) * 1000,
            "naive_or_ms": other * 1000,
            "times_faster": other / mine,
        }
    return report
