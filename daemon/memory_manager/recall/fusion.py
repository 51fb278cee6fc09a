"""One order out of two legs, each on a scale of its own that means something. Pure.

Contract: recall.md 9. Both figures are absolute, so a leg that found little for *this* question
also weighs little, and neither has to be told which kind of conversation it is in:

* lexical: BM25 as a share of the best hit, times how much of the query that hit says: its score
  over what a row gets that says every word once, to the power of COVERAGE_POWER. A paraphrase
  without shared words cannot reach it, however its best hit compares with the others.
* semantic: by how many standard deviations of unrelated visible rows a cosine stands out, in units
  of SEMANTIC_UNIT, squared. For a bell curve half the square is about how surprising such a cosine
  is by chance (minus the logarithm of its probability), so one that stands out far is believed
  more than in proportion and the many that hardly do are noise.

      score = lexical_weight * lexical + semantic_weight * semantic

Without vectors the order is that of BM25, without word hits that of the cosines.

2026-11-30, both constants chosen for the least loss against the better leg over all sets together;
neighbours (unit 3.0 to 3.8, power 1 to 1.5) differ by a point. hit@5 / recall@10 in percent, e5.
"Before" took the plain deviation and the plain share of the query. "Lost": every word of a question
is one that nobody wrote, with that probability. Docstrings: the first line of 400 Python functions
against the rest of 1 200.

    set                           words        meaning      convex .6/.4   before       this
    LoCoMo, 760                   61.4 / 63.7  56.8 / 59.6  68.3 / 70.1    67.5 / 69.5  68.7 / 70.5
    LoCoMo, names swapped, 237    62.4 / 70.7  39.7 / 50.0  64.6 / 73.6    59.1 / 66.9  63.3 / 71.9
    one vault, 5 scopes           62.0 / 64.4  56.8 / 59.6  66.8 / 69.0    65.7 / 68.7  67.1 / 69.9
    one vault, no filter          57.5 / 60.2  56.6 / 58.5  64.7 / 66.7    64.1 / 67.7  63.3 / 67.3
    LoCoMo, .3 lost               47.6 / 52.1  56.8 / 59.6  61.8 / 64.4    63.7 / 66.1  64.3 / 66.6
    LoCoMo, .6 lost               32.8 / 36.8  56.8 / 59.6  56.6 / 61.3    60.7 / 64.2  60.7 / 63.7
    docstrings, 400               59.2 / 67.2  63.7 / 69.5  67.5 / 74.8    67.5 / 75.5  67.2 / 74.8
    docstrings, .6 lost           40.8 / 50.5  63.7 / 69.5  62.7 / 69.8    66.0 / 71.8  65.2 / 71.8
    probe, same language, 360     91.4 / 91.7  98.3 / 99.2  99.2 / 99.4    98.9 / 99.2  98.9 / 99.2
    probe, English question, 320  10.0 / 10.0  86.6 / 90.0  70.6 / 76.2    84.7 / 88.8  85.6 / 89.1
    MIRACL-ko, all, 1199          66.3 / 67.4  77.1 / 73.7  75.1 / 75.0    78.0 / 76.3  78.1 / 75.7
    MIRACL-ko, clean, 213         75.1 / 75.2  92.0 / 88.6  84.5 / 84.0    90.6 / 89.0  91.5 / 88.2

The worst loss against the better leg, on these and on each MIRACL variant, is 1.0 point; it was 1.9
before and is 16 for convex. Where the very words of the answer are taken out of a question and all
misleading ones stay, the loss is up to 4 points in any of them: nothing in a query tells that case.
Names swapped (LoCoMo's adversarial questions, looked at last) in one vault lose 4.6 / 1.9: idf is
that of the whole vault, so names weigh more than they do inside their scope.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import overload

from memory_manager.recall.fulltext import WordHits
from memory_manager.recall.settings import RankingSettings

SEMANTIC_UNIT = 3.25
"""Standard deviations of cosine that count as one unit of meaning."""
COVERAGE_POWER = 1.25
"""Above 1: a best hit that says half of the query is less than half as good as one that says all.
"""
CERTAIN_MEANING = (5.0 / SEMANTIC_UNIT) ** 2
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

    def strengths(self) -> dict[int, float]:
        """How surprising each cosine is, in squared units; never negative."""
        mean, unit = self.mean, SEMANTIC_UNIT * max(self.deviation, 1e-6)
        return {
            rowid: ((cosine - mean) / unit) ** 2 if cosine > mean else 0.0
            for rowid, cosine in self.cosines.items()
        }


@dataclasses.dataclass(frozen=True, slots=True)
class FusedRow:
    rowid: int
    score: float
    lexical: float | None  # BM25, positive
    lexical_norm: float
    cosine: float | None
    semantic_norm: float


class Fused(Sequence[FusedRow]):
    """Every candidate, best first; a row's figures are put together when it is asked for.

    ``scores`` are in [0, 1], in the order of ``rowids``; equal ones in no particular order.
    """

    def __init__(
        self,
        scores: Mapping[int, float],
        lexical: Mapping[int, float],
        semantic: Mapping[int, float],
        words: WordHits,
        meaning: MeaningHits | None,
    ) -> None:
        self.rowids = sorted(scores, key=scores.__getitem__, reverse=True)
        self.scores = [scores[rowid] for rowid in self.rowids]
        self._lexical, self._semantic = lexical, semantic
        self._words, self._cosines = words, meaning.cosines if meaning else {}

    def __len__(self) -> int:
        return len(self.rowids)

    @overload
    def __getitem__(self, index: int) -> FusedRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[FusedRow]: ...
    def __getitem__(self, index: int | slice) -> FusedRow | list[FusedRow]:
        if isinstance(index, slice):
            return [self._row(number) for number in range(*index.indices(len(self)))]
        return self._row(index)

    def _row(self, number: int) -> FusedRow:
        rowid = self.rowids[number]
        return FusedRow(
            rowid,
            self.scores[number],
            self._words.scores.get(rowid),
            self._lexical.get(rowid, 0.0),
            self._cosines.get(rowid),
            self._semantic.get(rowid, 0.0),
        )


def fuse(words: WordHits, meaning: MeaningHits | None, settings: RankingSettings) -> Fused:
    """Every candidate with its score in [0, 1], best first."""
    lexical_weight, semantic_weight = settings.lexical_weight, settings.semantic_weight
    lexical: dict[int, float] = {}
    semantic: dict[int, float] = {}
    if lexical_weight:
        lexical = _shares(words)
    if meaning and semantic_weight:
        semantic = meaning.strengths()
        semantic_weight *= meaning.coverage
    if not semantic:
        lexical_weight, semantic_weight = 1.0, 0.0
    elif not lexical:
        lexical_weight, semantic_weight = 0.0, 1.0
    # A row whose vector is still to come is not held against: it counts like the other word hits.
    expected = [semantic[rowid] for rowid in lexical if rowid in semantic]
    unknown = sum(expected) / len(expected) if expected else 0.0
    full = lexical_weight + semantic_weight * CERTAIN_MEANING
    scores = {rowid: semantic_weight * value / full for rowid, value in semantic.items()}
    waiting = semantic_weight * unknown / full
    for rowid, share in lexical.items():
        scores[rowid] = scores.get(rowid, waiting) + lexical_weight * share / full
    return Fused(scores, lexical, semantic, words, meaning)


def _shares(words: WordHits) -> dict[int, float]:
    """BM25 scores against the whole query, in [0, 1]; the order of BM25 is kept."""
    best = words.best
    if best <= 0:
        return dict.fromkeys(words.scores, 0.0)
    coverage = min(1.0, best / words.whole) if words.whole > 0 else 1.0
    whole = coverage**COVERAGE_POWER
    return {rowid: whole * (score / best) for rowid, score in words.scores.items()}
