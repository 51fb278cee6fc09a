"""Parsed requests about states, events, reminders and decisions (xmemo.md 6.6, 6.7), and what every
request about a record beside memories shares: values, nothing of HTTP.

Limits and lists are clamped; an absent, null or empty member counts as unset.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Final

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
    draft = item_draft(fields, RecordKind.REMINDER, content, "reminders", MemoryType.WORKING, item)
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
    draft = item_draft(fields, RecordKind.EVENT, content, "timeline", MemoryType.EPISODIC, item)
    fields.check()
    return draft


def parse_timeline(values: Mapping[str, object]) -> ItemListRequest:
    """GET /v1/timeline: bucket ``work`` unless another one, or ``%``, is asked for."""
    fields = Fields.of_query(values)
    bucket = fields.text("bucket") or ITEM_BUCKET
    since, until = fields.time_bounds()
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
    draft = item_draft(fields, RecordKind.DECISION, content, "decisions", MemoryType.WORKING, item)
    fields.check()
    return draft


def parse_resolution(values: Mapping[str, object]) -> str:
    """POST /v1/decisions/{id}/resolve."""
    fields = Fields.of_body(values)
    resolution = fields.required_text("resolution", limit=MAX_RESOLUTION)
    fields.check()
    return resolution


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


def item_draft(
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
