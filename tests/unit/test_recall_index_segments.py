"""Vectors on disk: tail to segment, forgetting in place, repacking, damage (recall.md 6.1; R21,
R23, R24).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sqlcipher3 import dbapi2

from memory_manager.recall import vector_segments as segments
from memory_manager.recall.vector_codes import quantise
from memory_manager.recall.vector_gate import GateColumns, PlaceBook
from memory_manager.recall.vector_index import VectorIndex
from memory_manager.vault.migrations import migrate

DIM = 16
MODEL = 1


@pytest.fixture
def connection() -> Iterator[Any]:
    opened = dbapi2.connect(":memory:", isolation_level=None)
    migrate(opened)
    opened.execute(
        "INSERT INTO embedding_model(model_rowid, model_key, dim, state, created_at)"
        " VALUES(1, 'k', ?, 'active', 0)",
        (DIM,),
    )
    yield opened
    opened.close()


def codes_for(rowid: int, pieces: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rowid)
    vectors = rng.standard_normal((pieces, DIM))
    return quantise(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), DIM)


def stored(connection: Any) -> dict[tuple[int, int], bytes]:
    found: dict[tuple[int, int], bytes] = {}
    damaged: list[int] = []
    for part in segments.read_all(connection, MODEL, DIM, damaged):
        for rowid, piece, code in zip(part.rowids, part.pieces, part.codes, strict=True):
            assert (int(rowid), int(piece)) not in found
            found[int(rowid), int(piece)] = code.tobytes()
    assert damaged == []
    return found


def fill(connection: Any, rowids: range) -> None:
    for rowid in rowids:
        segments.add(connection, MODEL, rowid, *codes_for(rowid))


def test_random_adds_updates_deletes_and_repacks_keep_exactly_the_living(connection: Any) -> None:
    rng = random.Random(7)
    expected: dict[tuple[int, int], bytes] = {}
    for _ in range(200):
        rowid = rng.randint(1, 40)
        for key in [key for key in expected if key[0] == rowid]:
            del expected[key]
        if rng.random() < 0.3:
            segments.remove(connection, rowid)
        else:
            scales, codes = codes_for(rng.randint(1, 10**6), rng.randint(1, 3))
            segments.add(connection, MODEL, rowid, scales, codes)
            expected.update({(rowid, n): code.tobytes() for n, code in enumerate(codes)})
        if rng.random() < 0.1:
            segments.pack_tail(connection, MODEL, DIM, least=1)
        if rng.random() < 0.1:
            segments.repack_one(connection, MODEL, DIM)
        assert stored(connection) == expected


def test_forgetting_leaves_neither_code_nor_key(connection: Any) -> None:
    fill(connection, range(1, 30))
    segments.pack_tail(connection, MODEL, DIM, least=1)
    scales, codes = codes_for(17)
    raw = connection.execute("SELECT keys, scales, codes FROM vector_segment").fetchone()
    assert codes[0].tobytes() in raw[2]
    assert segments.remove(connection, 17)
    keys, kept_scales, kept_codes = connection.execute(
        "SELECT keys, scales, codes FROM vector_segment"
    ).fetchone()
    assert codes[0].tobytes() not in kept_codes
    assert scales.tobytes() not in kept_scales
    assert 17 not in np.frombuffer(keys, segments.KEY)["rowid"].tolist()
    assert connection.execute(
        "SELECT count(*) FROM vector_slot WHERE record_rowid = 17"
    ).fetchone() == (0,)
    assert len(stored(connection)) == 28
    assert not segments.remove(connection, 17)


def test_the_tail_moves_when_it_is_full_and_not_before(connection: Any) -> None:
    fill(connection, range(1, 20))
    assert segments.pack_tail(connection, MODEL, DIM) == 0
    assert segments.pack_tail(connection, MODEL, DIM, least=19) == 19
    assert connection.execute("SELECT count(*) FROM vector_tail").fetchone() == (0,)
    assert len(stored(connection)) == 19


def test_a_mostly_dead_segment_is_written_anew(connection: Any) -> None:
    fill(connection, range(1, 21))
    segments.pack_tail(connection, MODEL, DIM, least=1)
    for rowid in range(1, 6):
        segments.remove(connection, rowid)
    assert not segments.repack_one(connection, MODEL, DIM)
    segments.remove(connection, 6)
    assert segments.repack_one(connection, MODEL, DIM)
    assert connection.execute("SELECT n, dead FROM vector_segment").fetchall() == [(14, 0)]
    segments.remove(connection, 20)
    assert set(stored(connection)) == {(rowid, 0) for rowid in range(7, 20)}


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE vector_segment SET n = n - 1",
        "UPDATE vector_segment SET codes = substr(codes, 1, length(codes) - 5)",
        "UPDATE vector_segment SET keys = substr(keys, 1, 12) || keys",
        "UPDATE vector_segment SET keys = zeroblob(length(keys))",
        "UPDATE vector_segment SET dead = 3",
        "UPDATE vector_segment SET scales = zeroblob(0)",
    ],
)
def test_a_segment_whose_parts_do_not_fit_is_reported(connection: Any, damage: str) -> None:
    fill(connection, range(1, 10))
    segments.pack_tail(connection, MODEL, DIM, least=1)
    fill(connection, range(10, 12))
    connection.execute(damage)
    damaged: list[int] = []
    parts = list(segments.read_all(connection, MODEL, DIM, damaged))
    assert damaged == [1]
    assert [part.rowids.tolist() for part in parts] == [[10, 11]]


@pytest.mark.parametrize(
    ("keys", "twice"),
    [([], []), ([1, 2, 9], []), ([9, 1, 2], []), ([1, 1, 2], [1]), ([5, 2, 9, 2, 5, 2], [2, 5])],
    ids=["none", "rising", "any-order", "neighbours", "apart"],
)
def test_repeated_keys_are_found_in_any_order(keys: list[int], twice: list[int]) -> None:
    assert segments.repeated(np.array(keys, np.int64)).tolist() == twice


def test_a_segment_that_names_a_vector_twice_is_reported(connection: Any) -> None:
    fill(connection, range(1, 4))
    segments.pack_tail(connection, MODEL, DIM, least=1)
    (raw,) = connection.execute("SELECT keys FROM vector_segment").fetchone()
    keys = np.frombuffer(raw, segments.KEY).copy()
    keys[2] = keys[0]
    connection.execute("UPDATE vector_segment SET keys = ?", (keys.tobytes(),))
    assert segments.read_segment(connection, 1, DIM) is None


def test_rows_are_counted_once_whatever_the_number_and_order_of_their_pieces() -> None:
    index = VectorIndex(DIM, PlaceBook())
    rowids = np.array([7, 3, 7, 5, 3], np.int64)
    scales, codes = codes_for(1, pieces=5)
    index.append_loaded(rowids, scales, codes)
    assert (index.vectors, index.rows) == (0, 0)  # nothing is visible before the gate has spoken
    gate = GateColumns.empty(5)
    gate.alive[:] = rowids != 5
    index.settle(lambda asked: gate if asked.tolist() == rowids.tolist() else GateColumns.empty(0))
    assert (index.vectors, index.rows) == (4, 2)
