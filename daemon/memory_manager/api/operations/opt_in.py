"""An agent asks the owner to opt a memory in; it cannot do more (sync.md 6.3)."""

from __future__ import annotations

from collections.abc import Mapping

from memory_manager.api.calls import Call
from memory_manager.api.operations.answer import Answer, Written, written
from memory_manager.api.operations.memory import memory_id_of
from memory_manager.api.parsing import Fields
from memory_manager.security.envelope import OPT_IN_NOTICE
from memory_manager.service.daemon import Daemon
from memory_manager.sync.optin.requests import MAX_REASON_CHARACTERS, file_request
from memory_manager.vault.idempotency import IdempotencyKey
from memory_manager.vault.transaction import Transaction


async def request_opt_in(
    daemon: Daemon, call: Call, arguments: Mapping[str, object], key: IdempotencyKey | None
) -> Answer:
    """File a request that waits for the owner; nothing leaves and nothing of the memory changes."""
    memory_id = memory_id_of(arguments)
    fields = Fields.of_body(arguments)
    reason = fields.text("reason", limit=MAX_REASON_CHARACTERS)
    fields.check()

    def work(transaction: Transaction, call: Call) -> Written:
        filed = file_request(transaction, memory_id, call.attribution, reason)
        body = {
            "id": memory_id,
            "status": "awaiting_owner" if filed else "unchanged",
            "notice": OPT_IN_NOTICE,
        }
        return Written(202 if filed else 200, body)

    return await written(daemon, call, key, work)
