"""The vector leg against sqlite-vec and an exact scan, in the same run (recall.md, targets 1-3).

CPU time of one thread. Vectors are synthetic, of low inner dimension, so that neighbours exist as
they do in real text.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from figures import cpu_timed, median_seconds, percentile

from memory_manager.recall.vector_codes import quantise
from memory_manager.recall.vector_gate import NEVER_MS, GateColumns, Place, PlaceBook
from memory_manager.recall.vector_index import VectorIndex
from memory_manager.vault.connection import open_database
from memory_manager.vault.filters import RowFilter

DIM = 384
AGENTS = ("hermes", "codex-cli", "vscode", "openclaw")
SCOPES = ("team/a", "team/b", "team/c")
NOW_MS = 1_800_000_000_000
TOP = 10
KEY, SALT = bytes(range(32)), bytes(range(16))
Matrix = npt.NDArray[np.float32]


def synthetic_vectors(rows: int, seed: int = 11, latent: int = 64) -> Matrix:
    """Unit vectors of low inner dimension with a little noise: real embeddings are not round."""
    rng = np.random.default_rng(seed)
    spread = (np.arange(1, latent + 1) ** -0.5).astype(np.float32)
    basis = np.linalg.qr(rng.standard_normal((DIM, latent)))[0].T.astype(np.float32)
    topics = rng.standard_normal((600, latent)).astype(np.float32)
    inner = topics[rng.integers(0, len(topics), rows)]
    inner = (inner + rng.standard_normal((rows, latent)).astype(np.float32)) * spread
    vectors = inner @ basis
    vectors += 0.02 * rng.standard_normal((rows, DIM)).astype(np.float32)
    vectors -= vectors.mean(axis=0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors


def build_index(vectors: Matrix) -> VectorIndex:
    book = PlaceBook()
    index = VectorIndex(DIM, book)
    numbers = np.array(
        [book.number(Place("work", s, a, "semantic")) for a in AGENTS for s in SCOPES],
        dtype=np.uint32,
    )
    step = 65_536
    for start in range(0, len(vectors), step):
        part = vectors[start : start + step]
        scales, codes = quantise(part, DIM)
        rowids = np.arange(start + 1, start + len(part) + 1, dtype=np.int64)
        gate = GateColumns(
            numbers[(rowids - 1) % len(numbers)],
            np.zeros(len(part), np.uint32),
            np.full(len(part), NOW_MS - 1000, np.int64),
            np.full(len(part), NOW_MS - 1000, np.int64),
            np.full(len(part), NEVER_MS, np.int64),
            np.ones(len(part), np.bool_),
        )
        index.extend(rowids, scales, codes, gate)
    return index


def exact(vectors: Matrix, query: Matrix, allowed: npt.NDArray[np.bool_] | None) -> list[int]:
    scores = vectors @ query
    if allowed is not None:
        scores = np.where(allowed, scores, -2.0)
    return [int(i) + 1 for i in np.argsort(-scores, kind="stable")[:TOP]]


def vector_speed(folder: Path, rows: int, queries: int = 40) -> dict[str, object]:
    everything = synthetic_vectors(rows + queries)
    vectors, asked = everything[:rows], everything[rows:]
    index = build_index(vectors)
    wanted = RowFilter(agent_id=AGENTS[1], scope=SCOPES[2])
    place = np.arange(rows) % (len(AGENTS) * len(SCOPES))
    allowed = place == 1 * len(SCOPES) + 2

    report: dict[str, object] = {"rows": rows, "filter_passes": float(allowed.mean())}
    ours = _measure(lambda q: index.search(q, wanted, NOW_MS, 100), asked)
    open_search = _measure(lambda q: index.search(q, RowFilter(), NOW_MS, 100), asked)
    report["ours_filtered_ms"], report["ours_open_ms"] = ours * 1000, open_search * 1000
    report["recall_at_10_filtered"] = _recall(index, vectors, asked, wanted, allowed)
    report["recall_at_10_open"] = _recall(index, vectors, asked, RowFilter(), None)

    scan = _measure(lambda q: vectors @ q, asked)
    bandwidth = vectors.nbytes / median_seconds(lambda: vectors.sum(), 5)
    report["exact_float32_scan_ms"] = scan * 1000
    report["memory_gb_per_s"] = bandwidth / 1e9
    report["target_3_ours_over_exact_scan"] = open_search / scan

    baseline = _sqlite_vec(folder, vectors, asked[:12])
    if baseline is None:
        report["sqlite_vec"] = "not installed: targets 1 and 2 are not measured"
    else:
        report["sqlite_vec_default_cache_ms"] = baseline["default"] * 1000
        report["sqlite_vec_cached_ms"] = baseline["cached"] * 1000
        report["target_1_times_faster"] = baseline["default"] / ours
        report["target_2_times_faster"] = baseline["cached"] / ours
    return report


def _measure(search: Callable[[Matrix], object], asked: Matrix) -> float:
    for query in asked[:3]:
        search(query)
    return percentile([cpu_timed(lambda q=query: search(q)) for query in asked], 0.5)


def _recall(
    index: VectorIndex,
    vectors: Matrix,
    asked: Matrix,
    wanted: RowFilter,
    allowed: npt.NDArray[np.bool_] | None,
) -> float:
    found = 0
    for query in asked:
        truth = set(exact(vectors, query, allowed))
        found += len(truth & set(index.search(query, wanted, NOW_MS, TOP).rowids.tolist()))
    return found / (TOP * len(asked))


def _sqlite_vec(folder: Path, vectors: Matrix, asked: Matrix) -> dict[str, float] | None:
    if importlib.util.find_spec("sqlite_vec") is None:
        return None
    path = folder / "sqlite-vec.db"
    connection = with_extension(path, None, create=True)
    connection.execute(
        f"CREATE VIRTUAL TABLE vec USING vec0(embedding float[{DIM}] distance_metric=cosine,"
        " agent TEXT, scope TEXT, visible INTEGER)"
    )
    places = [(a, s) for a in AGENTS for s in SCOPES]
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO vec(rowid, embedding, agent, scope, visible) VALUES(?, ?, ?, ?, 1)",
        (
            (number + 1, row.tobytes(), *places[number % len(places)])
            for number, row in enumerate(vectors)
        ),
    )
    connection.execute("COMMIT")
    connection.close()
    figures = {}
    for name, cache in (("default", None), ("cached", 400_000)):
        connection = with_extension(path, cache)

        def search(query: Matrix, connection: Any = connection) -> object:
            return connection.execute(
                "SELECT rowid, distance FROM vec WHERE embedding MATCH ? AND k = 50"
                " AND agent = ? AND scope = ? AND visible = 1",
                (query.tobytes(), AGENTS[1], SCOPES[2]),
            ).fetchall()

        figures[name] = _measure(search, asked)
        connection.close()
    path.unlink()
    return figures


def with_extension(path: Path, cache_kib: int | None, create: bool = False) -> Any:
    import sqlite_vec

    connection = open_database(path, KEY, SALT, create=create, maintenance=True)
    # SQLite's own default is 2 000 KiB
    connection.execute(f"PRAGMA cache_size=-{cache_kib or 2_000}")
    connection.enable_load_extension(True)
    sqlite_vec.load(connection)
    connection.enable_load_extension(False)
    return connection
