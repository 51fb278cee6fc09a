"""One memory by its id: read, explain, change, forget, restore, history, use (xmemo.md 6.5)."""

from __future__ import annotations

from collections.abc import Mapping

from sqlcipher3.dbapi2 import Connection

from memory_manager.api.calls import Access, Call, may
from memory_manager.api.errors import OutOfScope
from memory_manager.api.items import row_item, version_item, write_answer
from memory_manager.api.operations.answer import Answer, Written, answer, written
from memory_manager.api.operations.item_access import readable_row
from memory_manager.api.requests import (
    parse_change,
    parse_forget,
    parse_memory_id,
    parse_restore,
)
from memory_manager.base.errors import NotFound
from memory_manager.base.identifiers import MemoryId
from memory_manager.security.gate import Surface, may_recall
from memory_manager.service.daemon import Daemon
from memory_manager.vault import queries
from memory_manager.vault.idempotency import IdempotencyKey
from memory_manager.vault.rows import ForgetMode, MemoryRow, MemoryVersion, RecordKind, WriteStatus
from memory_manager.vault.transaction import Transaction

ID_MEMBER = "id"


def memory_id_of(arguments: Mapping[str, object]) -> MemoryId:
    """The id an operation is about; NotFound for anything that cannot be one of ours."""
    value = arguments.get(ID_MEMBER)
    return parse_memory_id(value if isinstance(value, str) else "")


def _check_ledger(call: Call, row: MemoryRow | None, access: Access) -> None:
    """OutOfScope for an expense without the ledger's right; its id is in lists without it, too."""
    if row is not None and row.kind is RecordKind.EXPENSE and not may(call.caller, access):
        raise OutOfScope


def _reachable(
    connection: Connection, call: Call, memory_id: MemoryId, access: Access, *, deleted: bool
) -> MemoryRow:
    """The row of an id, expired or not; NotFound for one that is unknown or that the gate holds
    back. ``access``: what an expense asks of the caller.
    """
    row = queries.get_row(connection, memory_id, include_deleted=deleted)
    if row is None or not may_recall(row.envelope, row.metadata, Surface.LOCAL).allowed:
        raise NotFound
    _check_ledger(call, row, access)
    return row


def _check_forgettable(connection: Connection, call: Call, memory_id: MemoryId) -> None:
    """NotFound for a row that the gate holds back, forgotten or not."""
    row = queries.get_row(connection, memory_id, include_deleted=True)
    if row is not None and not may_recall(row.envelope, row.metadata, Surface.LOCAL).allowed:
        raise NotFound
    _check_ledger(call, row, Access.LEDGER_WRITE)


def _readable(
    connection: Connection, call: Call, memory_id: MemoryId, access: Access = Access.LEDGER_READ
) -> MemoryRow:
    """The live row of an id; NotFound for one that no recall would show."""
    row = readable_row(connection, memory_id)
    if row is None:
        raise NotFound
    _check_ledger(call, row, access)
    return row


async def get(daemon: Daemon, call: Call, arguments: Mapping[str, object]) -> Answer:
    """The row as an item, flat."""
    memory_id = memory_id_of(arguments)
    row = await daemon.store().read(lambda connection: _readable(connection, call, memory_id))
    return answer(row_item(row, call.identity))


async def explain(daemon: Daemon, call: Call, arguments: Mapping[str, object]) -> Answer:
    """The row with its provenance and, for a ``query``, why it is or is not found."""
    memory_id = memory_id_of(arguments)
    row = await daemon.store().read(lambda connection: _readable(connection, call, memory_id))
    query = arguments.get("query") or arguments.get("q")
    writer = row.writer
    body: dict[str, object] = {
        "memory": row_item(row, call.identity),
        "provenance": {
            **row.provenance,
            "written_by": writer.identity.agent_id,
            "client": writer.client,
            "version": row.version,
            "redactions": list(row.redactions),
            "ruleset_version": row.ruleset_version,
        },
    }
    if isinstance(query, str) and query:
        body["match"] = await daemon.recall.explain(memory_id, query)
    return answer(body)


