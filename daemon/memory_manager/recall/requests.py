"""What a recall is asked and what it answers: values only.

Contract: recall.md 8-11, xmemo.md 6.3-6.4.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping

from memory_manager.vault.filters import RowFilter
from memory_manager.vault.rows import MemoryRow


class Degraded(enum.StrEnum):
    """Why a recall answered with less than both legs; empty when all is well (recall.md 11)."""

    EMBEDDINGS = "embeddings"
    EMBEDDINGS_LOADING = "embeddings_loading"
    EMBEDDINGS_BUILDING = "embeddings_building"
    FULLTEXT = "fulltext"


class Leg(enum.StrEnum):
    """One of the two ways to find rows, asked alone."""

    WORDS = "words"
    MEANING = "meaning"


class TimeOrder(enum.StrEnum):
    NEWEST_FIRST = "desc"
    OLDEST_FIRST = "asc"


@dataclasses.dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search. ``query`` of ``*`` or only blanks lists what passes the filter, newest first."""

    query: str = dataclasses.field(repr=False)
    filter: RowFilter = dataclasses.field(default_factory=RowFilter)
    limit: int = 10
    time_order: TimeOrder | None = None  # set: order the hits by time instead of by score
    order_by_updated: bool = False  # with time_order: updated_at instead of created_at
    activity_log: bool = False  # a time-ordered feed without ranking
    prefer_working: bool = False
    explain: bool = False
    hypothetical_answer: str | None = dataclasses.field(default=None, repr=False)
    score_threshold: float | None = None
    leg: Leg | None = None  # only this one, for measuring; None: both
    recent_span_ms: tuple[int, int] | None = None  # +0.05 for rows inside (recall.md 10)


@dataclasses.dataclass(frozen=True, slots=True)
class Hit:
    """One found row. ``score`` is in [0, 1]; ``cosine`` is None when meaning did not see it."""

    row: MemoryRow
    score: float
    cosine: float | None
    explanation: Mapping[str, object] | None = None  # recall.md 8, only with ``explain``


@dataclasses.dataclass(frozen=True, slots=True)
class SearchResult:
    hits: tuple[Hit, ...]
    candidates: int  # rows that either leg proposed after filter and gate
    degraded: tuple[Degraded, ...]
    meaning_only: bool = False  # no word hit at all


@dataclasses.dataclass(frozen=True, slots=True)
class ContextPack:
    """Hits packed into a token budget: ``text`` has one block per hit in the same order, with one
    blank line between blocks.
    """

    hits: tuple[Hit, ...]
    text: str = dataclasses.field(repr=False)
    tokens: int
    candidates: int
    degraded: tuple[Degraded, ...]
