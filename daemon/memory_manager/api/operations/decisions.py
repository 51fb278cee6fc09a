"""Decisions that somebody still has to take, and how they were taken (xmemo.md 6.7)."""

from __future__ import annotations

from collections.abc import Mapping

from memory_manager.api.calls import Call
from memory_manager.api.item_requests import parse_decision, parse_resolution, parse_status_list
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


async def create_decision(
    daemon: Daemon, call: Call, arguments: Mapping[str, object], key: IdempotencyKey | None
) -> Answer:
    """A new open decision, flat and as ``decision``."""
    return await created_item(daemon, call, parse_decision(arguments), "decision", key)


async def list_decisions(daemon: Daemon, call: Call, arguments: Mapping[str, object]) -> Answer:
    """``decisions`` and the same as ``items``; open ones unless ``item_status`` says otherwise."""
    asked = parse_status_list(arguments, RecordKind.DECISION)
    return await list_answer(daemon, call, asked, ("decisions", "items"))


async def resolve_decision(
    daemon: Daemon, call: Call, arguments: Mapping[str, object], key: IdempotencyKey | None
) -> Answer:
    """The decision ``id`` is taken; the same resolution again writes nothing, another replaces it.

    The stored resolution is compared after cleaning, so a resolution with a secret in it is a new
    version each time.
    """
    decision_id = memory_id_of(arguments)
    resolution = parse_resolution(arguments)

    def work(transaction: Transaction, call: Call) -> Written:
        row = item_of_kind(transaction.connection, decision_id, RecordKind.DECISION)
        known = item_status(row.item) is ItemStatus.RESOLVED
        if not known or row.item.get("resolution") != resolution:
            taken = {
                "item_status": ItemStatus.RESOLVED.value,
                "resolution": resolution,
                "resolved_at_ms": transaction.now_ms,
            }
            change = MemoryChange(item={**row.item, **taken})
            row = daemon.memories.update(transaction, row.id, change, call.attribution).row
        return Written(200, dual_item("decision", row, call))

    return await written(daemon, call, key, work)
