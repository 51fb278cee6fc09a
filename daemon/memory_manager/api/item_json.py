"""What an item of each kind shows beside the members of a memory (xmemo.md 6.6-6.9, 20)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from memory_manager.base.times import rfc3339
from memory_manager.vault.item_fields import MICROS, item_status
from memory_manager.vault.rows import JsonValue, MemoryRow, RecordKind

STATE_TEXTS: Final = ("current_task", "next_action", "blocked_reason")


def kind_fields(row: MemoryRow) -> dict[str, object]:
    """``kind`` and the members of that kind; they win over those of a memory."""
    return {"kind": row.kind.value, **_FIELDS[row.kind](row)}


def amount_json(micros: int) -> int | float:
    """An amount of money as a JSON number."""
    return micros // MICROS if micros % MICROS == 0 else micros / MICROS


def _memory(_row: MemoryRow) -> dict[str, object]:
    return {}


def _state(row: MemoryRow) -> dict[str, object]:
    texts = {name: row.item[name] for name in STATE_TEXTS if row.item.get(name) is not None}
    return {
        "state_id": row.id,
        "state_key": row.semantic_key,
        **{name: texts.get(name) for name in STATE_TEXTS},
        "metadata": {**row.metadata, **texts},
    }


def _event(row: MemoryRow) -> dict[str, object]:
    return {
        "event_id": row.id,
        "event_type": row.item.get("event_type"),
        "occurred_at": _time(row.item, "occurred_at_ms") or rfc3339(row.created_at_ms),
        "session_id": row.item.get("session_id"),
    }


def _reminder(row: MemoryRow) -> dict[str, object]:
    status = item_status(row.item).value
    return {
        "todo_id": row.id,
        "reminder_id": row.id,
        "due_at": _time(row.item, "due_at_ms"),
        "item_status": status,
        "status": status,
        "session_id": row.item.get("session_id"),
        "completed_at": _time(row.item, "completed_at_ms"),
        "note": row.item.get("note"),
    }


def _decision(row: MemoryRow) -> dict[str, object]:
    status = item_status(row.item).value
    return {
        "decision_id": row.id,
        "context": row.content,
        "options": list(row.item.get("options") or []),
        "due_at": _time(row.item, "due_at_ms"),
        "item_status": status,
        "status": status,
        "session_id": row.item.get("session_id"),
        "resolution": row.item.get("resolution"),
        "resolved_at": _time(row.item, "resolved_at_ms"),
    }


def _snapshot(row: MemoryRow) -> dict[str, object]:
    return {
        "snapshot_id": row.id,
        "label": row.item.get("label"),
        "session_id": row.item.get("session_id"),
        "state_key": row.item.get("state_key"),
    }


def _expense(row: MemoryRow) -> dict[str, object]:
    return {
        "expense_id": row.id,
        "item": row.content,
        "amount": amount_json(row.item.get("amount_micros") or 0),
        "currency": row.item.get("currency"),
        "spent_at": _time(row.item, "spent_at_ms") or rfc3339(row.created_at_ms),
    }


_FIELDS: Final[Mapping[RecordKind, Callable[[MemoryRow], dict[str, object]]]] = {
    RecordKind.MEMORY: _memory,
    RecordKind.STATE: _state,
    RecordKind.EVENT: _event,
    RecordKind.REMINDER: _reminder,
    RecordKind.DECISION: _decision,
    RecordKind.SNAPSHOT: _snapshot,
    RecordKind.EXPENSE: _expense,
}


def _time(item: Mapping[str, JsonValue], name: str) -> str | None:
    value = item.get(name)
    return None if value is None else rfc3339(value)
