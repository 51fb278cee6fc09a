"""The in-memory vector index: agreement with exact search, filters, incremental upkeep (recall.md
6; R20-R22).
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from word_table import MOMENT_MS, WordTable, memory_row

from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.base.path_filter import PathFilter
from memory_manager.recall.errors import VectorRefused
from memory_manager.recall.vector_codes import quantise
from memory_manager.recall.vector_gate import (
    NEVER_MS,
    GateColumns,
    Place,
    PlaceBook,
    facts_of_row,
)
from memory_manager.recall.vector_index import Nearest, VectorIndex
from memory_manager.vault.filters import RowFilter, TimeAxis
from memory_manager.vault.rows import Attribution, MemoryType

DIM = 64


def clustered(count: int, dim: int, seed: int) -> np.ndarray:
    """Unit vectors around a few hundred centres, as texts are."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((300, dim), np.float32)
    vectors = rng.standard_normal((count, dim), np.float32)
    vectors *= 0.9
    vectors += centres[rng.integers(0, 300, count)]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def filled(
    vectors: np.ndarray, places: np.ndarray | None = None, rescore: int | None = None
) -> VectorIndex:
    index = VectorIndex(vectors.shape[1], PlaceBook(), rescore)
    count = len(vectors)
    for number in range(10):
        index.book.number(Place(f"bucket{number}", None, None, "semantic"))
    gate = GateColumns.empty(count)
    gate.alive[:] = True
    gate.expires[:] = NEVER_MS
    if places is not None:
        gate.place[:] = places
    scales, codes = quantise(vectors, vectors.shape[1])
    index.extend(np.arange(1, count + 1), scales, codes, gate)
    index.settle()
    return index


def test_ten_nearest_agree_with_exact_search() -> None:
    vectors = clustered(52_000, 384, 1)
    rng = np.random.default_rng(2)
    places = rng.integers(0, 10, len(vectors))
    index = filled(vectors, places)
    shares = {"all": [], "tenth": []}
    for _ in range(8):
        query = vectors[rng.integers(len(vectors))] + 0.4 / 19.6 * rng.standard_normal(384)
        query = (query / np.linalg.norm(query)).astype(np.float32)
        exact = vectors @ query
        for name, chosen, visible in (
            ("all", RowFilter(), np.ones(len(vectors), bool)),
            ("tenth", RowFilter(bucket="bucket3"), places == 3),
        ):
            truth = np.argsort(-np.where(visible, exact, -9))[:10] + 1
            found = index.search(query, chosen, 0, 100).rowids[:10]
            shares[name].append(len(set(truth) & set(found)) / 10)
    assert np.mean(shares["all"]) >= 0.98
    assert np.mean(shares["tenth"]) >= 0.98


def test_vectors_that_lean_to_one_side_are_still_told_apart() -> None:
    """One writer, one kind of text: every vector has much in common, so signs around zero agree."""
    rng = np.random.default_rng(12)
    vectors = clustered(12_000, DIM, 12) + 1.2 * clustered(1, DIM, 13)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    grown = VectorIndex(DIM, PlaceBook(), rescore=200)
    scales, codes = quantise(vectors, DIM)
    gate = GateColumns.empty(100)
    gate.alive[:], gate.expires[:] = True, NEVER_MS
    for start in range(0, len(vectors), 100):
        part = slice(start, start + 100)
        grown.extend(np.arange(start + 1, start + 101), scales[part], codes[part], gate)
    for index in (filled(vectors, rescore=200), grown):
        shares = []
        for query in vectors[rng.integers(0, len(vectors), 20)]:
            truth = np.argsort(-(vectors @ query))[:10] + 1
            found = index.search(query, RowFilter(), 0, 100).rowids[:10]
            shares.append(len(set(truth) & set(found)) / 10)
        assert np.mean(shares) >= 0.9


@pytest.mark.parametrize("share", [0.01, 0.03, 0.5, 1.0])
def test_a_hidden_row_with_the_best_vector_changes_nothing(share: float) -> None:
    vectors = clustered(4_000, DIM, 3)
    rng = np.random.default_rng(4)
    places = np.where(rng.random(len(vectors)) < share, 3, 4)
    query = vectors[7]
    places[7] = 4 if share < 1 else 3
    index = filled(vectors, places)
    seen = index.search(query, RowFilter(bucket="bucket3"), 0, 50)
    if share < 1:
        without = np.delete(np.arange(len(vectors)), 7)
        alone = filled(vectors[without], places[without])
        expected = alone.search(query, RowFilter(bucket="bucket3"), 0, 50)
        rowids = [rowid + 1 if rowid > 7 else rowid for rowid in expected.rowids.tolist()]
        assert seen.rowids.tolist() == rowids
        assert seen.cosines.tolist() == pytest.approx(expected.cosines.tolist(), abs=1e-5)
        assert seen.mean == pytest.approx(expected.mean, abs=1e-5)
        assert seen.deviation == pytest.approx(expected.deviation, abs=1e-5)
    else:
        assert seen.rowids[0] == 8


