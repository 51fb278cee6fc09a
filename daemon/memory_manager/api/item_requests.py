"""Parsed requests about records beside memories (xmemo.md 6.6-6.9): values, nothing of HTTP.

Limits and lists are clamped; an absent, null or empty member counts as unset.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Final

from memory_manager.api.money import (
    DEFAULT_CURRENCY,
    Month,
    parse_amount,
    parse_currency,
    parse_month,
)
from memory_manager.api.parsing import WILDCARD, Fields
from memory_manager.vault.item_fields import ItemStatus
from memory_manager.vault.items import ItemFilter
from memory_manager.vault.prepared_version import MAX_PATH_CHARACTERS
from memory_manager.vault.rows import (
    MAX_CONTENT_CHARACTERS,
    MemoryDraft,
    MemoryType,
    RecordKind,
)

ITEM_BUCKET: Final = "work"
DEFAULT_STATE_KEY: Final = "active_task"
DEFAULT_STATE_TTL_SECONDS: Final = 86_400
MAX_TTL_SECONDS: Final = 2_592_000
MAX_STATE_TEXT: Final = 20_000  # characters; no client sends longer ones
MAX_RESOLUTION: Final = 12_000
MAX_OPTIONS: Final = 20
MAX_SNAPSHOT_ENTRIES: Final = 100
DEFAULT_EVENT_TYPE: Final = "event"
DEFAULT_LIST_LIMIT: Final = 20
MAX_LIST_LIMIT: Final = 500

_STATE_LINES: Final = (
    ("current_task", "Current task"),
    ("next_action", "Next action"),
    ("blocked_reason", "Blocked"),
)


def parse_ttl(fields: Fields, default: int | None) -> int | None:
    """``ttl_seconds`` as whole seconds, None for never. 0 is never; a part of a second is one
    second; more than 30 days is 30 days. ``default`` as well: None or seconds.
    """
    value = fields.number("ttl_seconds", 0, math.inf)
    if value is None:
        return default
    return None if value == 0 else math.ceil(min(value, MAX_TTL_SECONDS))


def expiry_ms(ttl_seconds: int | None, now_ms: int) -> int | None:
    """When something written now expires."""
    return None if ttl_seconds is None else now_ms + ttl_seconds * 1000


@dataclasses.dataclass(frozen=True, slots=True)
class TimedDraft:
    """A draft whose expiry counts from the moment it is stored."""

    draft: MemoryDraft
    ttl_seconds: int | None = None

    def at(self, now_ms: int) -> MemoryDraft:
        return dataclasses.replace(self.draft, expires_at_ms=expiry_ms(self.ttl_seconds, now_ms))


def parse_state(values: Mapping[str, object]) -> TimedDraft:
    """POST /v1/update_state: the whole new state of a slot; what is not given is unset."""
    fields = Fields.of_body(values)
    state_key = fields.text("state_key") or DEFAULT_STATE_KEY
    texts = {name: fields.text(name, limit=MAX_STATE_TEXT) for name, _ in _STATE_LINES}
    content = fields.text("content", limit=MAX_CONTENT_CHARACTERS)
    given = {name: text for name, text in texts.items() if text is not None}
    draft = MemoryDraft(
        content=state_text(given) if content is None else content,
        path=f"state/{state_key}",
        bucket=_write_bucket(fields),
        scope=fields.filter_text("scope"),
        memory_type=MemoryType.WORKING,
        source=fields.text("source"),
        metadata=fields.mapping("metadata") or {},
        semantic_key=state_key,
        kind=RecordKind.STATE,
        item=given,
    )
    ttl = parse_ttl(fields, DEFAULT_STATE_TTL_SECONDS)
    fields.check()
    return TimedDraft(draft, ttl)


def state_text(texts: Mapping[str, str]) -> str:
    """The content of a state that came without one, so that recall finds it by its words."""
    return "\n".join(f"{title}: {texts[name]}" for name, title in _STATE_LINES if name in texts)


def parse_reminder(values: Mapping[str, object]) -> MemoryDraft:
    """POST /v1/reminders."""
    fields = Fields.of_body(values)
    content = fields.required_text("content", limit=MAX_CONTENT_CHARACTERS)
    item = {
        "item_status": ItemStatus.OPEN.value,
        "due_at_ms": fields.time("due_at"),
        "session_id": fields.text("session_id"),
    }
    draft = _draft(fields, RecordKind.REMINDER, content, "reminders", MemoryType.WORKING, item)
    fields.check()
    return draft


def parse_event(values: Mapping[str, object]) -> MemoryDraft:
    """POST /v1/timeline/events; without a time it happened now."""
    fields = Fields.of_body(values)
    content = fields.required_text("content", limit=MAX_CONTENT_CHARACTERS)
    item = {
        "event_type": fields.filter_text("event_type") or DEFAULT_EVENT_TYPE,
        "occurred_at_ms": fields.time("occurred_at"),
        "session_id": fields.text("session_id"),
    }
    draft = _draft(fields, RecordKind.EVENT, content, "timeline", MemoryType.EPISODIC, item)
    fields.check()
    return draft


def parse_timeline(values: Mapping[str, object]) -> ItemListRequest:
    """GET /v1/timeline: bucket ``work`` unless another one, or ``%``, is asked for."""
    fields = Fields.of_query(values)
    bucket = fields.text("bucket") or ITEM_BUCKET
    since, until = time_bounds(fields)
    asked = ItemListRequest(
        ItemFilter(
            kind=RecordKind.EVENT,
            bucket=None if bucket == WILDCARD else bucket,
            scope=fields.filter_text("scope"),
            session_id=fields.filter_text("session_id"),
            label=fields.filter_text("event_type"),
            since_ms=since,
            until_ms=until,
        ),
        list_limit(fields),
    )
    fields.check()
    return asked


def time_bounds(fields: Fields) -> tuple[int | None, int | None]:
    """``[since, until)``; ``until`` must be later."""
    since, until = fields.time("since"), fields.time("until")
    if since is not None and until is not None and until <= since:
        fields.refuse("until", "must be later than since")
    return since, until


def parse_decision(values: Mapping[str, object]) -> MemoryDraft:
    """POST /v1/decisions: something to be decided, and maybe between what."""
    fields = Fields.of_body(values)
    name = "content" if fields.has("content") and not fields.has("context") else "context"
    content = fields.required_text(name, limit=MAX_STATE_TEXT)
    item = {
        "item_status": ItemStatus.OPEN.value,
        "due_at_ms": fields.time("due_at"),
        "session_id": fields.text("session_id"),
        "options": fields.texts("options", limit=MAX_STATE_TEXT, most=MAX_OPTIONS),
    }
    draft = _draft(fields, RecordKind.DECISION, content, "decisions", MemoryType.WORKING, item)
    fields.check()
    return draft


def parse_resolution(values: Mapping[str, object]) -> str:
    """POST /v1/decisions/{id}/resolve."""
    fields = Fields.of_body(values)
    resolution = fields.required_text("resolution", limit=MAX_RESOLUTION)
    fields.check()
    return resolution


@dataclasses.dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """What a restart snapshot shall hold, and how many of each list at most."""

    draft: TimedDraft
    state_key: str
    timeline_limit: int
    reminder_limit: int
    decision_limit: int


def parse_snapshot(values: Mapping[str, object]) -> SnapshotRequest:
    """POST /v1/restart/snapshot."""
    fields = Fields.of_body(values)
    state_key = fields.filter_text("state_key") or DEFAULT_STATE_KEY
    label = fields.text("label", limit=MAX_STATE_TEXT)
    item = {"label": label, "session_id": fields.text("session_id"), "state_key": state_key}
    content = label or "Restart snapshot"
    draft = _draft(
        fields, RecordKind.SNAPSHOT, content, "restart/snapshots", MemoryType.WORKING, item
    )
    request = SnapshotRequest(
        TimedDraft(draft, parse_ttl(fields, None)),
        state_key,
        *(
            fields.clamped(name, DEFAULT_LIST_LIMIT, 0, MAX_SNAPSHOT_ENTRIES)
            for name in ("timeline_limit", "reminder_limit", "decision_limit")
        ),
    )
    fields.check()
    return request


@dataclasses.dataclass(frozen=True, slots=True)
class RestoreSnapshotRequest:
    """Which snapshot (``snapshot_id``, else the newest that passes) and what to do with it."""

    snapshot_id: str | None
    filter: ItemFilter
    restore_state: bool
    record_event: bool
    target_session_id: str | None
    ttl_seconds: int | None


def parse_restore_snapshot(values: Mapping[str, object]) -> RestoreSnapshotRequest:
    """POST /v1/restart/restore."""
    fields = Fields.of_body(values)
    request = RestoreSnapshotRequest(
        snapshot_id=fields.text("snapshot_id"),
        filter=ItemFilter(
            kind=RecordKind.SNAPSHOT,
            bucket=fields.filter_text("bucket"),
            scope=fields.filter_text("scope"),
            session_id=fields.filter_text("source_session_id"),
            label=fields.filter_text("state_key"),
        ),
        restore_state=fields.flag("restore_state", default=True),
        record_event=fields.flag("record_restore_event", default=True),
        target_session_id=fields.text("target_session_id"),
        ttl_seconds=parse_ttl(fields, DEFAULT_STATE_TTL_SECONDS),
    )
    fields.check()
    return request


def parse_expense(values: Mapping[str, object]) -> MemoryDraft:
    """What was bought, for how much, when (now unless said) and in which currency."""
    fields = Fields.of_body(values)
    content = fields.required_text("item", limit=MAX_STATE_TEXT)
    given = fields.mapping("metadata") or {}
    extra = {
        name: text
        for name in ("category", "note", "merchant")
        if (text := fields.text(name, limit=MAX_STATE_TEXT)) is not None
    }
    item = {
        "amount_micros": parse_amount(fields, "amount"),
        "currency": parse_currency(fields) or DEFAULT_CURRENCY,
        "spent_at_ms": fields.time("spent_at") or fields.time("occurred_at"),
    }
    draft = _draft(fields, RecordKind.EXPENSE, content, "ledger", MemoryType.EPISODIC, item)
    fields.check()
    return dataclasses.replace(draft, metadata={**given, **extra})


def parse_transactions(values: Mapping[str, object], now_ms: int) -> ItemListRequest:
    """Expenses of a month if one is named, of ``[since, until)``, or all."""
    fields = Fields.of_query(values)
    since, until = time_bounds(fields)
    if fields.raw("month") not in (None, "") or fields.raw("year") not in (None, ""):
        month = parse_month(fields, now_ms)
        since, until = month.since_ms, month.until_ms
    asked = ItemListRequest(
        ItemFilter(
            kind=RecordKind.EXPENSE,
            bucket=fields.filter_text("bucket"),
            scope=fields.filter_text("scope"),
            label=parse_currency(fields),
            since_ms=since,
            until_ms=until,
        ),
        list_limit(fields),
    )
    fields.check()
    return asked


@dataclasses.dataclass(frozen=True, slots=True)
class MonthRequest:
    month: Month
    filter: ItemFilter  # its label is the currency that was asked for


def parse_monthly_summary(values: Mapping[str, object], now_ms: int) -> MonthRequest:
    """GET /v1/me/ledger/monthly-summary."""
    fields = Fields.of_query(values)
    month = parse_month(fields, now_ms)
    request = MonthRequest(
        month,
        ItemFilter(
            kind=RecordKind.EXPENSE,
            bucket=fields.filter_text("bucket"),
            scope=fields.filter_text("scope"),
            label=parse_currency(fields),
            since_ms=month.since_ms,
            until_ms=month.until_ms,
        ),
    )
    fields.check()
    return request


def parse_note(values: Mapping[str, object]) -> str | None:
    """POST /v1/reminders/{id}/complete; the id alone says which, so bucket and scope do not."""
    fields = Fields.of_body(values)
    note = fields.text("note", limit=MAX_STATE_TEXT)
    fields.check()
    return note


@dataclasses.dataclass(frozen=True, slots=True)
class ItemListRequest:
    filter: ItemFilter
    limit: int


def parse_status_list(values: Mapping[str, object], kind: RecordKind) -> ItemListRequest:
    """Lists of reminders and decisions: the open ones unless asked otherwise."""
    fields = Fields.of_query(values)
    status = fields.text("item_status") or ItemStatus.OPEN.value
    asked = ItemListRequest(
        ItemFilter(
            kind=kind,
            bucket=fields.filter_text("bucket"),
            scope=fields.filter_text("scope"),
            item_status=None if status == WILDCARD else status,
            due_before_ms=fields.time("due_before"),
        ),
        list_limit(fields),
    )
    fields.check()
    return asked


def list_limit(fields: Fields, default: int = DEFAULT_LIST_LIMIT) -> int:
    return fields.clamped("limit", default, 1, MAX_LIST_LIMIT)


def _write_bucket(fields: Fields) -> str:
    return fields.filter_text("bucket") or ITEM_BUCKET


def _draft(
    fields: Fields,
    kind: RecordKind,
    content: str,
    path: str,
    memory_type: MemoryType,
    item: Mapping[str, object],
) -> MemoryDraft:
    """The members that all items share."""
    return MemoryDraft(
        content=content,
        path=fields.text("path", limit=MAX_PATH_CHARACTERS) or path,
        bucket=_write_bucket(fields),
        scope=fields.filter_text("scope"),
        memory_type=memory_type,
        importance=fields.number("importance", 0, 1),
        confidence=fields.number("confidence", 0, 1),
        source=fields.text("source"),
        metadata=fields.mapping("metadata") or {},
        kind=kind,
        item={name: value for name, value in item.items() if value is not None},
    )
