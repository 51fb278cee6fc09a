"""Which stored memory a new one is about to meet: same semantic key, same text, same id.

Deleted rows never match: what was forgotten can be stored again (recall.md 10).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_manager.base.identifiers import MemoryId, memory_id_bytes
from memory_manager.vault import queries
from memory_manager.vault.filters import RowFilter
from memory_manager.vault.prepared_version import PreparedVersion, RowContents, normalised_text
from memory_manager.vault.rows import MemoryRow

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection


def row_with_semantic_key(connection: Connection, contents: RowContents) -> MemoryRow | None:
    """The live row of this kind that holds this key at this place; there is at most one.

    An expired row still holds its key: writing to the slot renews it.
    """
    if not contents.semantic_key:
        return None
    found = connection.execute(
        "SELECT rowid FROM record WHERE semantic_key = ? AND bucket = ? AND ifnull(scope, '') = ?"
        " AND kind = ? AND status <> 'deleted'",
        (contents.semantic_key, contents.bucket, contents.scope or "", contents.kind.value),
    ).fetchone()
    return None if found is None else queries.row_by_rowid(connection, found[0])


def row_with_same_text(
    connection: Connection, prepared: PreparedVersion, now_ms: int
) -> MemoryRow | None:
    """An active row with the same text, exactly or after normalising, at the same place.

    Only a row that recall would show: answering with a hidden or expired one would lose the text.
    An exact twin wins over a normalised one, then the oldest.
    """
    contents = prepared.contents
    row_filter = RowFilter(bucket=contents.bucket, kinds=(contents.kind,))
    condition, parameters = row_filter.condition(now_ms, "record")
    rowids = [
        rowid
        for (rowid,) in connection.execute(
            f"SELECT rowid FROM record WHERE dedupe_key = ? AND status = 'active' AND {condition}"
            " ORDER BY rowid",
            [prepared.dedupe_key, *parameters],
        )
    ]
    if not rowids:
        return None
    rows = queries.rows_by_rowid(connection, rowids)
    wanted = normalised_text(contents.content)
    twins = [
        row
        for row in (rows[rowid] for rowid in rowids)
        if row.path == contents.path
        and row.scope == contents.scope
        and normalised_text(row.content) == wanted
    ]
    exact = [row for row in twins if row.content == contents.content]
    return next(iter(exact or twins), None)


def id_is_taken(connection: Connection, memory_id: MemoryId) -> bool:
    """Whether a memory has this id, or had it until it was destroyed."""
    raw = memory_id_bytes(memory_id)
    found = connection.execute(
        "SELECT 1 FROM record WHERE id = ? UNION ALL SELECT 1 FROM destroyed WHERE id = ?",
        (raw, raw),
    ).fetchone()
    return found is not None