def test_three_hundred_agents_are_told_apart() -> None:
    vectors = clustered(600, DIM, 5)
    index = VectorIndex(DIM, PlaceBook())
    scales, codes = quantise(vectors, DIM)
    for number in range(600):
        row = memory_row(
            number + 1, "x", writer=Attribution(AgentIdentity(f"agent{number % 300}", None))
        )
        index.put(
            row.rowid,
            scales[number : number + 1],
            codes[number : number + 1],
            facts_of_row(row, index.book),
        )
    for agent in (0, 254, 255, 256, 299):
        found = index.search(vectors[0], RowFilter(agent_id=f"agent{agent}"), MOMENT_MS, 10)
        assert set(found.rowids.tolist()) == {agent + 1, agent + 301}


FILTERS = st.builds(
    RowFilter,
    bucket=st.sampled_from([None, "public", "work"]),
    scope=st.sampled_from([None, "a", "b"]),
    memory_type=st.sampled_from([None, MemoryType.WORKING, MemoryType.SEMANTIC]),
    path=st.sampled_from(
        [
            None,
            PathFilter("p"),
            PathFilter("p/q"),
            PathFilter("p", prefix_only=True),
            PathFilter("pä"),
        ]
    ),
    agent_id=st.sampled_from([None, "codex", "hermes"]),
    since_ms=st.sampled_from([None, MOMENT_MS, MOMENT_MS + 5]),
    until_ms=st.sampled_from([None, MOMENT_MS + 4, MOMENT_MS + 9]),
    time_axis=st.sampled_from(list(TimeAxis)),
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "bucket": st.sampled_from(["public", "work"]),
            "scope": st.sampled_from([None, "a", "b"]),
            "memory_type": st.sampled_from([MemoryType.WORKING, MemoryType.SEMANTIC]),
            "path": st.sampled_from(["p", "p/q", "pq", "p/qr", "pä/x", "q"]),
            "writer": st.sampled_from(
                [Attribution(AgentIdentity(name, None)) for name in ("codex", "hermes", None)]
            ),
            "expires_at_ms": st.sampled_from([None, MOMENT_MS, MOMENT_MS + 50]),
            "created_at_ms": st.integers(MOMENT_MS, MOMENT_MS + 10),
        }
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=40, deadline=None)
@given(ROWS, st.lists(FILTERS, min_size=1, max_size=6))
def test_the_mask_in_memory_is_the_condition_in_sql(
    rows: list[dict[str, object]], filters: list[RowFilter]
) -> None:
    table = WordTable()
    try:
        stored = [table.store("text", **row)[0] for row in rows]
        index = VectorIndex(DIM, PlaceBook())
        scales, codes = quantise(clustered(len(stored), DIM, 6), DIM)
        for place, row in enumerate(stored):
            one = slice(place, place + 1)
            index.put(row.rowid, scales[one], codes[one], facts_of_row(row, index.book))
        query = clustered(1, DIM, 7)[0]
        now = MOMENT_MS + 20
        for chosen in filters:
            sql, values = chosen.condition(now)
            allowed = table.connection.execute(f"SELECT rowid FROM record WHERE {sql}", values)
            found = index.search(query, chosen, now, 100).rowids.tolist()
            assert sorted(found) == sorted(rowid for (rowid,) in allowed)
    finally:
        table.close()


def test_many_paths_make_few_places_and_new_ones_are_admitted_later() -> None:
    book = PlaceBook()
    rows = [memory_row(n, "x", path=f"p/{n}") for n in range(1, 200)]
    facts = [facts_of_row(row, book) for row in rows]
    assert {fact.place for fact in facts} == {0}
    below = RowFilter(path=PathFilter("p/1", prefix_only=True))
    first = book.admitted(below).paths
    assert first is not None
    assert int(first.sum()) == sum(row.path.startswith("p/1") for row in rows)
    late = facts_of_row(memory_row(200, "x", path="p/1/late"), book)
    assert len(first) == late.path  # what a running search holds does not change
    again = book.admitted(below).paths
    assert again is not None
    assert again[late.path]


