"""Quality on labelled sets: words against unicode61, hybrid against both of its legs (R40).

Run with ``-m bench``; the sets are not part of this repository and each test skips without its own.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from labelled_sets import Namespace, locomo, miracl, multilingual_probe
from quality import Quality, measure, score, table
from sqlcipher3 import dbapi2
from word_table import WordTable

from memory_manager.base.directories import directories
from memory_manager.recall.scripts import words as plain_words
from memory_manager.recall.worker_embedder import WorkerEmbedder

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]

WITHIN_POINTS = 1.0


@pytest.fixture(autouse=True)
def _only_when_asked_for(request: pytest.FixtureRequest) -> None:
    if "bench" not in request.config.getoption("markexpr"):
        pytest.skip("takes minutes; runs with -m bench")


@pytest.fixture
async def embedder() -> AsyncIterator[WorkerEmbedder]:
    from memory_manager.recall.models.installed import InstalledModels
    from memory_manager.recall.models.settings import EmbeddingSettings

    folder = Path(os.environ.get("MEMLOCKET_TEST_MODELS") or directories().models)
    made = WorkerEmbedder(InstalledModels(folder, EmbeddingSettings()))
    if await made.refresh() is None:
        pytest.skip(
            f"no prepared model in {folder}; set MEMLOCKET_TEST_MODELS to a folder of models"
        )
    yield made
    await made.stop()


def needed(file: Path) -> Path:
    if not file.exists():
        pytest.skip(f"labelled set {file.name} is absent")
    return file


def within_a_point_of_the_better_leg(by_system: dict[str, Quality]) -> None:
    hybrid = by_system["hybrid"]
    for name in ("hit5", "recall10"):
        better = max(getattr(by_system[leg], name) for leg in ("words", "meaning"))
        assert getattr(hybrid, name) >= better - WITHIN_POINTS, name


@pytest.mark.embed
async def test_hybrid_on_the_development_conversations(
    shared_folder: Path, embedder: WorkerEmbedder
) -> None:
    spaces = locomo(needed(shared_folder / "data" / "locomo-dev.json"))
    report = await measure(spaces, embedder)
    print(f"\n{embedder.model_key}\n{table(report)}")
    everything = report["all"]
    words, hybrid = everything["words"], everything["hybrid"]
    assert hybrid.hit5 >= max(words.hit5 + 5, 63)
    assert hybrid.recall10 >= max(words.recall10 + 5, 65)
    for by_system in report.values():
        assert by_system["hybrid"].hit5 >= by_system["words"].hit5
    within_a_point_of_the_better_leg(everything)


@pytest.mark.embed
async def test_hybrid_across_languages(repository: Path, embedder: WorkerEmbedder) -> None:
    spaces = multilingual_probe(needed(repository / "tests" / "data" / "multilingual_probe.json"))
    report = await measure(spaces, embedder)
    print(f"\n{embedder.model_key}\n{table(report)}")
    for by_system in report.values():
        assert by_system["hybrid"].hit5 >= by_system["words"].hit5
        within_a_point_of_the_better_leg(by_system)


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