async def update(
    daemon: Daemon, call: Call, arguments: Mapping[str, object], key: IdempotencyKey | None
) -> Answer:
    """Change what was sent and leave the rest; merged text is sanitized again."""
    memory_id = memory_id_of(arguments)
    change = parse_change(arguments)

    def work(transaction: Transaction, call: Call) -> Written:
        _readable(transaction.connection, call, memory_id, Access.LEDGER_WRITE)
        outcome = daemon.memories.update(transaction, memory_id, change, call.attribution)
        body = row_item(outcome.row, call.identity)
        body["redactions"] = list(outcome.row.redactions)
        return Written(200, body)

    return await written(daemon, call, key, work)


async def versions(daemon: Daemon, call: Call, arguments: Mapping[str, object]) -> Answer:
    """All versions, oldest first. The owner also sees those of a forgotten or expired row."""
    memory_id = memory_id_of(arguments)

    def read(connection: Connection) -> list[MemoryVersion]:
        if call.caller.is_owner:
            _reachable(connection, call, memory_id, Access.LEDGER_READ, deleted=True)
        else:
            _readable(connection, call, memory_id)
        return queries.versions(connection, memory_id)

    found = await daemon.store().read(read)
    return answer(
        {
            "id": memory_id,
            "memory_id": memory_id,
            "versions": [version_item(version, call.identity) for version in found],
        }
    )


async def forget(
    daemon: Daemon, call: Call, arguments: Mapping[str, object], key: IdempotencyKey | None
) -> Answer:
    """Out of every reply before this answer is sent; forgetting twice answers the same."""
    memory_id = memory_id_of(arguments)
    asked = parse_forget(arguments)
    confirmed = call.caller.is_owner and daemon.owner_is_present()

    def work(transaction: Transaction, call: Call) -> Written:
        _check_forgettable(transaction.connection, call, memory_id)
        daemon.memories.forget(
            transaction,
            memory_id,
            asked.mode,
            call.attribution,
            asked.reason,
            asked.replacement,
            owner_confirmed=confirmed,
        )
        redacted = asked.mode is ForgetMode.REDACT
        status = WriteStatus.REDACTED if redacted else WriteStatus.DELETED
        body: dict[str, object] = {
            "id": memory_id,
            "memory_id": memory_id,
            "status": status.value,
            "mode": asked.mode.value,
        }
        if asked.mode is ForgetMode.HARD_DELETE:
            body["hard_delete"] = "done" if confirmed else "awaiting_owner"
        return Written(200, body)

    return await written(daemon, call, key, work)


async def restore(
    daemon: Daemon, call: Call, arguments: Mapping[str, object], key: IdempotencyKey | None
) -> Answer:
    """Bring a forgotten row back, or an older version forward, as a new version."""
    memory_id = memory_id_of(arguments)
    asked = parse_restore(arguments)

    def work(transaction: Transaction, call: Call) -> Written:
        _reachable(transaction.connection, call, memory_id, Access.LEDGER_WRITE, deleted=True)
        outcome = daemon.memories.restore(
            transaction, memory_id, call.attribution, version=asked.version, reason=asked.reason
        )
        return Written(200, write_answer(outcome))

    return await written(daemon, call, key, work)


async def usage(
    daemon: Daemon, call: Call, arguments: Mapping[str, object], key: IdempotencyKey | None
) -> Answer:
    """Count one use; the documented fields are accepted and not kept."""
    memory_id = memory_id_of(arguments)

    def work(transaction: Transaction, call: Call) -> Written:
        _readable(transaction.connection, call, memory_id, Access.LEDGER_WRITE)
        daemon.memories.mark_used(transaction, memory_id)
        return Written(200, {"id": memory_id, "memory_id": memory_id, "recorded": True})

    return await written(daemon, call, key, work)