def by_rowid(found: Nearest) -> dict[int, float]:
    return dict(zip(found.rowids.tolist(), found.cosines.tolist(), strict=True))


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "drop", "move"]), st.integers(1, 12), st.integers(0, 40)),
    max_size=60,
)


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_an_index_kept_up_equals_one_built_anew(steps: list[tuple[str, int, int]]) -> None:
    vectors = clustered(60, DIM, 8)
    scales, codes = quantise(vectors, DIM)
    index = VectorIndex(DIM, PlaceBook())
    expected: dict[int, tuple[int, int, str]] = {}
    for action, rowid, which in steps:
        pieces = 1 + which % 3
        bucket = "work" if which % 2 else "public"
        row = memory_row(rowid, "x", bucket=bucket)
        if action == "put":
            part = slice(which, which + pieces)
            index.put(rowid, scales[part], codes[part], facts_of_row(row, index.book))
            expected[rowid] = (which, pieces, bucket)
        elif action == "drop":
            index.drop(rowid)
            expected.pop(rowid, None)
        elif rowid in expected:
            index.move(rowid, facts_of_row(row, index.book))
            expected[rowid] = (*expected[rowid][:2], bucket)
    rebuilt = VectorIndex(DIM, PlaceBook())
    for rowid, (which, pieces, bucket) in sorted(expected.items()):
        part = slice(which, which + pieces)
        row = memory_row(rowid, "x", bucket=bucket)
        rebuilt.put(rowid, scales[part], codes[part], facts_of_row(row, rebuilt.book))
    assert index.rows == rebuilt.rows == len(expected)
    assert index.vectors == rebuilt.vectors
    query = vectors[0]
    for chosen in (RowFilter(), RowFilter(bucket="work")):
        one, other = (i.search(query, chosen, MOMENT_MS, 50) for i in (index, rebuilt))
        assert by_rowid(one) == pytest.approx(by_rowid(other), abs=1e-5)
    kept, anew = (i.cosines_of(query, expected.keys()) for i in (index, rebuilt))
    assert dict(kept) == pytest.approx(dict(anew), abs=1e-5)


def test_a_row_counts_by_its_best_piece() -> None:
    vectors = clustered(5, DIM, 9)
    index = VectorIndex(DIM, PlaceBook())
    scales, codes = quantise(vectors, DIM)
    facts = facts_of_row(memory_row(1, "x"), index.book)
    index.put(1, scales[:4], codes[:4], facts)
    index.put(2, scales[4:], codes[4:], facts)
    found = index.search(vectors[2], RowFilter(), MOMENT_MS, 10)
    assert found.rowids.tolist()[0] == 1
    assert len(found.rowids) == 2
    assert found.cosines[0] > 0.99


def test_wiping_overwrites_every_array() -> None:
    index = filled(clustered(100, DIM, 10))
    held = [block for block in index._blocks]
    assert held[0].codes.any()
    index.wipe()
    for block in held:
        for array in (block.codes, *block.signs, block.scales, block.rowids, block.gate.place):
            assert not array.any()
    assert index.slots == 0
    assert index.search(clustered(1, DIM, 1)[0], RowFilter(), 0, 10).rowids.tolist() == []


@pytest.mark.parametrize(
    "vector",
    [
        np.full(DIM, np.nan),
        np.zeros(DIM),
        np.full(DIM, np.inf),
        np.ones(DIM),
        np.eye(DIM)[0][:-1],
    ],
)
def test_unusable_vectors_are_refused(vector: np.ndarray) -> None:
    with pytest.raises(VectorRefused):
        quantise(vector[None, :], DIM)


def test_an_index_grows_over_a_block_border_without_losing_rows() -> None:
    vectors = clustered(70_000, DIM, 11)
    index = filled(vectors)
    assert index.rows == 70_000
    for rowid in (1, 65_536, 65_537, 70_000):
        found = index.search(vectors[rowid - 1], RowFilter(), 0, 3)
        assert found.rowids[0] == rowid
        index.drop(rowid)
        again = index.search(vectors[rowid - 1], RowFilter(), 0, 3)
        assert rowid not in again.rowids.tolist()
    assert index.rows == 69_996
    assert dataclasses.is_dataclass(found)
