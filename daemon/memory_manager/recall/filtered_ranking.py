"""BM25 among the rows that a filter admits: a word is as rare as it is there.

In a vault of several projects or chats the names of one of them are rare, and inside it they are in
every other row. Weighed by the whole vault they drown the words that tell its rows apart. FTS5's
``bm25()`` knows only the whole table, so each term is ranked by itself and its score goes from the
table's idf to that of the admitted rows. The average length of a row stays that of the table: with
that of the admitted rows nothing changed (LoCoMo, 997 questions in five scopes).

A handful of rows does not tell how rare a word is; the vault stands in for ``PRIOR_ROWS`` of them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from memory_manager.recall.match_query import quote, rare_terms
from memory_manager.recall.porter import stem
from memory_manager.recall.vector_gate import Mask
from memory_manager.recall.vocabulary import indexed_rows, inverse_frequency
from memory_manager.recall.word_ranking import (
    BM25,
    Rowids,
    Weights,
    first_bar,
    least_weight,
    postings,
)

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

PRIOR_ROWS = 20


@dataclasses.dataclass(frozen=True, slots=True)
class FilteredHits:
    """``whole``: about the score of a row of average length that says every term once."""

    scores: dict[int, float]
    terms: tuple[str, ...] = dataclasses.field(repr=False)
    whole: float


@dataclasses.dataclass(frozen=True, slots=True)
class _Term:
    match: str = dataclasses.field(repr=False)
    rowids: Rowids  # admitted rows that hold it, rising
    idf: float  # among the admitted rows
    table_idf: float


def ranked_within(
    connection: Connection,
    terms: Sequence[str],
    phrases: Sequence[str],
    visible: Mask,
    *,
    limit: int,
    exact: int,
) -> FilteredHits:
    """The best ``limit`` of the admitted rows, the first ``exact`` of them proven.

    ``visible`` says by rowid which rows are admitted. Of the terms those that stand in a large
    share of the admitted rows go, as in a search of the whole vault.
    """
    rows = indexed_rows(connection)
    admitted = int(np.count_nonzero(visible))
    prior = min(PRIOR_ROWS, rows) / max(rows, 1)
    counted: dict[str, _Term] = {}
    frequency: dict[str, int] = {}
    for asked in (*terms, *phrases):
        match = quote(asked)
        everywhere = postings(connection, match)
        known = everywhere[: np.searchsorted(everywhere, len(visible))]
        here = known[visible[known]]
        frequency.setdefault(stem(asked), len(here))
        idf = inverse_frequency(
            admitted + prior * rows, len(here) + prior * min(len(everywhere), rows)
        )
        counted[asked] = _Term(match, here, idf, inverse_frequency(rows, len(everywhere)))
    kept = rare_terms(tuple(terms), frequency, admitted)
    said = [counted[asked] for asked in dict.fromkeys((*kept, *phrases))]
    scores = _best(connection, [term for term in said if len(term.rowids)], limit, exact)
    return FilteredHits(scores, kept, sum(counted[term].idf for term in kept))


def _best(connection: Connection, terms: list[_Term], limit: int, exact: int) -> dict[int, float]:
    hits, weights = _weighed(terms)
    bar = first_bar(weights, limit, exact) if len(hits) > limit else 0.0
    scores = _scores(connection, terms, hits[weights >= bar])
    least = least_weight(scores.values(), exact)
    if least < bar:
        scores |= _scores(connection, terms, hits[(weights >= least) & (weights < bar)])
    best = sorted(scores, key=lambda rowid: (-scores[rowid], rowid))[:limit]
    return {rowid: scores[rowid] for rowid in best}


def _weighed(terms: list[_Term]) -> tuple[Rowids, Weights]:
    """Admitted rows that hold any term, with the sum of the idf of the terms they hold."""
    size = max((int(term.rowids[-1]) + 1 for term in terms), default=0)
    total = np.zeros(size, np.float64)
    for term in terms:
        total[term.rowids] += term.idf
    hits = np.flatnonzero(total)
    return hits.astype(np.int64, copy=False), total[hits]


def _scores(connection: Connection, terms: list[_Term], rowids: Rowids) -> dict[int, float]:
    scores: dict[int, float] = {}
    wanted = np.zeros(max((int(term.rowids[-1]) + 1 for term in terms), default=0), np.bool_)
    wanted[rowids] = True
    for term in terms:
        holding = term.rowids[wanted[term.rowids]]
        if not len(holding):
            continue
        # The plus keeps SQLite from running the MATCH once per rowid.
        found = connection.execute(
            f"SELECT memory_fts.rowid, {BM25} FROM memory_fts WHERE memory_fts MATCH ?"
            " AND +memory_fts.rowid IN (SELECT value FROM json_each(?))",
            (term.match, json.dumps(holding.tolist())),
        )
        share = -term.idf / term.table_idf
        for rowid, score in found:
            scores[rowid] = scores.get(rowid, 0.0) + share * score
    return scores
