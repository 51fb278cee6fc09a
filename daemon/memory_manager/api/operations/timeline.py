"""The timeline: what happened, in the order it happened (xmemo.md 6.6)."""

from __future__ import annotations

from collections.abc import Mapping

from memory_manager.api.calls import Call
from memory_manager.api.item_requests import parse_event, parse_timeline
from memory_manager.api.operations.answer import Answer, Written, written
from memory_manager.api.operations.item_access import dual_item, list_answer
from memory_manager.service.daemon import Daemon
from memory_manager.vault.idempotency import IdempotencyKey
from memory_manager.vault.rows import SkippedCapture
from memory_manager.vault.transaction import Transaction


async def record_event(
    daemon: Daemon, call: Call, arguments: Mapping[str, object], key: IdempotencyKey | None
) -> Answer:
    """A new event, flat and as ``event``.

    Agents send events by themselves, so this is capture (xmemo.md 14): one with a private key in it
    is skipped, and the answer says so and has no id.
    """
    draft = parse_event(arguments)

    def work(transaction: Transaction, call: Call) -> Written:
        outcome = daemon.memories.capture(transaction, draft, call.attribution)
        if isinstance(outcome, SkippedCapture):
            return Written(
                200, {"skipped": True, "status": "skipped", "rules": list(outcome.rules)}
            )
        return Written(201, dual_item("event", outcome.row, call))

    return await written(daemon, call, key, work)


async def get_timeline(daemon: Daemon, call: Call, arguments: Mapping[str, object]) -> Answer:
    """``events``, newest first. Bucket ``work`` unless asked otherwise; ``%`` is every bucket."""
    return await list_answer(daemon, call, parse_timeline(arguments), ("events",))
