"""Restart snapshots: which records stood where an agent stopped, and what of them is still there.

A snapshot holds references, not copies: what is forgotten or erased later is gone from every
snapshot at once. Contract: xmemo.md 6.6.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, cast

from memory_manager.security.gate import Surface, may_recall
from memory_manager.vault import items, queries
from memory_manager.vault.items import ItemFilter
from memory_manager.vault.rows import JsonValue, MemoryRow, MemoryVersion, RecordKind, RowStatus

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

Reference = dict[str, JsonValue]


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where a snapshot looks: one bucket, one scope or none, one state key; and how far back."""

    bucket: str
    scope: str | None
    state_key: str
    timeline_limit: int
    reminder_limit: int
    decision_limit: int


@dataclasses.dataclass(frozen=True, slots=True)
class Captured:
    """What a snapshot shows now. ``state`` is as it was then; its text is of that version. Events,
    open and meanwhile closed reminders and decisions are as they are today.
    """

    state: MemoryRow | None
    timeline: tuple[MemoryRow, ...]
    reminders: tuple[MemoryRow, ...]
    decisions: tuple[MemoryRow, ...]


def references(connection: Connection, place: Place, now_ms: int) -> dict[str, list[Reference]]:
    """The members of a snapshot's ``item``: the state, and the newest events and open items."""
    state = items.state_in_slot(connection, place.bucket, place.scope, place.state_key, now_ms)
    found: dict[str, list[Reference]] = {"state": _references([state] if state else [])}
    for name, kind, status, limit in (
        ("timeline", RecordKind.EVENT, None, place.timeline_limit),
        ("reminders", RecordKind.REMINDER, "open", place.reminder_limit),
        ("decisions", RecordKind.DECISION, "open", place.decision_limit),
    ):
        chosen = ItemFilter(
            kind=kind,
            bucket=place.bucket,
            scope=place.scope,
            unscoped=place.scope is None,
            item_status=status,
        )
        found[name] = _references(items.list_items(connection, chosen, now_ms, limit=limit))
    return found


def captured(connection: Connection, item: Mapping[str, JsonValue]) -> Captured:
    """What is left of what a snapshot refers to."""
    states = [
        state for entry in _entries(item, "state") if (state := _state_then(connection, entry))
    ]
    lists = (
        tuple(row for entry in _entries(item, name) if (row := _live(connection, entry, kind)))
        for name, kind in (
            ("timeline", RecordKind.EVENT),
            ("reminders", RecordKind.REMINDER),
            ("decisions", RecordKind.DECISION),
        )
    )
    return Captured(next(iter(states), None), *lists)


def _references(rows: Iterable[MemoryRow]) -> list[Reference]:
    return [{"id": row.id, "version": row.version} for row in rows]


def _entries(item: Mapping[str, JsonValue], name: str) -> list[Reference]:
    return cast("list[Reference]", item.get(name) or [])


def _live(connection: Connection, entry: Reference, kind: RecordKind) -> MemoryRow | None:
    row = queries.get_row(connection, entry["id"])
    if row is None or row.kind is not kind:
        return None
    return row if may_recall(row.envelope, row.metadata, Surface.LOCAL).allowed else None


def _state_then(connection: Connection, entry: Reference) -> MemoryRow | None:
    """The state as it was at that version; its expiry is not looked at: that is what restoring is
    for. None when it is forgotten or that version was erased.
    """
    row = _live(connection, entry, RecordKind.STATE)
    if row is None:
        return None
    version = queries.version(connection, row.rowid, entry["version"])
    if version is None or version.content is None or version.status is RowStatus.DELETED:
        return None
    return _as_of(row, version)


def _as_of(row: MemoryRow, version: MemoryVersion) -> MemoryRow:
    return dataclasses.replace(
        row,
        version=version.version,
        content=version.content or "",
        item=version.item,
        metadata=version.metadata,
        path=version.path,
        bucket=version.bucket,
        scope=version.scope,
        semantic_key=version.semantic_key,
        source=version.source,
        provenance=version.provenance,
        importance=version.importance,
        confidence=version.confidence,
        expires_at_ms=version.expires_at_ms,
        updated_at_ms=version.written_at_ms,
        writer=version.writer,
    )
