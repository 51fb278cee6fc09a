"""Reminders, which clients also call todos: made, listed, completed (xmemo.md 6.7)."""

from __future__ import annotations

from collections.abc import Mapping

from memory_manager.api.calls import Call
from memory_manager.api.item_requests import parse_note, parse_reminder, parse_status_list
from memory_manager.api.operations.answer import Answer, Written, written
from memory_manager.api.operations.item_access import (
    created_item,
    dual_item,
    item_of_kind,
    list_answer,
)
from memory_manager.api.operations.memory import memory_id_of
from memory_manager.service.daemon import Daemon
from memory_manager.vault.idempotency import IdempotencyKey
from memory_manager.vault.item_fields import ItemStatus, item_status
from memory_manager.vault.rows import MemoryChange, RecordKind
from memory_manager.vault.transaction import Transaction


async def create_reminder(
    daemon: Daemon, call: Call, arguments: Mapping[str, object], key: IdempotencyKey | None
) -> Answer:
    """A new open reminder, flat and as ``reminder``."""
    return await created_item(daemon, call, parse_reminder(arguments), "reminder", key)


async def list_reminders(daemon: Daemon, call: Call, arguments: Mapping[str, object]) -> Answer:
    """``reminders`` and the same as ``items``; open ones unless ``item_status`` says otherwise."""
    asked = parse_status_list(arguments, RecordKind.REMINDER)
    return await list_answer(daemon, call, asked, ("reminders", "items"))


async def complete_reminder(
    daemon: Daemon, call: Call, arguments: Mapping[str, object], key: IdempotencyKey | None
) -> Answer:
    """The reminder ``id`` is done; done twice is done, with nothing written."""
    reminder_id = memory_id_of(arguments)
    note = parse_note(arguments)

    def work(transaction: Transaction, call: Call) -> Written:
        row = item_of_kind(transaction.connection, reminder_id, RecordKind.REMINDER)
        if item_status(row.item) is not ItemStatus.COMPLETED:
            done = {
                "item_status": ItemStatus.COMPLETED.value,
                "completed_at_ms": transaction.now_ms,
            }
            change = MemoryChange(item={**row.item, **done, **({"note": note} if note else {})})
            row = daemon.memories.update(transaction, row.id, change, call.attribution).row
        return Written(200, dual_item("reminder", row, call))

    return await written(daemon, call, key, work)
