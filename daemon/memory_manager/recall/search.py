"""The synchronous steps of one search; they run on reader threads. Contract: recall.md 8."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from memory_manager.recall import near_pairs
from memory_manager.recall.explain import matched_terms
from memory_manager.recall.fusion import Fused, FusedRow
from memory_manager.recall.match_query import query_terms
from memory_manager.recall.requests import Hit, SearchRequest, TimeOrder
from memory_manager.vault import queries
from memory_manager.vault.rows import MemoryRow, MemoryType

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

WORKING_BONUS = 0.05
RECENT_SPAN_BONUS = 0.05
_SPARE_ROWS = 10
_SCORE_ROUNDING = 1e-8
LISTED_SCORE = 1.0
"""The score of a row that was asked for by its id, key or path, or listed without a query."""


@dataclasses.dataclass(frozen=True, slots=True)
class RowFacts:
    """What ranking needs of a candidate besides its scores."""

    created_at_ms: int
    updated_at_ms: int
    memory_type: MemoryType
    bucket: str


def facts_of(
    connection: Connection, rowids: Collection[int], request: SearchRequest, now_ms: int
) -> dict[int, RowFacts]:
    """Facts of those candidates that still pass filter and gate: the last look before answering."""
    sql, parameters = request.filter.condition(now_ms)
    found: dict[int, RowFacts] = {}
    for chunk in _chunks(list(rowids), 500):
        marks = ",".join("?" * len(chunk))
        for rowid, created, updated, memory_type, bucket in connection.execute(
            "SELECT record.rowid, created_at_ms, updated_at_ms, memory_type, bucket FROM record"
            f" WHERE record.rowid IN ({marks}) AND {sql}",
            [*chunk, *parameters],
        ):
            found[rowid] = RowFacts(created, updated, MemoryType(memory_type), bucket)
    return found


def _chunks(items: Sequence[int], size: int) -> Iterable[Sequence[int]]:
    return (items[start : start + size] for start in range(0, len(items), size))


@dataclasses.dataclass(frozen=True, slots=True)
class Ranking:
    """``rows`` best first, at least as many as were asked for if there are; with their facts.

    ``candidates`` counts the rows that either leg proposed, without those seen to be hidden since.
    """

    rows: list[FusedRow]
    facts: dict[int, RowFacts]
    candidates: int


def best_rows(
    connection: Connection,
    fused: Fused,
    request: SearchRequest,
    exact: Sequence[int],
    now_ms: int,
) -> Ranking:
    """The final order. Only rows that can still be in the answer are looked at once more.

    Both legs asked filter and gate; a few rows may have been hidden since. Should they be many, or
    too few be left, every candidate is looked at.
    """
    for looked in (_contenders(fused, request), len(fused)):
        chosen = fused[:looked]
        if exact:
            chosen += [row for row in fused[looked:] if row.rowid in exact]
        wanted = {*exact, *(row.rowid for row in chosen)}
        facts = facts_of(connection, wanted, request, now_ms)
        hidden = len(wanted) - len(facts)
        if looked == len(fused) or hidden <= _SPARE_ROWS:
            break
    proposed = len({*exact, *fused.rowids})
    return Ranking(rank(chosen, facts, request, exact), facts, proposed - hidden)


def _contenders(fused: Fused, request: SearchRequest) -> int:
    """How many of the first rows can come among the best ``limit``, some spare ones included."""
    last = request.limit + _SPARE_ROWS - 1
    if last >= len(fused):
        return len(fused)
    least = fused.scores[last] - _greatest_bonus(request) - _SCORE_ROUNDING
    count = last + 1
    while count < len(fused) and fused.scores[count] >= least:
        count += 1
    return count


def rank(
    fused: Iterable[FusedRow],
    facts: dict[int, RowFacts],
    request: SearchRequest,
    exact: Sequence[int],
) -> list[FusedRow]:
    """The gated rows in their final order: exact matches first, bonuses added, ties newer first."""
    place = {rowid: number for number, rowid in enumerate(exact) if rowid in facts}
    known = {row.rowid: row for row in fused if row.rowid in facts}
    for rowid in place:
        known.setdefault(rowid, FusedRow(rowid, 0.0, None, 0.0, None, 0.0))
    keyed: list[tuple[int, float, int, int, float]] = []
    for rowid, row in known.items():
        exactly = place.get(rowid, len(place))
        listed = exactly < len(place)
        score = LISTED_SCORE if listed else row.score + _bonus(facts[rowid], request)
        keyed.append((exactly, -round(score, 9), -facts[rowid].updated_at_ms, -rowid, score))
    return [
        dataclasses.replace(known[-negative], score=min(score, 1.0))
        for _, _, _, negative, score in sorted(keyed)
    ]


def _greatest_bonus(request: SearchRequest) -> float:
    recent = RECENT_SPAN_BONUS if request.recent_span_ms is not None else 0.0
    return recent + (WORKING_BONUS if request.prefer_working else 0.0)


def _bonus(facts: RowFacts, request: SearchRequest) -> float:
    bonus = 0.0
    if request.prefer_working and facts.memory_type is MemoryType.WORKING:
        bonus += WORKING_BONUS
    if request.recent_span_ms is not None:
        since, until = request.recent_span_ms
        if since <= facts.created_at_ms < until:
            bonus += RECENT_SPAN_BONUS
    return bonus


NEAR_TIE = 0.02
"""Among linked near duplicates the newer one comes first when their scores are this close."""


def newer_first_among_near(
    connection: Connection, ranked: list[FusedRow], facts: dict[int, RowFacts]
) -> list[FusedRow]:
    """Neighbours in the order that are linked and about equal in score: the newer one first."""
    groups = near_pairs.groups(connection, [row.rowid for row in ranked])
    ordered = list(ranked)
    for place in range(1, len(ordered)):
        at = place
        while at and _swaps(ordered[at - 1], ordered[at], groups, facts):
            ordered[at - 1], ordered[at] = ordered[at], ordered[at - 1]
            at -= 1
    return ordered


def _swaps(
    above: FusedRow, below: FusedRow, groups: dict[int, int], facts: dict[int, RowFacts]
) -> bool:
    group = groups.get(above.rowid)
    return (
        group is not None
        and group == groups.get(below.rowid)
        and above.score - below.score <= NEAR_TIE
        and facts[below.rowid].updated_at_ms > facts[above.rowid].updated_at_ms
    )


def may_see(connection: Connection, rowid: int, now_ms: int) -> bool:
    """Whether the gate lets a row into recall at all."""
    return bool(facts_of(connection, [rowid], SearchRequest(""), now_ms))


def shared_terms(row: MemoryRow, query: str) -> list[str]:
    """Words of a query, stop words aside, that a row holds."""
    return matched_terms(row, query_terms(query).terms)


def listing(connection: Connection, request: SearchRequest, now_ms: int) -> list[MemoryRow]:
    """What passes the filter in time order: a query of ``*``, or the activity feed."""
    return queries.list_rows(
        connection,
        request.filter,
        now_ms,
        newest_first=request.time_order is not TimeOrder.OLDEST_FIRST,
        by_updated=request.order_by_updated,
        limit=request.limit,
    )


def in_time_order(hits: list[Hit], request: SearchRequest) -> list[Hit]:
    """The found rows by time instead of by score, when the request says so."""
    if request.time_order is None:
        return hits
    newest_first = request.time_order is TimeOrder.NEWEST_FIRST

    def moment(hit: Hit) -> tuple[int, int]:
        row = hit.row
        at = row.updated_at_ms if request.order_by_updated else row.created_at_ms
        return at, row.rowid

    return sorted(hits, key=moment, reverse=newest_first)
