"""Recall over opted-in rows: the retrieval gate first, then filters, then both rankings.

A row that the gate drops takes no slot, count or score. Contract: redaction.md 11.3, xmemo.md 15.2.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from memory_manager.base.path_filter import PathFilter
from memory_manager.security.envelope import OPT_IN_KEY
from memory_manager.security.gate import Surface, may_recall
from memory_manager.sync.server.index.storage import Candidate, Matrix
from memory_manager.sync.server.index.vectors import (
    MIN_MEANING_SCORE,
    MIN_WORD_SCORE,
    word_scores,
)

EVERYTHING: Final = "*"
_RANK_CONSTANT: Final = 20


class Degraded(enum.StrEnum):
    """Why an answer has less than both rankings; the words are those of the local recall."""

    EMBEDDINGS = "embeddings"
    EMBEDDINGS_BUILDING = "embeddings_building"


@dataclasses.dataclass(frozen=True, slots=True)
class Query:
    """What is asked. None: no such condition. Times are ``[since, until)`` in UTC milliseconds;
    ``newest_first`` None orders by score.
    """

    text: str = dataclasses.field(repr=False)
    limit: int = 10
    bucket: str | None = None
    scope: str | None = None
    memory_type: str | None = None
    path: PathFilter | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    filter_updated: bool = False
    order_updated: bool = False
    newest_first: bool | None = None
    threshold: float | None = None

    @property
    def lists_all(self) -> bool:
        return self.text.strip() in ("", EVERYTHING)

    def passes(self, row: Candidate) -> bool:
        """Whether a row fits every condition."""
        at_ms = row.updated_at_ms if self.filter_updated else row.created_at_ms
        return (
            self.bucket in (None, row.bucket)
            and self.scope in (None, row.scope)
            and self.memory_type in (None, row.memory_type)
            and (self.path is None or self.path.admits(row.path))
            and (self.since_ms is None or at_ms >= self.since_ms)
            and (self.until_ms is None or at_ms < self.until_ms)
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Ranked:
    """``score`` is in [0, 1]; ``similarity`` is a cosine, or the share of words without one."""

    row: Candidate
    score: float
    similarity: float


def recallable(rows: Sequence[Candidate]) -> list[Candidate]:
    """Those that the gate lets a server recall by vectors, which is the only way there is here."""
    return [
        row
        for row in rows
        if may_recall(row.envelope, {OPT_IN_KEY: row.opted_in}, Surface.SERVER).vector
    ]


def rank(
    query: Query, rows: Sequence[Candidate], meanings: Mapping[bytes, float] | None
) -> tuple[list[Ranked], int]:
    """The hits in order, at most ``query.limit``, and how many rows were hits at all.

    ``rows`` passed the gate. ``meanings``: how near each record is, None where only words count. A
    query that is a row's id finds that row.
    """
    # sorted: equal scores are ranked as they come, and a database gives rows in any order
    fitting = sorted((row for row in rows if query.passes(row)), key=lambda row: row.record)
    wanted = query.text.strip()
    named = [row for row in fitting if row.record.hex() == wanted.lower()]
    if named:
        hits = [Ranked(row, 1.0, 1.0) for row in named]
    elif query.lists_all:
        hits = [Ranked(row, 1.0, 1.0) for row in fitting]
        hits.sort(key=lambda hit: _time(hit, query), reverse=True)
    else:
        hits = _scored(wanted, fitting, meanings)
    if query.threshold is not None:
        hits = [hit for hit in hits if hit.score >= query.threshold]
    count, hits = len(hits), hits[: query.limit] if query.newest_first is None else hits
    if query.newest_first is not None:
        hits.sort(key=lambda hit: _time(hit, query), reverse=query.newest_first)
    return hits[: query.limit], count


def _scored(
    text: str, rows: Sequence[Candidate], meanings: Mapping[bytes, float] | None
) -> list[Ranked]:
    words = word_scores(text, [row.words for row in rows])
    if meanings is None:
        meaning = np.zeros(len(rows), np.float32)
        score = words
    else:
        meaning = np.array([meanings.get(row.record, 0.0) for row in rows], np.float32)
        score = _fused(words, MIN_WORD_SCORE) + _fused(meaning, MIN_MEANING_SCORE)
    hits = [
        Ranked(row, float(score[i]), float(meaning[i] or words[i]))
        for i, row in enumerate(rows)
        if words[i] >= MIN_WORD_SCORE or meaning[i] >= MIN_MEANING_SCORE
    ]
    hits.sort(key=lambda hit: (-hit.score, -hit.similarity, hit.row.record))
    return hits


def _fused(scores: Matrix, least: float) -> Matrix:
    """Half of a reciprocal rank: two firsts make 1."""
    order = np.argsort(-scores, kind="stable")
    shares = np.zeros(len(scores), np.float32)
    for position, number in enumerate(order):
        if scores[number] >= least:
            shares[number] = 0.5 * (_RANK_CONSTANT + 1) / (_RANK_CONSTANT + 1 + position)
    return shares


def _time(hit: Ranked, query: Query) -> tuple[int, bytes]:
    at_ms = hit.row.updated_at_ms if query.order_updated else hit.row.created_at_ms
    return at_ms, hit.row.record
