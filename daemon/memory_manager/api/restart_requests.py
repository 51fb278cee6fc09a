"""Parsed requests about restart snapshots (xmemo.md 6.6): values, nothing of HTTP."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from memory_manager.api.item_requests import (
    DEFAULT_LIST_LIMIT,
    DEFAULT_STATE_KEY,
    DEFAULT_STATE_TTL_SECONDS,
    MAX_STATE_TEXT,
    TimedDraft,
    item_draft,
    parse_ttl,
)
from memory_manager.api.parsing import Fields
from memory_manager.vault.items import ItemFilter
from memory_manager.vault.rows import MemoryType, RecordKind

MAX_SNAPSHOT_ENTRIES: Final = 100


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
    draft = item_draft(
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
