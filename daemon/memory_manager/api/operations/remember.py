"""Store one memory (xmemo.md 6.2)."""

from __future__ import annotations

from collections.abc import Mapping

from memory_manager.api.calls import Call
from memory_manager.api.items import write_answer
from memory_manager.api.operations.answer import Answer, Written, written
from memory_manager.api.requests import parse_draft
from memory_manager.service.daemon import Daemon
from memory_manager.vault.idempotency import IdempotencyKey
from memory_manager.vault.rows import WriteStatus
from memory_manager.vault.transaction import Transaction


async def remember(
    daemon: Daemon, call: Call, arguments: Mapping[str, object], key: IdempotencyKey | None
) -> Answer:
    """201 for a new row, 200 for one that was updated in place or was there already."""
    draft = parse_draft(arguments)

    def work(transaction: Transaction, call: Call) -> Written:
        outcome = daemon.memories.remember(transaction, draft, call.attribution)
        status = 201 if outcome.status is WriteStatus.CREATED else 200
        return Written(status, write_answer(outcome))

    return await written(daemon, call, key, work)
