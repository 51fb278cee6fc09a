"""One order out of two legs, each on a scale of its own that means something. Pure.

Contract: recall.md 9. Both figures are absolute, so a leg that found little for *this* question
also weighs little, and neither has to be told which kind of conversation it is in:

* lexical: BM25 as a share of the best hit, times how much of the query that hit says: its score
  over what a row gets that says every word once, to the power of COVERAGE_POWER. A paraphrase
  without shared words cannot reach it, however its best hit compares with the others.
* semantic: by how many standard deviations of unrelated visible rows a cosine stands out, in units
  of SEMANTIC_UNIT, squared. For a bell curve half the square is about how surprising such a cosine
  is by chance (minus the logarithm of its probability), so one that stands out far is believed
  more than in proportion and the many that hardly do are noise. What is usual is drawn from the
  mean of unrelated rows towards that of the word hits: in a vault of several chats all rows of the
  right one stand out from the others, which tells nothing about the question.

      score = lexical_weight * lexical + semantic_weight * semantic

Without vectors the order is that of BM25, without word hits that of the cosines.

2026-11-30, constants chosen for the least loss against the better leg over all sets together;
neighbours (unit 3.0 to 3.8, power 1 to 1.5, 10 to 50 unrelated rows) differ by a point. hit@5 /
recall@10 in percent, e5. "Before": words weighed by the whole vault also under a filter, and the
mean of unrelated rows alone. "Lost": every word of a question is one that nobody wrote, with that
probability. "Names swapped": LoCoMo's adversarial questions. Docstrings: the first line of 400
Python functions against the rest of 1 200.

    set                           words        meaning      before       this         to the better
    LoCoMo, 760                   61.4 / 63.7  56.8 / 59.6  68.7 / 70.5  68.6 / 70.1  +7.1 / +6.5
    names swapped, 237            62.4 / 70.7  39.7 / 50.0  63.3 / 71.9  65.0 / 73.2  +2.5 / +2.5
    one vault, 5 scopes           61.7 / 63.7  56.8 / 59.6  67.1 / 69.9  68.8 / 70.3  +7.1 / +6.6
      names swapped               62.4 / 70.7  39.7 / 50.0  59.5 / 68.4  65.0 / 73.6  +2.5 / +3.0
    one vault, no filter          57.5 / 60.2  56.6 / 58.5  63.3 / 67.3  64.2 / 67.9  +6.7 / +7.7
      names swapped               57.4 / 64.3  39.7 / 48.7  53.6 / 59.3  55.3 / 63.9  -2.1 / -0.4
    LoCoMo, .3 lost               47.6 / 52.1  56.8 / 59.6  64.3 / 66.6  64.5 / 66.6  +7.6 / +7.0
    LoCoMo, .6 lost               32.8 / 36.8  56.8 / 59.6  60.7 / 63.7  60.5 / 64.2  +3.7 / +4.6
    docstrings, 400               59.2 / 67.2  63.7 / 69.5  67.2 / 74.8  66.8 / 74.5  +3.0 / +5.0
    docstrings, .6 lost           40.8 / 50.5  63.7 / 69.5  65.2 / 71.8  65.5 / 71.8  +1.8 / +2.2
    probe, same language, 360     91.4 / 91.7  98.3 / 99.2  98.9 / 99.2  98.9 / 99.2  +0.6 / +0.0
    probe, English question, 320  10.0 / 10.0  86.6 / 90.0  85.6 / 89.1  85.6 / 89.1  -0.9 / -0.9
    MIRACL-ko, all, 1199          66.3 / 67.4  77.1 / 73.6  78.1 / 75.7  78.3 / 76.0  +1.3 / +2.3
    MIRACL-ko, clean, 213         75.1 / 75.2  92.0 / 88.6  91.5 / 88.2  92.0 / 88.0  +0.0 / -0.6

The loss against the better leg is below a point, on each MIRACL variant, too, but for swapped
names in one vault asked without any filter (2.1, with a standard error of 3; before 3.8 / 5.0).
With scopes "before" lost 4.2 / 1.5 to its better leg. Length of rows, centre of the sign bits and
number of candidates make no difference there: with a scope the order is that of a vault of its own.
Where the very words of the answer are taken out of a question and all misleading ones stay, the
loss is up to 4.5 points in any version: nothing in a query tells that case.
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
UNRELATED_ROWS = 20
"""So many word hits that say everything weigh as much as the rest of the vault in what is usual."""
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

    def strengths(self, mean: float) -> dict[int, float]:
        """How surprising each cosine is where ``mean`` is the usual one, in squared units; never
        negative.
        """
        unit = SEMANTIC_UNIT * max(self.deviation, 1e-6)
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
        semantic = meaning.strengths(_usual_cosine(words, meaning))
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


def _usual_cosine(words: WordHits, meaning: MeaningHits) -> float:
    """What is usual among rows of the question's subject: the mean of unrelated rows, drawn to that
    of the word hits, the more the more of the question they say; never below the former.
    """
    found = [meaning.cosines[rowid] for rowid in words.scores if rowid in meaning.cosines]
    weight = len(found) * _coverage(words) ** 2
    if not weight:
        return meaning.mean
    among_hits = sum(found) / len(found)
    mean = (weight * among_hits + UNRELATED_ROWS * meaning.mean) / (weight + UNRELATED_ROWS)
    return max(mean, meaning.mean)


def _coverage(words: WordHits) -> float:
    """How much of the query the best hit says, in [0, 1]."""
    if words.best <= 0:
        return 0.0
    return min(1.0, words.best / words.whole) if words.whole > 0 else 1.0


def _shares(words: WordHits) -> dict[int, float]:
    """BM25 scores against the whole query, in [0, 1]; the order of BM25 is kept."""
    best = words.best
    if best <= 0:
        return dict.fromkeys(words.scores, 0.0)
    whole = _coverage(words) ** COVERAGE_POWER
    return {rowid: whole * (score / best) for rowid, score in words.scores.items()}
