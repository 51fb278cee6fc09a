"""What an agent asked to destroy and the owner has not confirmed yet (xmemo.md 6.5)."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from memory_manager.vault import queries

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.rows import MemoryRow

SHOWN: Final = 200


@dataclasses.dataclass(frozen=True, slots=True)
class Waiting:
    """A deleted memory, out of recall already, whose bytes still exist."""

    row: MemoryRow
    requested_at_ms: int


def waiting_for_destruction(connection: Connection, *, limit: int = SHOWN) -> list[Waiting]:
    """The oldest requests first."""
    asked = connection.execute(
        "SELECT rowid, destruction_requested_at_ms FROM record WHERE status = 'deleted'"
        " AND destruction_requested_at_ms IS NOT NULL"
        " ORDER BY destruction_requested_at_ms LIMIT ?",
        [limit],
    ).fetchall()
    rows = ((queries.row_by_rowid(connection, rowid), at_ms) for rowid, at_ms in asked)
    return [Waiting(row, at_ms) for row, at_ms in rows if row is not None]
