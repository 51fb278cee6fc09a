"""One order out of two legs. Pure. Contract: recall.md 9."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from memory_manager.recall.fulltext import WordHits
from memory_manager.recall.settings import RankingSettings


@dataclasses.dataclass(frozen=True, slots=True)
class MeaningHits:
    """Cosines by rowid: the best rows of the vector leg, and every word hit that has a vector.

    ``high`` and ``low`` are the best and the last cosine of the leg itself.
    """

    cosines: Mapping[int, float]
    high: float
    low: float


@dataclasses.dataclass(frozen=True, slots=True)
class FusedRow:
    rowid: int
    score: float
    lexical: float | None  # BM25, positive
    lexical_norm: float
    cosine: float | None
    semantic_norm: float


def fuse(words: WordHits, meaning: MeaningHits | None, settings: RankingSettings) -> list[FusedRow]:
    """Every candidate with its score, best first; ties are left in no particular order."""
    best = words.best or 1.0
    rows: list[FusedRow] = []
    cosines = meaning.cosines if meaning else {}
    span = max(meaning.high - meaning.low, 1e-6) if meaning else 1.0
    low = meaning.low if meaning else 0.0
    for rowid in {**words.scores, **cosines}:
        lexical, cosine = words.scores.get(rowid), cosines.get(rowid)
        lexical_norm = 0.0 if lexical is None else lexical / best
        semantic_norm = 0.0 if cosine is None else min(max((cosine - low) / span, 0.0), 1.0)
        if not meaning:
            score = lexical_norm
        elif not words.scores:
            score = semantic_norm
        else:
            score = (
                settings.lexical_weight * lexical_norm + settings.semantic_weight * semantic_norm
            )
        rows.append(FusedRow(rowid, score, lexical, lexical_norm, cosine, semantic_norm))
    rows.sort(key=lambda row: -row.score)
    return rows
