"""Restart snapshots: where an agent stopped, and going on from there (xmemo.md 6.6)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Final

from sqlcipher3.dbapi2 import Connection

from memory_manager.api.calls import Access, Call, may
from memory_manager.api.item_requests import DEFAULT_STATE_KEY, expiry_ms
from memory_manager.api.items import row_item
from memory_manager.api.operations.answer import Answer, Written, written
from memory_manager.api.operations.item_access import dual_item, item_of_kind, within
from memory_manager.api.operations.state import state_answer
from memory_manager.api.requests import parse_memory_id
from memory_manager.api.restart_requests import (
    RestoreSnapshotRequest,
    parse_restore_snapshot,
    parse_snapshot,
)
from memory_manager.base.errors import NotFound
from memory_manager.base.times import rfc3339
from memory_manager.service.daemon import Daemon
from memory_manager.vault import audit, items, snapshots
from memory_manager.vault.idempotency import IdempotencyKey
from memory_manager.vault.rows import (
    MemoryDraft,
    MemoryRow,
    MemoryType,
    RecordKind,
    WriteOutcome,
)
from memory_manager.vault.snapshots import Captured, Place
from memory_manager.vault.transaction import Transaction

NOTHING: Final = {"restored": False, "status": "not_found"}
RESTORE_EVENT: Final = "restart_restored"

_UNSEEN: Final = Captured(None, (), (), ())


async def create_restart_snapshot(
    daemon: Daemon, call: Call, arguments: Mapping[str, object], key: IdempotencyKey | None
) -> Answer:
    """Note which state, events, open reminders and open decisions stand at one bucket and scope."""
    asked = parse_snapshot(arguments)

    def work(transaction: Transaction, call: Call) -> Written:
        draft = asked.draft.at(transaction.now_ms)
        place = Place(
            draft.bucket,
            draft.scope,
            asked.state_key,
            asked.timeline_limit,
            asked.reminder_limit,
            asked.decision_limit,
        )
        found = snapshots.references(transaction.connection, place, transaction.now_ms)
        draft = dataclasses.replace(draft, item={**draft.item, **found})
        outcome = daemon.memories.remember(transaction, draft, call.attribution)
        counts = {name: len(entries) for name, entries in found.items()}
        return Written(201, {**dual_item("snapshot", outcome.row, call), "captured": counts})

    return await written(daemon, call, key, work)


async def restore_restart_snapshot(
    daemon: Daemon, call: Call, arguments: Mapping[str, object], key: IdempotencyKey | None
) -> Answer:
    """Put the state of a snapshot back into its slot and show the rest; 200 with ``restored`` false
    when there is none. A caller that may not read gets the outcome without any record.
    """
    asked = parse_restore_snapshot(arguments)

    def work(transaction: Transaction, call: Call) -> Written:
        row = _chosen(transaction.connection, asked, transaction.now_ms)
        if row is None:
            return Written(200, NOTHING)
        found = snapshots.captured(transaction.connection, row.item)
        outcome = None
        if found.state is not None and asked.restore_state:
            outcome = _put_back(daemon, transaction, call, asked, found.state)
        if asked.record_event:
            _note(daemon, transaction, call, asked, row)
        audit.record(transaction, "snapshot.applied", row.id, call.attribution)
        return Written(200, _answer(transaction, call, row, found, outcome))

    return await written(daemon, call, key, work)


def _chosen(connection: Connection, asked: RestoreSnapshotRequest, now_ms: int) -> MemoryRow | None:
    if asked.snapshot_id is None:
        newest = items.list_items(connection, asked.filter, now_ms, limit=1)
        return next(iter(newest), None)
    try:
        return item_of_kind(connection, parse_memory_id(asked.snapshot_id), RecordKind.SNAPSHOT)
    except NotFound:
        return None


def _put_back(
    daemon: Daemon,
    transaction: Transaction,
    call: Call,
    asked: RestoreSnapshotRequest,
    state: MemoryRow,
) -> WriteOutcome:
    draft = MemoryDraft(
        content=state.content,
        path=state.path,
        bucket=state.bucket,
        scope=state.scope,
        memory_type=state.memory_type,
        importance=state.importance,
        confidence=state.confidence,
        source=state.source,
        metadata=state.metadata,
        provenance=state.provenance,
        semantic_key=state.semantic_key or DEFAULT_STATE_KEY,
        expires_at_ms=expiry_ms(asked.ttl_seconds, transaction.now_ms),
        kind=RecordKind.STATE,
        item=state.item,
    )
    return daemon.memories.remember(transaction, draft, call.attribution)


def _note(
    daemon: Daemon,
    transaction: Transaction,
    call: Call,
    asked: RestoreSnapshotRequest,
    row: MemoryRow,
) -> None:
    item = {"event_type": RESTORE_EVENT}
    if asked.target_session_id is not None:
        item["session_id"] = asked.target_session_id
    draft = MemoryDraft(
        content=f"Restored from restart snapshot {row.id}",
        path="timeline",
        bucket=row.bucket,
        scope=row.scope,
        memory_type=MemoryType.EPISODIC,
        kind=RecordKind.EVENT,
        item=item,
    )
    daemon.memories.remember(transaction, draft, call.attribution)


def _answer(
    transaction: Transaction,
    call: Call,
    row: MemoryRow,
    found: Captured,
    outcome: WriteOutcome | None,
) -> dict[str, object]:
    state = found.state if outcome is None else outcome.row
    if not may(call.caller, Access.READ):
        found, state = _UNSEEN, None
    return {
        "id": row.id,
        "snapshot_id": row.id,
        "restored": True,
        "status": "restored",
        "restored_at": rfc3339(transaction.now_ms),
        "created_at": rfc3339(row.created_at_ms),
        "bucket": row.bucket,
        "scope": row.scope,
        "label": row.item.get("label"),
        "session_id": row.item.get("session_id"),
        "snapshot": {
            "active_state": None if state is None else row_item(state, call.identity),
            "timeline": _listed(found.timeline, call),
            "reminders": _listed(found.reminders, call),
            "decisions": _listed(found.decisions, call),
        },
        "state_update": None if outcome is None else state_answer(outcome),
    }


def _listed(rows: Iterable[MemoryRow], call: Call) -> list[dict[str, object]]:
    return within((row_item(row, call.identity) for row in rows), 5)
