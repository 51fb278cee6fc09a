"""Index ready after unlock against a sequential read of the same bytes (recall.md, target 4)."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from figures import cpu_timed, percentile
from store_ratio import create
from vector_fill import fill_vectors
from vector_speed import AGENTS, DIM, SCOPES

from memory_manager.recall import embedding_models
from memory_manager.recall.live_vectors import LiveVectors
from memory_manager.recall.row_gate import RowGate

KEY = "bench/0000000000000000/int8/none/384"
NOW_MS = 1_800_000_000_000


def index_load_speed(folder: Path, rows: int, repeats: int = 3) -> dict[str, object]:
    connect = create(folder / "load.db", encrypted=True)
    connection = connect()
    bare_rows(connection, rows)
    fill_vectors(connection, KEY, DIM)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    reads, loads, facts = [], [], []
    for _ in range(repeats):  # interleaved, each on a connection with a cold page cache
        reads.append(_on_fresh(connect, _read_bytes))
        loads.append(_on_fresh(connect, _load))
        facts.append(_on_fresh(connect, _read_facts))
    read, load, gate = (percentile(x, 0.5) for x in (reads, loads, facts))
    return {
        "rows": rows,
        "sequential_read_s": read,
        "index_ready_s": load,
        "of_which_gate_facts_read_s": gate,
        "rows_per_s": rows / load,
        "target_4_share_of_read_rate": read / load,
    }


def bare_rows(connection: Any, rows: int) -> None:
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO record(rowid, id, version, status, bucket, scope, path, memory_type, agent_id,"
        " created_at_ms, updated_at_ms, dedupe_key, security_mode, encryption_state,"
        " retrieval_visibility, server_embeddings_enabled, server_content_search_enabled)"
        " VALUES(?, ?, 1, 'active', 'work', ?, ?, 'semantic', ?, ?, ?, ?, 'vault', 'ciphertext',"
        " 'client_local_only', 0, 0)",
        (
            (
                number,
                os.urandom(16),
                SCOPES[number % 3],
                f"projects/{number % 700}",
                AGENTS[number % 4],
                NOW_MS,
                NOW_MS,
                os.urandom(16),
            )
            for number in range(1, rows + 1)
        ),
    )
    connection.execute("COMMIT")


def _on_fresh(connect: Any, work: Any) -> float:
    connection = connect()
    try:
        connection.execute("SELECT count(*) FROM embedding_model").fetchone()
        return cpu_timed(lambda: work(connection))
    finally:
        connection.close()


def _read_bytes(connection: Any) -> None:
    for _ in connection.execute("SELECT keys, scales, codes FROM vector_segment"):
        pass


def _read_facts(connection: Any) -> None:
    connection.execute(
        "SELECT rowid, created_at_ms, updated_at_ms, expires_at_ms, bucket, scope, agent_id,"
        " memory_type, path FROM record WHERE status <> 'deleted' ORDER BY rowid"
    ).fetchall()


def _load(connection: Any) -> None:
    model = embedding_models.active_model(connection)
    assert model is not None
    live = LiveVectors(RowGate())
    live.expect(model.rowid)
    connection.execute("BEGIN")
    report = live.load(connection, model)
    connection.execute("COMMIT")
    assert report.clean
    index = live.index_of(model.rowid)
    assert index is not None
    assert index.vectors > 0


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        begun = time.perf_counter()
        print(index_load_speed(Path(name), 100_000), time.perf_counter() - begun)
