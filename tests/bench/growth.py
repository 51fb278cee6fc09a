"""Index of meaning at 200 000 and 1 000 000 rows against the growth table (recall.md 6.2, R26).

    python tests/bench/growth.py [--rows 200000 1000000]

Memory and disk must stay within the table times 1.5; the times, CPU of one thread, are printed
beside what the table says and depend on the machine.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from figures import cpu_timed, machine, percentile, show  # noqa: E402
from index_load import KEY, NOW_MS, bare_rows  # noqa: E402
from store_ratio import create  # noqa: E402
from vector_fill import fill_vectors  # noqa: E402
from vector_speed import AGENTS, DIM, SCOPES, synthetic_vectors  # noqa: E402

from memory_manager.base.path_filter import parse_path_filter  # noqa: E402
from memory_manager.recall import embedding_models  # noqa: E402
from memory_manager.recall.live_vectors import LiveVectors  # noqa: E402
from memory_manager.recall.row_gate import RowGate  # noqa: E402
from memory_manager.vault.filters import RowFilter  # noqa: E402

MEMORY_BYTES_PER_ROW, DISK_BYTES_PER_ROW = 448, 402
READY_SECONDS_PER_ROW, QUERY_MS_PER_1000_ROWS = 1.3e-6, 0.012
MARGIN = 1.5
BLOCK_ROWS = 65_536
TOP, QUERIES = 100, 20
FILTERS = {
    "open": RowFilter(),
    "one agent, one scope": RowFilter(agent_id=AGENTS[0], scope=SCOPES[0]),
    "a folder": RowFilter(path=parse_path_filter("projects/7")),
}


def growth(folder: Path, rows: int) -> dict[str, object]:
    path = folder / f"growth-{rows}.db"
    connect = create(path, encrypted=True)
    connection = connect()
    bare_rows(connection, rows)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = path.stat().st_size
    fill_vectors(connection, KEY, DIM)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    disk = path.stat().st_size - before
    connection.close()
    fresh = connect()
    live = LiveVectors(RowGate())
    ready = cpu_timed(lambda: _load(fresh, live))
    fresh.close()
    index = live.index_of(1)
    assert index is not None
    assert index.vectors == rows
    questions = synthetic_vectors(QUERIES, seed=99)
    queries: dict[str, object] = {}
    for name, row_filter in FILTERS.items():
        found = index.search(questions[0], row_filter, NOW_MS + 1, TOP)
        assert len(found.rowids) == TOP or (name == "a folder" and len(found.rowids)), name
        spent = [
            cpu_timed(lambda q=q, f=row_filter: index.search(q, f, NOW_MS + 1, TOP))
            for q in questions
        ]
        queries[name] = round(1000 * percentile(spent, 0.5), 2)
    report: dict[str, object] = {
        "memory_mb": round(index.allocated_bytes / 1e6, 1),
        "memory_of_table": round(index.allocated_bytes / rows / MEMORY_BYTES_PER_ROW, 2),
        "disk_mb": round(disk / 1e6, 1),
        "disk_of_table": round(disk / rows / DISK_BYTES_PER_ROW, 2),
        "ready_s": round(ready, 2),
        "ready_of_table": round(ready / rows / READY_SECONDS_PER_ROW, 2),
        "query_p50_ms": queries,
        "table_query_ms": round(QUERY_MS_PER_1000_ROWS * rows / 1000, 1),
    }
    in_blocks = -(-rows // BLOCK_ROWS) * BLOCK_ROWS  # memory comes in whole blocks
    assert index.allocated_bytes <= MARGIN * MEMORY_BYTES_PER_ROW * in_blocks, report
    assert disk <= MARGIN * DISK_BYTES_PER_ROW * rows, report
    return report


def _load(connection: Any, live: LiveVectors) -> None:
    model = embedding_models.active_model(connection)
    assert model is not None
    live.expect(model.rowid)
    connection.execute("BEGIN")
    assert live.load(connection, model).clean
    connection.execute("COMMIT")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[200_000, 1_000_000])
    parser.add_argument("--folder", type=Path, help="where to put the databases")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    report: dict[str, object] = {"machine": machine()}
    with tempfile.TemporaryDirectory(prefix="memlocket-growth-", dir=options.folder) as name:
        for rows in options.rows:
            report[f"{rows} rows"] = growth(Path(name), rows)
    print(show(report, options.json))
    return 0


if __name__ == "__main__":
    sys.exit(main())
