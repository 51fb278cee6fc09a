"""A look-up by id, key or path asks indexes only: it runs before every search."""

from __future__ import annotations

from typing import Any

from sqlcipher3 import dbapi2 as sqlcipher

from memory_manager.vault import queries
from memory_manager.vault.filters import RowFilter
from memory_manager.vault.migrations import migrate


class _Explaining:
    """Collects the plan of each statement instead of running it."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.steps: list[str] = []

    def execute(self, sql: str, parameters: Any = ()) -> list[Any]:
        plan = self._connection.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)
        self.steps += [step[3] for step in plan]
        return []


def test_find_exact_scans_no_table() -> None:
    connection = sqlcipher.connect(":memory:", isolation_level=None)
    try:
        migrate(connection)
        for text in ("what is this", "0192f0c1-7a4e-7abc-8def-0123456789ab"):
            for row_filter in (None, RowFilter(), RowFilter(bucket="work")):
                explaining = _Explaining(connection)
                queries.find_exact(explaining, text, row_filter, 1)  # type: ignore[arg-type]
                assert explaining.steps
                scanned = [step for step in explaining.steps if step.startswith("SCAN record")]
                assert scanned == []
    finally:
        connection.close()
