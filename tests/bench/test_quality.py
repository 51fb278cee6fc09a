"""Quality on labelled sets: words against unicode61, hybrid against both of its legs (R40).

The labelled sets are not part of this repository and each test skips without its own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
from labelled_sets import (
    LOCOMO_CATEGORIES,
    LOCOMO_NAMES_SWAPPED,
    Namespace,
    locomo,
    miracl,
    multilingual_probe,
    one_vault,
)
from quality import Known, Quality, measure, score, table
from sqlcipher3 import dbapi2
from word_table import WordTable

from memory_manager.recall.models.installed import PreparedModel
from memory_manager.recall.scripts import words as plain_words
from memory_manager.recall.worker_embedder import WorkerEmbedder

pytestmark = [pytest.mark.bench, pytest.mark.slow, pytest.mark.timeout(1800)]

# Above the better leg everywhere but for an English question over other languages: there 1.0 point
# below it, with a standard error of 1 point at 320 questions.
WITHIN_POINTS = {"hit5": 2.0, "recall10": 2.0}

Conversations = Callable[[Mapping[int, str]], list[Namespace]]


@pytest.fixture
async def embedder(e5: PreparedModel, models_folder: Path) -> AsyncIterator[WorkerEmbedder]:
    from memory_manager.recall.models.installed import InstalledModels
    from memory_manager.recall.models.settings import EmbeddingSettings

    made = WorkerEmbedder(InstalledModels(models_folder, EmbeddingSettings()))
    assert await made.refresh() == e5.model_key
    yield made
    await made.stop()


@pytest.fixture(scope="module")
def known() -> Known:
    """What was embedded once is not embedded again by the next test."""
    return {}


def needed(file: Path) -> Path:
    if not file.exists():
        pytest.skip(f"needs the labelled set {file}, which no checkout has")
    return file


@pytest.fixture
def conversations(shared_folder: Path, thorough: bool) -> Conversations:
    """LoCoMo's by category of question; three of the five unless every one is asked for."""
    file = needed(shared_folder / "data" / "locomo-dev.json")
    count = None if thorough else 3
    return lambda categories: locomo(file, categories)[:count]


def close_to_the_better_leg(by_system: dict[str, Quality]) -> None:
    hybrid = by_system["hybrid"]
    for name, points in WITHIN_POINTS.items():
        better = max(getattr(by_system[leg], name) for leg in ("words", "meaning"))
        assert getattr(hybrid, name) >= better - points, name


@pytest.mark.embed
async def test_hybrid_on_the_development_conversations(
    conversations: Conversations, embedder: WorkerEmbedder, known: Known
) -> None:
    report = await measure(conversations(LOCOMO_CATEGORIES), embedder, known=known)
    print(f"\n{embedder.model_key}\n{table(report)}")
    everything = report["all"]
    words, hybrid = everything["words"], everything["hybrid"]
    assert hybrid.hit5 >= max(words.hit5 + 5, 65)
    assert hybrid.recall10 >= max(words.recall10 + 5, 68)
    for by_system in report.values():
        assert by_system["hybrid"].hit5 >= by_system["words"].hit5
    close_to_the_better_leg(everything)


@pytest.mark.embed
async def test_hybrid_where_names_mislead(
    conversations: Conversations, embedder: WorkerEmbedder, known: Known
) -> None:
    """Each conversation by itself, and all of them in one vault with a scope each: the same."""
    spaces = conversations(LOCOMO_NAMES_SWAPPED)
    compared = ("words", "hybrid")
    apart, together = [
        (await measure(asked, embedder, systems=compared, known=known))["all"]
        for asked in (spaces, [one_vault(spaces)])
    ]
    print(f"\n{table({'apart': apart, 'one vault': together})}")
    for by_system in (apart, together):
        hybrid, words = by_system["hybrid"], by_system["words"]
        assert hybrid.hit5 >= words.hit5 + 1
        assert hybrid.recall10 >= words.recall10 + 1
    assert abs(together["hybrid"].hit5 - apart["hybrid"].hit5) <= 2


@pytest.mark.embed
async def test_hybrid_across_languages(repository: Path, embedder: WorkerEmbedder) -> None:
    spaces = multilingual_probe(needed(repository / "tests" / "data" / "multilingual_probe.json"))
    report = await measure(spaces, embedder)
    print(f"\n{embedder.model_key}\n{table(report)}")
    for by_system in report.values():
        assert by_system["hybrid"].hit5 >= by_system["words"].hit5
        close_to_the_better_leg(by_system)


def test_words_on_korean_passages_against_unicode61(shared_folder: Path) -> None:
    space = miracl(needed(shared_folder / "data" / "miracl-ko"))
    ours, plain = _words_hit5(space, "clean"), _unicode61_hit5(space, "clean")
    glued = _words_hit5(space, "spacing")
    print(f"\nMIRACL-ko words hit@5: ours {ours:.1f}, unicode61 {plain:.1f}, no spaces {glued:.1f}")
    assert ours >= plain + 10
    assert glued >= 65


def _words_hit5(space: Namespace, group: str) -> float:
    table_of_words = WordTable()
    table_of_words.connection.execute("BEGIN")
    for row in space.rows:
        table_of_words.add(row)
    table_of_words.connection.execute("COMMIT")
    hits: list[float] = []
    for question in space.questions:
        if question.group == group:
            scores = table_of_words.hits(question.text).scores
            ranked = sorted(scores, key=lambda rowid: -scores[rowid])
            hits.append(score(ranked, question.evidence)[1])
    table_of_words.close()
    return 100 * sum(hits) / len(hits)


def _unicode61_hit5(space: Namespace, group: str) -> float:
    connection = dbapi2.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE f USING fts5(b, tokenize='unicode61')")
    connection.executemany(
        "INSERT INTO f(rowid, b) VALUES(?, ?)", [(row.rowid, row.content) for row in space.rows]
    )
    hits: list[float] = []
    for question in space.questions:
        if question.group == group:
            match = " OR ".join(f'"{word}"' for word in dict.fromkeys(plain_words(question.text)))
            found = connection.execute(
                "SELECT rowid FROM f WHERE f MATCH ? ORDER BY rank LIMIT 10", (match,)
            )
            hits.append(score([rowid for (rowid,) in found], question.evidence)[1])
    connection.close()
    return 100 * sum(hits) / len(hits)
