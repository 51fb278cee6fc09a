"""One order out of two legs, each on a scale of its own that means something. Pure.

Contract: recall.md 9. Both figures are absolute, so a leg that found little for *this* question
also weighs little, and neither has to be told which kind of conversation it is in:

* lexical: BM25 as a share of what a row gets that says every word of the query once. A paraphrase
  without shared words cannot reach it, however its best hit compares with the others.
* semantic: by how many standard deviations of unrelated visible rows a cosine stands out, in units
  of SEMANTIC_UNIT. A question that resembles everything alike separates nothing.

      score = lexical_weight * lexical + semantic_weight * semantic

Without vectors the order is that of BM25, without word hits that of the cosines.

2026-11-30, SEMANTIC_UNIT chosen on the LoCoMo development conversations, the others only looked at.
hit@5 / recall@10 in percent, prepared e5 int8 (* e5 fp32 or MiniLM, an earlier run); "robbed": the
words of a question may not use its rarest word that the evidence holds.

    set                             words        meaning      convex .6/.4   this
    LoCoMo, 760                     61.4 / 63.7  56.2 / 59.7  67.8 / 70.2    67.0 / 70.2
    LoCoMo, MiniLM *                61.4 / 63.8  48.3 / 51.3  66.1 / 69.2    64.9 / 68.9
    LoCoMo, robbed *                31.7 / 36.5  59.5 / 62.4  49.5 / 53.9    59.2 / 64.3
    probe, same language, 360       91.4 / 91.7  98.6 / 99.2  99.2 / 99.4    98.9 / 99.2
    probe, English question, 320    10.0 / 10.0  86.6 / 88.4  71.6 / 74.7    85.6 / 86.6
    MIRACL-ko, all variants, 1199   66.3 / 67.4  76.9 / 73.3  75.0 / 74.8    77.9 / 75.8
    MIRACL-ko, clean alone, 213     75.1 / 75.2  93.4 / 86.4  85.9 / 84.0    90.6 / 87.5

Units from 1.7 to 2.3 differ by at most two points on each of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from memory_manager.recall.fulltext import WordHits
from memory_manager.recall.settings import RankingSettings

SEMANTIC_UNIT = 2.0
"""Standard deviations of cosine that weigh like saying every word of the query."""
CERTAIN_UNITS = 2.5
"""Five deviations and every word: the public score of such a row is 1."""


@dataclasses.dataclass(frozen=True, slots=True)
class MeaningHits:
    """Cosines by rowid: the best rows of the vector leg, and every word hit that has a vector.

    ``mean`` and ``deviation`` are those of unrelated visible rows; ``coverage`` is the share of
    rows that have a vector at all, below 1 while a model is being built.
    """

    cosines: Mapping[int, float]
    mean: float
    deviation: float
    coverage: float = 1.0

    def strength(self, cosine: float) -> float:
        """How far a cosine stands out, in units; never negative."""
        return max(0.0, (cosine - self.mean) / max(self.deviation, 1e-6) / SEMANTIC_UNIT)


@dataclasses.dataclass(frozen=True, slots=True)
class FusedRow:
    rowid: int
    score: float
    lexical: float | None  # BM25, positive
    lexical_norm: float
    cosine: float | None
    semantic_norm: float


def fuse(words: WordHits, meaning: MeaningHits | None, settings: RankingSettings) -> list[FusedRow]:
    """Every candidate with its score in [0, 1], best first; equal scores in no particular order."""
    lexical_weight, semantic_weight = settings.lexical_weight, settings.semantic_weight
    lexical: dict[int, float] = {}
    semantic: dict[int, float] = {}
    if lexical_weight:
        lexical = {rowid: _share(words, score) for rowid, score in words.scores.items()}
    if meaning and semantic_weight:
        semantic = {rowid: meaning.strength(cosine) for rowid, cosine in meaning.cosines.items()}
        semantic_weight *= meaning.coverage
    if not semantic:
        lexical_weight, semantic_weight = 1.0, 0.0
    elif not lexical:
        lexical_weight, semantic_weight = 0.0, 1.0
    # A row whose vector is still to come is not held against: it counts like the other word hits.
    expected = [semantic[rowid] for rowid in lexical if rowid in semantic]
    unknown = sum(expected) / len(expected) if expected else 0.0
    full = lexical_weight + semantic_weight * CERTAIN_UNITS
    rows = [
        FusedRow(
            rowid,
            (
                lexical_weight * lexical.get(rowid, 0.0)
                + semantic_weight * semantic.get(rowid, unknown)
            )
            / full,
            words.scores.get(rowid),
            lexical.get(rowid, 0.0),
            meaning.cosines.get(rowid) if meaning else None,
            semantic.get(rowid, 0.0),
        )
        for rowid in {**lexical, **semantic}
    ]
    return sorted(rows, key=lambda row: -row.score)


def _share(words: WordHits, score: float) -> float:
    """A BM25 score as a share of the whole query, in [0, 1]; keeps the order of BM25."""
    best = words.best
    if best <= 0:
        return 0.0
    return min(1.0, best / words.whole) * score / best if words.whole > 0 else score / best
