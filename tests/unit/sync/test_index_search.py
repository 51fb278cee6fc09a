"""Ranking opted-in rows: the gate first, words and meaning fused, filters exact."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_manager.base.path_filter import PathFilter
from memory_manager.security.envelope import (
    VAULT_DEFAULT,
    EncryptionState,
    RetrievalVisibility,
    SecurityEnvelope,
    SecurityMode,
)
from memory_manager.security.gate import Surface, may_recall
from memory_manager.sync.server.index.search import Query, rank, recallable
from memory_manager.sync.server.index.storage import Candidate
from memory_manager.sync.server.index.vectors import (
    meaning_scores,
    pack_pieces,
    pack_words,
    unpack_pieces,
    unpack_words,
    word_scores,
    word_set,
)
from memory_manager.sync.wire.index_document import OPTED_IN


def _row(number: int, text: str) -> Candidate:
    return Candidate(
        record=bytes((0x80, number)) + bytes(14),
        envelope=OPTED_IN,
        opted_in=True,
        bucket="work",
        scope=None,
        path=f"notes/{number}",
        memory_type="semantic",
        created_at_ms=number,
        updated_at_ms=100 - number,
        words=word_set(text),
    )


ROWS = [
    _row(1, "the staging database is falcon-stg"),
    _row(2, "deploys run on Thursdays"),
    _row(3, "the database of Köln is on port 5432"),
]


def _found(query: Query, rows: list[Candidate] | None = None) -> list[int]:
    return [hit.row.record[1] for hit in rank(query, rows or ROWS, None)[0]]


def test_rare_words_weigh_more_than_common_ones() -> None:
    assert _found(Query("staging database")) == [1, 3]
    assert _found(Query("KÖLN database")) == [3, 1]
    assert _found(Query("deploy")) == [2]
    assert _found(Query("!?")) == []


def test_lists_and_times_and_limits() -> None:
    assert _found(Query("*")) == [3, 2, 1]
    assert _found(Query("*", order_updated=True)) == [1, 2, 3]
    assert _found(Query("*", newest_first=False)) == [1, 2, 3]
    assert _found(Query("*", limit=2)) == [3, 2]
    assert _found(Query("*", since_ms=2, until_ms=3)) == [2]
    assert _found(Query("*", since_ms=98, filter_updated=True)) == [2, 1]
    assert _found(Query("*", path=PathFilter("notes/1"))) == [1]
    assert _found(Query("*", path=PathFilter("note", prefix_only=True))) == [3, 2, 1]
    assert _found(Query("*", path=PathFilter("note"))) == []
    assert _found(Query("staging", threshold=1.1)) == []
    hits, count = rank(Query("*", limit=1), ROWS, None)
    assert (len(hits), count) == (1, 3)


def test_the_order_in_which_rows_come_changes_nothing() -> None:
    rows = [_row(number, f"database {number}") for number in range(1, 9)]
    meanings = {row.record: 0.9 - row.record[1] / 50 for row in rows}
    there, back = (rank(Query("database"), each, meanings) for each in (rows, rows[::-1]))
    assert there == back


def test_meaning_and_words_are_fused() -> None:
    rows = [
        _row(1, "the automobile"),
        _row(2, "a car park"),
        _row(3, "lunch"),
        _row(4, "no vector yet, car"),
    ]
    meanings = dict(zip((row.record for row in rows), (1.0, 0.6, 0.0), strict=False))
    hits, _ = rank(Query("car"), rows, meanings)
    assert [hit.row.record[1] for hit in hits] == [2, 1, 4]
    assert all(0 < hit.score <= 1 for hit in hits)
    assert hits[1].similarity == pytest.approx(1.0)


def test_vectors_of_another_length_and_of_no_text_score_nothing() -> None:
    query = np.array([1.0, 0.0], np.float32)
    odd = [np.zeros((1, 1), np.float32), -np.eye(2, dtype=np.float32)]
    odd.append(np.zeros((0, 2), np.float32))
    assert meaning_scores(query, odd).tolist() == [0.0, 0.0, 0.0]
    best = np.array([[0.0, 1.0], [0.6, 0.8]], np.float32)
    assert meaning_scores(query, [*odd, best]).tolist() == pytest.approx([0, 0, 0, 0.6])


@given(st.lists(st.text(max_size=60), min_size=1, max_size=6), st.text(max_size=30))
def test_scores_are_shares_whatever_the_texts(texts: list[str], query: str) -> None:
    scores = word_scores(query, [word_set(text) for text in texts])
    assert len(scores) == len(texts)
    assert all(0 <= score <= 1.0001 for score in scores)
    for text in texts:
        packed = unpack_words(pack_words(word_set(text)))
        assert packed.tolist() == word_set(text).tolist() == sorted(set(packed.tolist()))


def test_pieces_survive_storage() -> None:
    pieces = np.array([[0.5, -0.5, 0.25], [1, 2, 3]], np.float32)
    assert unpack_pieces(pack_pieces(pieces), 3).tolist() == pieces.tolist()


def test_exactly_what_the_gate_allows_by_vectors_is_recallable() -> None:
    base = ROWS[0]
    envelopes = [
        SecurityEnvelope(mode, state, visibility, embeddings, search)
        for mode in SecurityMode
        for state in EncryptionState
        for visibility in RetrievalVisibility
        for embeddings in (True, False)
        for search in (True, False)
    ]
    for envelope in [*envelopes, VAULT_DEFAULT]:
        for opted_in in (True, False):
            row = dataclasses.replace(base, envelope=envelope, opted_in=opted_in)
            metadata = {"vault_semantic_index_opt_in": opted_in}
            allowed = may_recall(envelope, metadata, Surface.SERVER).vector
            assert (recallable([row]) == [row]) == allowed
    assert recallable([dataclasses.replace(base, opted_in=False)]) == []
