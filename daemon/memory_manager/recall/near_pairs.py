"""Near duplicates are linked, never merged, dropped or blocked. Contract: recall.md 10."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

NEAR_COSINE = 0.95


def add(connection: Connection, one: int, other: int, cosine: float, model_rowid: int) -> None:
    """Link two rows; rowids grow with time, so the larger one is the newer row."""
    connection.execute(
        "INSERT OR REPLACE INTO near_pair(newer_rowid, older_rowid, cosine, model_rowid)"
        " VALUES(?, ?, ?, ?)",
        (max(one, other), min(one, other), cosine, model_rowid),
    )


def remove(connection: Connection, rowid: int) -> None:
    """Undo every link of a row: its text has changed or it is gone."""
    connection.execute("DELETE FROM near_pair WHERE newer_rowid = ?", (rowid,))
    connection.execute("DELETE FROM near_pair WHERE older_rowid = ?", (rowid,))


def groups(connection: Connection, rowids: Collection[int]) -> dict[int, int]:
    """Which of ``rowids`` hang together: rowid -> a number of its group; lone rows are left out."""
    marks = ",".join("?" * len(rowids))
    pairs = connection.execute(
        "SELECT newer_rowid, older_rowid FROM near_pair"
        f" WHERE newer_rowid IN ({marks}) AND older_rowid IN ({marks})",
        [*rowids, *rowids],
    ).fetchall()
    return _components(pairs)


def _components(pairs: Iterable[tuple[int, int]]) -> dict[int, int]:
    parent: dict[int, int] = {}

    def root(node: int) -> int:
        while parent.setdefault(node, node) != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for one, other in pairs:
        parent[root(one)] = root(other)
    return {node: root(node) for node in list(parent)}
