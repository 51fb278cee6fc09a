"""How many records there are, by kind, bucket, type or agent: under the gate like every list."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from memory_manager.vault.filters import RowFilter

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection


class CountBy(enum.StrEnum):
    """Columns of a record that numbers are given for."""

    KIND = "kind"
    BUCKET = "bucket"
    SCOPE = "scope"
    MEMORY_TYPE = "memory_type"
    AGENT = "agent_id"


def count_by(
    connection: Connection, column: CountBy, row_filter: RowFilter, now_ms: int, *, limit: int = 50
) -> dict[str, int]:
    """Numbers of the rows that pass, the largest first, at most ``limit`` groups; rows without a
    value count under "".
    """
    condition, parameters = row_filter.condition(now_ms, "r")
    rows = connection.execute(
        f"SELECT ifnull(r.{column.value}, ''), count(*) AS n FROM record r WHERE {condition}"
        " GROUP BY 1 ORDER BY n DESC, 1 LIMIT ?",
        [*parameters, limit],
    )
    return {str(name): int(number) for name, number in rows}
