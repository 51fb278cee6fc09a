"""The synchronous steps of one search; they run on reader threads. Contract: recall.md 8."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from memory_manager.recall import near_pairs
from memory_manager.recall.explain import matched_terms
from memory_manager.recall.fusion import FusedRow
from memory_manager.recall.match_query import query_terms
from memory_manager.recall.requests import Hit, SearchRequest, TimeOrder
from memory_manager.vault import queries
from memory_manager.vault.rows import MemoryRow, MemoryType

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

WORKING_BONUS = 0.05
RECENT_SPAN_BONUS = 0.05
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


def rank(
    fused: Sequence[FusedRow],
    facts: dict[int, RowFacts],
    request: SearchRequest,
    exact: Sequence[int],
) -> list[FusedRow]:
    """The gated rows in their final order: exact matches first, bonuses added, ties newer first."""
    place = {rowid: number for number, rowid in enumerate(exact) if rowid in facts}
    ranked = {row.rowid: row for row in fused if row.rowid in facts}
    for rowid, row in ranked.items():
        score = row.score + _bonus(facts[rowid], request)
        ranked[rowid] = dataclasses.replace(row, score=score)
    for rowid in place:
        known = ranked.get(rowid) or FusedRow(rowid, 0.0, None, 0.0, None, 0.0)
        ranked[rowid] = dataclasses.replace(known, score=LISTED_SCORE)
    ordered = sorted(
        ranked.values(),
        key=lambda row: (
            place.get(row.rowid, len(place)),
            -round(row.score, 9),
            -facts[row.rowid].updated_at_ms,
            -row.rowid,
        ),
    )
    return [dataclasses.replace(row, score=min(row.score, 1.0)) for row in ordered]


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
