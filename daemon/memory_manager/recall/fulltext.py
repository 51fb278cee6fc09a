"""The word index: kept in the row's own transaction, searched with the gate inside the statement.

Contract: recall.md 7. External content and the ``'delete'`` command with the old values, so that a
forgotten term is gone from the shadow tables at once; no triggers, this one module does it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import time
from collections.abc import Collection, Generator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from memory_manager.recall import filtered_ranking
from memory_manager.recall.errors import FullTextDamaged
from memory_manager.recall.match_query import MAX_TERMS, QueryTerms, quote, rare_terms
from memory_manager.recall.porter import stem
from memory_manager.recall.row_gate import RowGate
from memory_manager.recall.text_rules import TEXT_RULES_VERSION, IndexFields, index_fields
from memory_manager.recall.vector_gate import Mask
from memory_manager.recall.vocabulary import Vocabulary, inverse_frequency
from memory_manager.recall.word_ranking import DIRECT_ROWS, Condition, ranked
from memory_manager.security.gate import Surface, may_recall
from memory_manager.vault.filters import RowFilter
from memory_manager.vault.rows import RECALLED_KINDS

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.rows import MemoryRow
    from memory_manager.vault.transaction import Transaction

TRIGRAM_WEIGHT = 0.5
TIME_LIMIT_SECONDS = 0.25
NARROW_SHARE = 0.8
"""Among more of the rows than this a word is about as rare as in all of them."""
_TERMS_AFTER_TIMEOUT = (8, 2)
_PROGRESS_INSTRUCTIONS = 20_000


@dataclasses.dataclass(frozen=True, slots=True)
class WordHits:
    """Rows that hold words of the query, best first.

    ``scores`` maps rowid to a positive score on the scale of BM25; ``whole`` is about the score
    of a row of average length that says every term of the query once.
    """

    scores: dict[int, float]
    terms: tuple[str, ...] = dataclasses.field(repr=False)
    whole: float
    timed_out: bool = False

    @property
    def best(self) -> float:
        return max(self.scores.values(), default=0.0)


NO_WORD_HITS = WordHits({}, (), 0.0)


def is_indexed(row: MemoryRow) -> bool:
    """Rows that may never be recalled are in no index, so they change no score of others."""
    if row.kind not in RECALLED_KINDS:
        return False
    return may_recall(row.envelope, row.metadata, Surface.LOCAL).allowed


class FullTextIndex:
    """A ``RowIndexer``; one object per vault, for the writer and all reader threads.

    ``gate`` is loaded and emptied by its owner and follows commits here. While it is empty, a
    filtered search counts words in the whole vault.
    """

    def __init__(self, gate: RowGate | None = None) -> None:
        self.gate = gate or RowGate()
        self.vocabulary = Vocabulary()

    def row_changed(
        self, transaction: Transaction, before: MemoryRow | None, after: MemoryRow | None
    ) -> None:
        row = after or before
        if row is None:
            return
        wanted = after if after is not None and is_indexed(after) else None
        remove(transaction.connection, row.rowid)
        if wanted is not None:
            insert(transaction.connection, row.rowid, index_fields(wanted))
        transaction.after_commit(self.vocabulary.note_write)
        transaction.after_commit(lambda: self.gate.row_changed(row.rowid, wanted))

    def search(
        self,
        connection: Connection,
        query: QueryTerms,
        row_filter: RowFilter,
        now_ms: int,
        *,
        limit: int,
        wanted: int,
    ) -> WordHits:
        """The best ``limit`` rows that pass filter and gate; the first ``wanted`` exactly.

        With a filter, words are weighed by how rare they are among the rows that pass it. When
        fewer than ``wanted`` rows hold a word, the trigram table is asked for substrings. A query
        over the time limit is cut to its rarest terms. Raises FullTextDamaged when the tables
        cannot be read.
        """
        if query.empty:
            return NO_WORD_HITS
        condition = _condition(row_filter, now_ms)
        visible = None if row_filter == RowFilter() else self.gate.visible(row_filter, now_ms)
        with _damage_has_a_name():
            found = None
            if visible is not None and self._is_narrow(connection, visible):
                found = self._within(connection, query, visible, limit, wanted)
            if found is None:
                found = self._in_the_vault(connection, query, condition, limit, wanted)
            if len(found.scores) < wanted and query.substrings:
                statement, parameters = _substring_search(query, condition, visible, limit)
                _add_substring_hits(connection, found.scores, statement, parameters)
        return found

    def _is_narrow(self, connection: Connection, visible: Mask) -> bool:
        return int(np.count_nonzero(visible)) < NARROW_SHARE * self.vocabulary.rows(connection)

    def _in_the_vault(
        self,
        connection: Connection,
        query: QueryTerms,
        condition: Condition,
        limit: int,
        wanted: int,
    ) -> WordHits:
        rows = self.vocabulary.rows(connection)
        frequency = self.vocabulary.frequencies(connection, query.terms)
        terms = rare_terms(query.terms, frequency, rows)
        hits, timed_out = _ranked(
            connection, terms, query.phrases, rows, frequency, condition, limit, wanted
        )
        whole = sum(inverse_frequency(rows, frequency.get(stem(term), 0)) for term in terms)
        return WordHits(hits, terms, whole, timed_out)

    def _within(
        self, connection: Connection, query: QueryTerms, visible: Mask, limit: int, wanted: int
    ) -> WordHits | None:
        """The search among the rows that a filter admits; None when the time is up."""
        terms = query.terms
        if len(terms) > MAX_TERMS:
            frequency = self.vocabulary.frequencies(connection, terms)
            terms = rare_terms(terms, frequency, self.vocabulary.rows(connection))
        with _time_limit(connection) as expired:
            try:
                found = filtered_ranking.ranked_within(
                    connection, terms, query.phrases, visible, limit=limit, exact=wanted
                )
            except Exception:
                if not expired():
                    raise
                return None
        return WordHits(found.scores, found.terms, found.whole)


def _substring_search(
    query: QueryTerms, condition: Condition, visible: Mask | None, limit: int
) -> tuple[str, list[object]]:
    """The statement for rows that hold one of the substrings, and its parameters."""
    match = " OR ".join(quote(part) for part in query.substrings)
    if visible is not None and np.count_nonzero(visible) <= DIRECT_ROWS:
        # Ordered by ``rank`` all rows that match would be ranked, and there are thousands.
        return (
            "SELECT memory_tri.rowid, bm25(memory_tri) AS score FROM memory_tri"
            " WHERE memory_tri MATCH ? AND +memory_tri.rowid IN (SELECT value FROM json_each(?))"
            " ORDER BY score LIMIT ?",
            [match, json.dumps(np.flatnonzero(visible).tolist()), limit],
        )
    return (
        "SELECT memory_tri.rowid, memory_tri.rank FROM memory_tri"
        " CROSS JOIN record ON record.rowid = memory_tri.rowid"
        f" WHERE memory_tri MATCH ? AND {condition.sql} ORDER BY memory_tri.rank LIMIT ?",
        [match, *condition.parameters, limit],
    )


def _add_substring_hits(
    connection: Connection, hits: dict[int, float], statement: str, parameters: Sequence[object]
) -> None:
    with _time_limit(connection) as expired:
        try:
            found = connection.execute(statement, parameters).fetchall()
        except Exception:
            if expired():
                return
            raise
    if not found:
        return
    best_word = max(hits.values(), default=-float(found[0][1]))
    best_substring = -float(found[0][1]) or 1.0
    for rowid, rank in found:
        score = TRIGRAM_WEIGHT * best_word * -float(rank) / best_substring
        hits.setdefault(int(rowid), score)


def held_terms(
    connection: Connection, rowids: Collection[int], terms: Sequence[str]
) -> dict[int, list[str]]:
    """Which of these words each row holds, in their order, as the index knows it: cutting long
    texts into words again would take seconds. Raises FullTextDamaged.
    """
    found: dict[int, list[str]] = {rowid: [] for rowid in rowids}
    rows = json.dumps(sorted(found))
    with _damage_has_a_name():
        for term in terms:
            for (rowid,) in connection.execute(
                "SELECT memory_fts.rowid FROM json_each(?) AS asked"
                " CROSS JOIN memory_fts ON memory_fts.rowid = asked.value"
                " WHERE memory_fts MATCH ?",
                (rows, quote(term)),
            ):
                found[rowid].append(term)
    return found


def _condition(row_filter: RowFilter, now_ms: int) -> Condition:
    sql, parameters = row_filter.condition(now_ms)
    bounds = (row_filter.path, row_filter.since_ms, row_filter.until_ms)
    return Condition(
        sql,
        parameters,
        selective=row_filter != RowFilter(),
        indexed=any(bound is not None for bound in bounds),
    )


def _ranked(
    connection: Connection,
    terms: tuple[str, ...],
    phrases: tuple[str, ...],
    rows: int,
    frequency: dict[str, int],
    condition: Condition,
    limit: int,
    wanted: int,
) -> tuple[dict[int, float], bool]:
    """Scores, and whether the time was up and terms were left out."""
    for count in (len(terms), *_TERMS_AFTER_TIMEOUT):
        kept = rare_terms(terms, frequency, rows, count) if count < len(terms) else terms
        estimate = sum(frequency.get(stem(term), 0) for term in kept)
        match_terms = [quote(term) for term in (*kept, *(phrases if kept == terms else ()))]
        with _time_limit(connection) as expired:
            try:
                found = ranked(
                    connection, match_terms, rows, estimate, condition, limit=limit, exact=wanted
                )
            except Exception:
                if not expired():
                    raise
                continue
        return found, kept != terms
    return {}, True


def remove(connection: Connection, rowid: int) -> None:
    """Take a row out of both tables with exactly the values it was indexed with."""
    old = connection.execute(
        "SELECT body, path, who, ident, in_trigram FROM fts_source WHERE record_rowid = ?",
        (rowid,),
    ).fetchone()
    if old is None:
        return
    connection.execute(
        "INSERT INTO memory_fts(memory_fts, rowid, body, path, who, ident)"
        " VALUES('delete', ?, ?, ?, ?, ?)",
        (rowid, *old[:4]),
    )
    if old[4]:
        connection.execute(
            "INSERT INTO memory_tri(memory_tri, rowid, body) VALUES('delete', ?, ?)",
            (rowid, old[0]),
        )
    connection.execute("DELETE FROM fts_source WHERE record_rowid = ?", (rowid,))


def insert(connection: Connection, rowid: int, fields: IndexFields) -> None:
    """Index a row that is in neither table."""
    connection.execute(
        "INSERT INTO fts_source(record_rowid, body, path, who, ident, in_trigram, text_rules)"
        " VALUES(?, ?, ?, ?, ?, ?, ?)",
        (
            rowid,
            fields.body,
            fields.path,
            fields.who,
            fields.ident,
            int(fields.in_trigram),
            TEXT_RULES_VERSION,
        ),
    )
    connection.execute(
        "INSERT INTO memory_fts(rowid, body, path, who, ident) VALUES(?, ?, ?, ?, ?)",
        (rowid, fields.body, fields.path, fields.who, fields.ident),
    )
    if fields.in_trigram:
        connection.execute("INSERT INTO memory_tri(rowid, body) VALUES(?, ?)", (rowid, fields.body))


@contextlib.contextmanager
def _time_limit(connection: Connection) -> Generator[_Expired]:
    deadline = _Expired(time.monotonic() + TIME_LIMIT_SECONDS)
    connection.set_progress_handler(deadline.check, _PROGRESS_INSTRUCTIONS)
    try:
        yield deadline
    finally:
        connection.set_progress_handler(None, 0)


class _Expired:
    def __init__(self, at: float) -> None:
        self._at = at
        self._fired = False

    def __call__(self) -> bool:
        return self._fired

    def check(self) -> int:
        self._fired = time.monotonic() >= self._at
        return int(self._fired)


@contextlib.contextmanager
def _damage_has_a_name() -> Generator[None]:
    from sqlcipher3.dbapi2 import DatabaseError, OperationalError

    try:
        yield
    except OperationalError:
        raise
    except (DatabaseError, MemoryError) as error:  # a torn block may name any size
        raise FullTextDamaged from error
