"""Each derived structure made anew from the rows; the rows themselves are never touched.

Contract: recall.md 6.1 (``doctor --rebuild``), 7.1. Work goes through the store's writer in
batches, so reads and other writes go on; a row written meanwhile indexes itself.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from memory_manager.recall import embedding_models, fulltext
from memory_manager.recall.text_rules import TEXT_RULES_VERSION, index_fields
from memory_manager.vault import queries
from memory_manager.vault.filters import RowFilter
from memory_manager.vault.store import Store

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

BATCH_ROWS = 256
_TABLES = ("memory_vocab", "memory_tri", "memory_fts")

Progress = Callable[[int, int], None]
"""Called with rows done and rows in all."""


class What(enum.StrEnum):
    VECTORS = "vectors"
    FULLTEXT = "fulltext"
    ALL = "all"


def no_progress(_done: int, _total: int) -> None:
    return None


async def rebuild_fulltext(store: Store, progress: Progress = no_progress) -> int:
    """Empty the word tables, damaged or not, and index every recallable row; returns how many."""
    await store.write(_clear_fulltext)
    total = await store.read(_recallable_rows)
    done = 0
    below: int | None = None
    while True:
        batch = await store.read(functools.partial(_rows_below, rowid=below))
        if not batch:
            return done
        await store.write(functools.partial(_index_rows, rowids=batch))
        done, below = done + len(batch), batch[-1]
        progress(done, total)


async def refresh_text_rules(store: Store) -> int:
    """Index rows again that were indexed by older rules, newest first; usually there are none."""
    if await store.read(_rules_are_current):
        return 0
    done = 0
    below: int | None = None
    while True:
        batch = await store.read(functools.partial(_rows_below, rowid=below))
        if not batch:
            return done
        await store.write(functools.partial(_index_rows, rowids=batch))
        done, below = done + len(batch), batch[-1]


async def forget_vectors(store: Store) -> int:
    """Drop every stored vector and queue all rows for the model in use; returns the queue's
    length.
    """
    return await store.write(_clear_vectors)


def _clear_fulltext(transaction: Transaction) -> None:
    connection = transaction.connection
    statements = dict(
        connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name IN (?, ?, ?)",
            _TABLES,
        ).fetchall()
    )
    for table in _TABLES:  # a damaged table cannot be emptied, but it can be dropped
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    connection.execute("DELETE FROM fts_source")
    for table in reversed(_TABLES):
        connection.execute(statements[table])
        if table != "memory_vocab":
            connection.execute(f"INSERT INTO {table}({table}, rank) VALUES('secure-delete', 1)")


def _index_rows(transaction: Transaction, rowids: list[int]) -> None:
    connection = transaction.connection
    for row in queries.rows_by_rowid(connection, rowids).values():
        fulltext.remove(connection, row.rowid)
        if fulltext.is_indexed(row):
            fulltext.insert(connection, row.rowid, index_fields(row))


def _recallable_rows(connection: Connection) -> int:
    return queries.count_rows(connection, RowFilter(), 0)


def _rows_below(connection: Connection, rowid: int | None) -> list[int]:
    """The next rowids in falling order: newest rows are found first again."""
    condition, values = RowFilter().condition(0, "r")
    below = "" if rowid is None else " AND r.rowid < ?"
    rows = connection.execute(
        f"SELECT r.rowid FROM record r WHERE {condition}{below} ORDER BY r.rowid DESC LIMIT ?",
        [*values, *([] if rowid is None else [rowid]), BATCH_ROWS],
    )
    return [found for (found,) in rows]


def _rules_are_current(connection: Connection) -> bool:
    """Re-indexing walks from the newest row down, so the two ends tell whether it is done."""
    ends = connection.execute(
        "SELECT text_rules FROM (SELECT text_rules FROM fts_source ORDER BY record_rowid LIMIT 1)"
        " UNION ALL SELECT text_rules FROM"
        " (SELECT text_rules FROM fts_source ORDER BY record_rowid DESC LIMIT 1)"
    ).fetchall()
    return all(version == TEXT_RULES_VERSION for (version,) in ends)


def _clear_vectors(transaction: Transaction) -> int:
    connection = transaction.connection
    for table in ("near_pair", "unembeddable", "vector_slot", "vector_segment", "vector_tail"):
        connection.execute(f"DELETE FROM {table}")
    connection.execute("DELETE FROM embedding_queue")
    connection.execute(
        "UPDATE embedding_model SET state = 'building', covered = 0 WHERE state = 'active'"
    )
    models = connection.execute(
        "SELECT model_rowid FROM embedding_model WHERE state = 'building' ORDER BY model_rowid DESC"
    ).fetchall()
    for (model_rowid,) in models[1:]:
        connection.execute(
            "UPDATE embedding_model SET state = 'retired' WHERE model_rowid = ?", (model_rowid,)
        )
    if models:
        embedding_models.queue_missing(connection, models[0][0])
    return embedding_models.queued(connection)
