"""Reads of memories and their versions. Synchronous; runs on a reader's or the writer's connection.

Nothing here filters by itself except where it says so: recall joins ``RowFilter.condition``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from memory_manager.base.identifiers import MemoryId, memory_id_from_bytes
from memory_manager.vault.filters import RowFilter
from memory_manager.vault.row_codec import (
    MAX_VERSION,
    ROW_COLUMNS,
    ROW_TABLES,
    VERSION_COLUMNS,
    decode_row,
    decode_version,
    parse_memory_id,
    version_slot,
)
from memory_manager.vault.rows import MemoryRow, MemoryVersion, RecordKind
from memory_manager.vault.second_pass import under_present_rules

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

_ROWIDS_PER_STATEMENT = 500
_ID_BYTES = 16


def get_row(
    connection: Connection, memory_id: str, *, include_deleted: bool = False
) -> MemoryRow | None:
    """One row by its id, whatever the gate says; None when unknown, destroyed or (unless
    ``include_deleted``) soft-deleted. Any text is accepted as an id.
    """
    raw = parse_memory_id(memory_id)
    if raw is None:
        return None
    live = "" if include_deleted else " AND r.status <> 'deleted'"
    return _one_row(connection, f"r.id = ?{live}", [raw])


def ids_with_prefix(connection: Connection, digits: str, *, limit: int = 2) -> list[MemoryId]:
    """Ids of records of every kind, forgotten ones too, that begin with these hex digits."""
    lowest, highest = (bytes.fromhex(digits.ljust(2 * _ID_BYTES, end)) for end in "0f")
    rows = connection.execute(
        "SELECT id FROM record WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?",
        (lowest, highest, limit),
    )
    return [memory_id_from_bytes(raw) for (raw,) in rows]


def row_by_rowid(connection: Connection, rowid: int) -> MemoryRow | None:
    """One row by its rowid, deleted ones too."""
    return _one_row(connection, "r.rowid = ?", [rowid])


def stored_row(connection: Connection, rowid: int) -> MemoryRow | None:
    """One row as it lies in the database, deleted ones too: only for what cleans it."""
    columns = connection.execute(
        f"SELECT {ROW_COLUMNS} FROM {ROW_TABLES} WHERE r.rowid = ?", [rowid]
    ).fetchone()
    return None if columns is None else decode_row(columns)


def stored_version_after(
    connection: Connection, rowid: int, number: int
) -> tuple[MemoryVersion, tuple[str, ...]] | None:
    """The next version of a row as it lies in the database, with the ids of the rules that fired
    when it was written: only for what cleans it.
    """
    found = connection.execute(
        f"SELECT r.kind, v.redactions, {VERSION_COLUMNS} FROM record r"
        " JOIN record_version v ON v.slot BETWEEN ? AND ? WHERE r.rowid = ?"
        " ORDER BY v.slot LIMIT 1",
        [version_slot(rowid, number + 1), version_slot(rowid, MAX_VERSION), rowid],
    ).fetchone()
    if found is None:
        return None
    kind, rules, *columns = found
    return decode_version(columns, RecordKind(kind)), tuple(json.loads(rules))


def rows_by_rowid(connection: Connection, rowids: Iterable[int]) -> dict[int, MemoryRow]:
    """Rows that are not deleted, keyed by rowid; unknown rowids are left out."""
    wanted = list(rowids)
    found: dict[int, MemoryRow] = {}
    for start in range(0, len(wanted), _ROWIDS_PER_STATEMENT):
        part = wanted[start : start + _ROWIDS_PER_STATEMENT]
        marks = ",".join("?" * len(part))
        for columns in connection.execute(
            f"SELECT {ROW_COLUMNS} FROM {ROW_TABLES}"
            f" WHERE r.rowid IN ({marks}) AND r.status <> 'deleted'",
            part,
        ):
            row = _row(columns)
            found[row.rowid] = row
    return found


def list_rows(
    connection: Connection,
    row_filter: RowFilter,
    now_ms: int,
    *,
    newest_first: bool = True,
    by_updated: bool = False,
    limit: int = 100,
    offset: int = 0,
) -> list[MemoryRow]:
    """Rows that pass the filter, ordered by creation or last update, rowid breaking ties."""
    condition, parameters = row_filter.condition(now_ms, "c")
    axis = "updated_at_ms" if by_updated else "created_at_ms"
    direction = "DESC" if newest_first else "ASC"
    # The inner select walks the thin table alone; only the rows of this page load their text.
    page = (
        f"SELECT c.rowid FROM record c WHERE {condition}"
        f" ORDER BY c.{axis} {direction}, c.rowid {direction} LIMIT ? OFFSET ?"
    )
    rows = connection.execute(
        f"SELECT {ROW_COLUMNS} FROM {ROW_TABLES} WHERE r.rowid IN ({page})"
        f" ORDER BY r.{axis} {direction}, r.rowid {direction}",
        [*parameters, limit, offset],
    )
    return [_row(columns) for columns in rows]


def list_rowids(connection: Connection, row_filter: RowFilter, now_ms: int) -> list[int]:
    """Rowids of all rows that pass the filter, oldest first: a fixed list for a long walk."""
    condition, parameters = row_filter.condition(now_ms, "r")
    rows = connection.execute(
        f"SELECT r.rowid FROM record r WHERE {condition} ORDER BY r.created_at_ms, r.rowid",
        parameters,
    )
    return [rowid for (rowid,) in rows]


def count_rows(connection: Connection, row_filter: RowFilter, now_ms: int) -> int:
    """How many rows pass the filter."""
    condition, parameters = row_filter.condition(now_ms, "r")
    (number,) = connection.execute(
        f"SELECT count(*) FROM record r WHERE {condition}", parameters
    ).fetchone()
    return int(number)


def versions(connection: Connection, memory_id: str) -> list[MemoryVersion]:
    """All versions of a memory, oldest first; empty when it is unknown or destroyed."""
    raw = parse_memory_id(memory_id)
    if raw is None:
        return []
    found = connection.execute("SELECT rowid FROM record WHERE id = ?", [raw]).fetchone()
    return [] if found is None else versions_of_rowid(connection, found[0])


def versions_of_rowid(connection: Connection, rowid: int) -> list[MemoryVersion]:
    """All versions of one row, oldest first."""
    found = connection.execute("SELECT kind FROM record WHERE rowid = ?", [rowid]).fetchone()
    if found is None:
        return []
    kind = RecordKind(found[0])
    rows = connection.execute(
        f"SELECT {VERSION_COLUMNS} FROM record_version v WHERE v.slot BETWEEN ? AND ?"
        " ORDER BY v.slot",
        [version_slot(rowid, 0), version_slot(rowid, MAX_VERSION)],
    )
    return [under_present_rules(decode_version(columns, kind)) for columns in rows]


def version(connection: Connection, rowid: int, number: int) -> MemoryVersion | None:
    """One version of one row."""
    found = connection.execute("SELECT kind FROM record WHERE rowid = ?", [rowid]).fetchone()
    columns = connection.execute(
        f"SELECT {VERSION_COLUMNS} FROM record_version v WHERE v.slot = ?",
        [version_slot(rowid, number)],
    ).fetchone()
    if found is None or columns is None:
        return None
    return under_present_rules(decode_version(columns, RecordKind(found[0])))


def find_exact(
    connection: Connection,
    text: str,
    row_filter: RowFilter | None = None,
    now_ms: int = 0,
    *,
    limit: int = 20,
) -> list[int]:
    """Rowids whose id, semantic key or whole path is ``text``: the id first, then newest first.

    With a filter only rows that pass it at ``now_ms``; without, every row that is not deleted.
    """
    text = text.strip()
    if not text:
        return []
    condition, parameters = (
        ("r.status <> 'deleted'", []) if row_filter is None else row_filter.condition(now_ms, "r")
    )
    raw = parse_memory_id(text.lower())
    # One arm per index; OR over three columns would scan the table, and so would a semantic key
    # without the condition of its partial index.
    deleted_too = row_filter is not None and row_filter.include_deleted
    live = "" if deleted_too else " AND status <> 'deleted'"
    arms = [
        f"SELECT 1 AS rank, rowid FROM record WHERE semantic_key = ?{live}",
        "SELECT 2 AS rank, rowid FROM record WHERE path = ?",
    ]
    values: list[object] = [text, text]
    if raw is not None:
        arms.insert(0, "SELECT 0 AS rank, rowid FROM record WHERE id = ?")
        values.insert(0, raw)
    rows = connection.execute(
        f"SELECT r.rowid FROM ({' UNION ALL '.join(arms)}) f JOIN record r ON r.rowid = f.rowid"
        f" WHERE {condition} GROUP BY r.rowid"
        " ORDER BY min(f.rank), r.created_at_ms DESC, r.rowid DESC LIMIT ?",
        [*values, *parameters, limit],
    )
    return [rowid for (rowid,) in rows]


def awaiting_destruction(connection: Connection, *, limit: int = 1000) -> list[MemoryId]:
    """Ids of deleted rows whose bytes an agent asked to destroy and the owner has not yet."""
    rows = connection.execute(
        "SELECT id FROM record WHERE status = 'deleted'"
        " AND destruction_requested_at_ms IS NOT NULL"
        " ORDER BY destruction_requested_at_ms LIMIT ?",
        [limit],
    )
    return [memory_id_from_bytes(raw) for (raw,) in rows]


def count_awaiting_destruction(connection: Connection) -> int:
    """How many deleted rows wait for the owner's word."""
    (count,) = connection.execute(
        "SELECT count(*) FROM record WHERE status = 'deleted'"
        " AND destruction_requested_at_ms IS NOT NULL"
    ).fetchone()
    return int(count)


def _one_row(connection: Connection, where: str, parameters: list[Any]) -> MemoryRow | None:
    columns = connection.execute(
        f"SELECT {ROW_COLUMNS} FROM {ROW_TABLES} WHERE {where}", parameters
    ).fetchone()
    return None if columns is None else _row(columns)


def _row(columns: Sequence[Any]) -> MemoryRow:
    return under_present_rules(decode_row(columns))
