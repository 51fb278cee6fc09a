"""Reads of records beside memories: lists of one kind under the retrieval gate, and slots by key.

Every list joins ``RowFilter.condition``, counts too, so a hidden row takes no place anywhere.
Contract: xmemo.md 6.6, 6.7, 15.2.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from memory_manager.vault import queries
from memory_manager.vault.filters import RowFilter
from memory_manager.vault.rows import MemoryRow, RecordKind

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

MAX_COUNTED: Final = 10_000
"""A list says how many items there are, up to this many: counting takes 1.3 ms a thousand
[measured]."""


@dataclasses.dataclass(frozen=True, slots=True)
class ItemFilter:
    """Items of one kind. Times are ``[since, until)`` in UTC ms over the time an item stands under:
    when an event happened, money was spent, anything else was created. ``due_before_ms`` leaves out
    items without a due time; ``label``: event type, state key of a snapshot, currency.
    ``unscoped``: only items without a scope.
    """

    kind: RecordKind
    bucket: str | None = None
    scope: str | None = None
    item_status: str | None = None
    session_id: str | None = None
    label: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    due_before_ms: int | None = None
    unscoped: bool = False

    def condition(self, now_ms: int) -> tuple[str, list[object]]:
        """``(sql, parameters)`` over ``record_item i JOIN record c``."""
        gate = RowFilter(bucket=self.bucket, scope=self.scope, kinds=(self.kind,))
        gate_sql, gate_parameters = gate.condition(now_ms, "c")
        terms = ["i.kind = ?"]
        parameters: list[object] = [self.kind.value]
        for term, value in (
            ("i.item_status = ?", self.item_status),
            ("i.session_id = ?", self.session_id),
            ("i.label = ?", self.label),
            ("i.at_ms >= ?", self.since_ms),
            ("i.at_ms < ?", self.until_ms),
            ("i.due_at_ms < ?", self.due_before_ms),
        ):
            if value is not None:
                terms.append(term)
                parameters.append(value)
        if self.unscoped:
            terms.append("c.scope IS NULL")
        return " AND ".join([*terms, gate_sql]), [*parameters, *gate_parameters]


_TABLES = "record_item i JOIN record c ON c.rowid = i.record_rowid"


def list_items(
    connection: Connection, item_filter: ItemFilter, now_ms: int, *, limit: int, offset: int = 0
) -> list[MemoryRow]:
    """Items that pass, newest first by the time they stand under."""
    condition, parameters = item_filter.condition(now_ms)
    rowids = [
        rowid
        for (rowid,) in connection.execute(
            f"SELECT i.record_rowid FROM {_TABLES} WHERE {condition}"
            " ORDER BY i.at_ms DESC, i.record_rowid DESC LIMIT ? OFFSET ?",
            [*parameters, limit, offset],
        )
    ]
    rows = queries.rows_by_rowid(connection, rowids)
    return [rows[rowid] for rowid in rowids if rowid in rows]


def count_items(connection: Connection, item_filter: ItemFilter, now_ms: int) -> int:
    """How many items pass; counting stops at MAX_COUNTED."""
    condition, parameters = item_filter.condition(now_ms)
    (number,) = connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM {_TABLES} WHERE {condition} LIMIT ?)",
        [*parameters, MAX_COUNTED],
    ).fetchone()
    return int(number)


@dataclasses.dataclass(frozen=True, slots=True)
class Spent:
    """Expenses of one currency: their sum in millionths and their number."""

    currency: str
    micros: int
    count: int


def spent(connection: Connection, item_filter: ItemFilter, now_ms: int) -> list[Spent]:
    """Sums of the expenses that pass, the currency with most of them first."""
    condition, parameters = item_filter.condition(now_ms)
    totals: dict[str, tuple[int, int]] = {}
    # summed here: SQLite's sum() fails beyond 64 bits
    for currency, micros in connection.execute(
        f"SELECT i.label, i.amount_micros FROM {_TABLES} WHERE {condition}", parameters
    ):
        total, count = totals.get(currency or "", (0, 0))
        totals[currency or ""] = total + (micros or 0), count + 1
    sums = [Spent(name, *numbers) for name, numbers in totals.items()]
    return sorted(sums, key=lambda found: (-found.count, found.currency))


def state_in_slot(
    connection: Connection, bucket: str, scope: str | None, state_key: str, now_ms: int
) -> MemoryRow | None:
    """The state that holds this slot and has not expired."""
    gate = RowFilter(bucket=bucket, kinds=(RecordKind.STATE,))
    condition, parameters = gate.condition(now_ms, "c")
    found = connection.execute(
        "SELECT c.rowid FROM record c WHERE c.semantic_key = ? AND ifnull(c.scope, '') = ?"
        f" AND c.status <> 'deleted' AND {condition}",
        [state_key, scope or "", *parameters],
    ).fetchone()
    return None if found is None else queries.row_by_rowid(connection, found[0])
