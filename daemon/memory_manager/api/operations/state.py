"""Working state in slots (xmemo.md 6.6): one state per owner, bucket, scope and key."""

from __future__ import annotations

from collections.abc import Mapping

from sqlcipher3.dbapi2 import Connection

from memory_manager.api.calls import Call
from memory_manager.api.item_requests import DEFAULT_STATE_KEY, ITEM_BUCKET, parse_state
from memory_manager.api.items import row_item
from memory_manager.api.operations.answer import Answer, Written, answer, written
from memory_manager.api.parsing import Fields
from memory_manager.base.errors import NotFound
from memory_manager.base.times import now_ms, rfc3339
from memory_manager.service.daemon import Daemon
from memory_manager.vault import items
from memory_manager.vault.idempotency import IdempotencyKey
from memory_manager.vault.rows import MemoryRow, WriteOutcome, WriteStatus
from memory_manager.vault.transaction import Transaction


async def update_state(
    daemon: Daemon, call: Call, arguments: Mapping[str, object], key: IdempotencyKey | None
) -> Answer:
    """Replace the state of a slot as a whole, as its next version."""
    asked = parse_state(arguments)

    def work(transaction: Transaction, call: Call) -> Written:
        draft = asked.at(transaction.now_ms)
        outcome = daemon.memories.remember(transaction, draft, call.attribution)
        status = 201 if outcome.status is WriteStatus.CREATED else 200
        return Written(status, state_answer(outcome))

    return await written(daemon, call, key, work)


def state_answer(outcome: WriteOutcome) -> dict[str, object]:
    """The flat answer of a write to a slot."""
    row = outcome.row
    expires = row.expires_at_ms
    return {
        "id": row.id,
        "memory_id": row.id,
        "state_id": row.id,
        "state_key": row.semantic_key,
        "version": row.version,
        "status": row.status.value,
        "bucket": row.bucket,
        "scope": row.scope,
        "expires_at": None if expires is None else rfc3339(expires),
        "redactions": list(row.redactions),
    }


async def get_state(daemon: Daemon, call: Call, arguments: Mapping[str, object]) -> Answer:
    """The state in a slot as an item; NotFound when it is empty or has expired."""
    fields = Fields.of_body(arguments)
    state_key = fields.text("state_key") or DEFAULT_STATE_KEY
    bucket = fields.filter_text("bucket") or ITEM_BUCKET
    scope = fields.filter_text("scope")
    fields.check()

    def read(connection: Connection) -> MemoryRow | None:
        return items.state_in_slot(connection, bucket, scope, state_key, now_ms())

    row = await daemon.store().read(read)
    if row is None:
        raise NotFound("There is no such state.")
    return answer(row_item(row, call.identity))
