"""Recall quality on labelled sets: words, meaning, our fusion, and plain RRF side by side.

python tests/bench/quality.py --models DIR [--locomo FILE] [--miracl FOLDER] [--probe FILE]

The product's own index, fusion and embedder are used; only the vault around them is left out.
hit@k: any evidence row among the first k. recall@k: share of the evidence rows among the first k.
Granularity: one row.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import hashlib
import json
import math
import sys
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from labelled_sets import (
    LOCOMO_NAMES_SWAPPED,
    Namespace,
    Question,
    locomo,
    miracl,
    multilingual_probe,
    one_vault,
)
from word_table import MOMENT_MS, WordTable

from memory_manager.recall.embedder import Embedder, TextRefused
from memory_manager.recall.fulltext import WordHits
from memory_manager.recall.fusion import MeaningHits, fuse
from memory_manager.recall.settings import RankingSettings
from memory_manager.recall.text_rules import embedding_text
from memory_manager.recall.vector_codes import quantise
from memory_manager.recall.vector_gate import PlaceBook, facts_of_row
from memory_manager.recall.vector_index import Nearest, VectorIndex
from memory_manager.vault.filters import RowFilter

SYSTEMS = ("words", "meaning", "hybrid", "rrf-60")
CANDIDATES = 100
_BATCH = 32
_QUERY_SECONDS = 30.0
_NOW_MS = MOMENT_MS * 2

Vectors = list[np.ndarray]
Known = dict[tuple[str, str], np.ndarray]
"""Vectors of a text by ``documents`` or ``queries`` and the text."""


@dataclasses.dataclass(frozen=True, slots=True)
class Quality:
    """Percent, means over ``questions``; ``cpu_ms`` is CPU time of this process per query."""

    questions: int
    hit1: float
    hit5: float
    hit10: float
    recall5: float
    recall10: float
    mrr: float
    ndcg10: float
    cpu_ms: float


def score(ranked: Sequence[int], evidence: frozenset[int]) -> list[float]:
    """hit@1, hit@5, hit@10, recall@5, recall@10, reciprocal rank, nDCG@10 of one question."""
    gains = [rowid in evidence for rowid in ranked]
    ideal = sum(1 / math.log2(place + 2) for place in range(min(10, len(evidence))))
    gained = sum(1 / math.log2(place + 2) for place, hit in enumerate(gains[:10]) if hit)
    first = next((place for place, hit in enumerate(gains, start=1) if hit), 0)
    return [
        float(any(gains[:1])),
        float(any(gains[:5])),
        float(any(gains[:10])),
        sum(gains[:5]) / len(evidence),
        sum(gains[:10]) / len(evidence),
        1 / first if first else 0.0,
        gained / ideal,
    ]


class Searcher:
    """One namespace, indexed by the product's code."""

    def __init__(self, space: Namespace, vectors: Vectors, dim: int) -> None:
        self.table = WordTable()
        self.index = VectorIndex(dim, PlaceBook())
        for row, pieces in zip(space.rows, vectors, strict=True):
            self.table.add(row)
            scales, codes = quantise(pieces, dim)
            self.index.put(row.rowid, scales, codes, facts_of_row(row, self.index.book))
        self.table.load_gate()

    def words(self, question: Question) -> WordHits:
        return self.table.hits(question.text, RowFilter(scope=question.scope), limit=CANDIDATES)

    def meaning(self, question: Question, vector: np.ndarray) -> Nearest:
        return self.index.search(vector, RowFilter(scope=question.scope), _NOW_MS, CANDIDATES)

    def hybrid(self, question: Question, vector: np.ndarray) -> list[int]:
        words, nearest = self.words(question), self.meaning(question, vector)
        own = dict(zip(nearest.rowids.tolist(), nearest.cosines.tolist(), strict=True))
        others = self.index.cosines_of(vector, [r for r in words.scores if r not in own])
        meaning = MeaningHits({**own, **others}, nearest.mean, nearest.deviation)
        fused = fuse(words, meaning, RankingSettings())
        ordered = sorted(fused, key=lambda row: (-round(row.score, 9), -row.rowid))
        return [row.rowid for row in ordered]

    def ranked(self, system: str, question: Question, vector: np.ndarray) -> list[int]:
        if system == "hybrid":
            return self.hybrid(question, vector)
        if system == "meaning":
            return self.meaning(question, vector).rowids.tolist()
        scores = self.words(question).scores
        by_words = sorted(scores, key=lambda rowid: (-scores[rowid], -rowid))
        if system == "words":
            return by_words
        total: dict[int, float] = defaultdict(float)
        for leg in (by_words, self.meaning(question, vector).rowids.tolist()):
            for place, rowid in enumerate(leg, start=1):
                total[rowid] += 1 / (60 + place)
        return sorted(total, key=lambda rowid: -total[rowid])


async def measure(
    spaces: Sequence[Namespace],
    embedder: Embedder,
    cache: Path | None = None,
    systems: Sequence[str] = SYSTEMS,
    known: Known | None = None,
) -> dict[str, dict[str, Quality]]:
    """By group of questions (and ``all``), by system. ``known`` is taken and filled: several calls
    may share it.
    """
    known = {} if known is None else known
    figures: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    for space in spaces:
        texts = [embedding_text(row) for row in space.rows]
        documents = await _once(known, "documents", texts, lambda t: _documents(embedder, t, cache))
        asked = [question.text for question in space.questions]
        queries = await _once(known, "queries", asked, lambda t: _queries(embedder, t, cache))
        searcher = Searcher(space, documents, embedder.dim or 0)
        for question, vector in zip(space.questions, queries, strict=True):
            _ask(searcher, question, vector, systems, figures)
        searcher.table.close()
    report: dict[str, dict[str, Quality]] = defaultdict(dict)
    for (group, system), rows in figures.items():
        *means, cpu = (sum(column) / len(rows) for column in zip(*rows, strict=True))
        report[group][system] = Quality(
            len(rows), *(round(100 * mean, 1) for mean in means), round(1000 * cpu, 2)
        )
    return dict(report)


def _ask(
    searcher: Searcher,
    question: Question,
    vector: np.ndarray,
    systems: Sequence[str],
    figures: dict[tuple[str, str], list[list[float]]],
) -> None:
    for system in systems:
        started = time.process_time()
        ranked = searcher.ranked(system, question, vector)
        spent = time.process_time() - started
        row = [*score(ranked, question.evidence), spent]
        figures["all", system].append(row)
        figures[question.group, system].append(row)


async def _once(
    known: Known, kind: str, texts: list[str], make: Callable[[list[str]], Awaitable[Vectors]]
) -> Vectors:
    missing = [text for text in dict.fromkeys(texts) if (kind, text) not in known]
    if missing:
        for text, vectors in zip(missing, await make(missing), strict=True):
            known[kind, text] = vectors
    return [known[kind, text] for text in texts]


async def _documents(embedder: Embedder, texts: list[str], cache: Path | None) -> Vectors:
    async def make() -> Vectors:
        made: Vectors = []
        for start in range(0, len(texts), _BATCH):
            for vector in await embedder.embed_documents(texts[start : start + _BATCH]):
                if isinstance(vector, TextRefused):
                    raise vector
                made.append(vector)
        return made

    return await _cached(embedder, "documents", texts, cache, make)


async def _queries(embedder: Embedder, texts: list[str], cache: Path | None) -> Vectors:
    async def make() -> Vectors:
        return [(await embedder.embed_query(text, _QUERY_SECONDS))[None, :] for text in texts]

    return [vector[0] for vector in await _cached(embedder, "queries", texts, cache, make)]


async def _cached(
    embedder: Embedder, kind: str, texts: list[str], cache: Path | None, make: Callable[[], object]
) -> Vectors:
    """Vectors of a folder of one's own; the file names are hashes, the files hold no text."""
    digest = hashlib.sha256(json.dumps([embedder.model_key, kind, texts]).encode()).hexdigest()[:24]
    file = cache / f"{digest}.npz" if cache else None
    if file is not None and file.exists():
        stored = np.load(file)
        return np.split(stored["vectors"], stored["borders"])
    vectors: Vectors = await make()  # type: ignore[misc]
    if file is not None:
        borders = np.cumsum([len(pieces) for pieces in vectors])[:-1]
        np.savez(file, vectors=np.concatenate(vectors), borders=borders)
    return vectors


def table(report: dict[str, dict[str, Quality]]) -> str:
    names = [field.name for field in dataclasses.fields(Quality)]
    lines = [f"{'group':18}{'system':10}" + "".join(f"{name:>10}" for name in names)]
    for group, by_system in report.items():
        for system, quality in by_system.items():
            cells = "".join(f"{getattr(quality, name):>10}" for name in names)
            lines.append(f"{group:18}{system:10}{cells}")
    return "\n".join(lines)


async def main(arguments: argparse.Namespace) -> None:
    from memory_manager.recall.models.installed import InstalledModels
    from memory_manager.recall.models.settings import EmbeddingSettings
    from memory_manager.recall.worker_embedder import WorkerEmbedder

    chosen = EmbeddingSettings(model=arguments.model) if arguments.model else EmbeddingSettings()
    embedder = WorkerEmbedder(InstalledModels(arguments.models, chosen))
    await embedder.refresh()
    sets: dict[str, list[Namespace]] = {}
    if arguments.locomo:
        swapped = locomo(arguments.locomo, LOCOMO_NAMES_SWAPPED)
        sets["LoCoMo development set, by turn"] = locomo(arguments.locomo)
        sets["LoCoMo, names swapped"] = swapped
        sets["LoCoMo in one vault, a scope each"] = [one_vault(locomo(arguments.locomo))]
        sets["LoCoMo in one vault, names swapped"] = [one_vault(swapped)]
    if arguments.probe:
        sets["multilingual probe"] = multilingual_probe(arguments.probe)
    if arguments.miracl:
        sets["MIRACL-ko derivative"] = [miracl(arguments.miracl)]
    try:
        for name, spaces in sets.items():
            report = await measure(spaces, embedder, arguments.cache)
            print(f"\n{name}, model {embedder.model_key}, percent\n{table(report)}", flush=True)
    finally:
        await embedder.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, required=True, help="folder of prepared models")
    parser.add_argument("--model", help="id of the model")
    parser.add_argument("--locomo", type=Path)
    parser.add_argument("--miracl", type=Path)
    parser.add_argument("--probe", type=Path)
    parser.add_argument("--cache", type=Path, help="folder to keep vectors in")
    asyncio.run(main(parser.parse_args()))
