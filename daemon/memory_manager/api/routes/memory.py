"""One memory by its id: read, explain, change, forget, restore, history, use (xmemo.md 6.5)."""

from __future__ import annotations

from typing import Final

from aiohttp import web
from sqlcipher3.dbapi2 import Connection

from memory_manager.api.answers import json_response
from memory_manager.api.calls import Access, Call, call_of
from memory_manager.api.items import row_item, version_item, write_answer
from memory_manager.api.operations.answer import Written
from memory_manager.api.requests import (
    parse_change,
    parse_forget,
    parse_memory_id,
    parse_restore,
)
from memory_manager.api.routing import Route, daemon_of
from memory_manager.api.write_once import write_once
from memory_manager.base.errors import NotFound
from memory_manager.base.identifiers import MemoryId
from memory_manager.base.times import now_ms
from memory_manager.security.gate import Surface, may_recall
from memory_manager.vault import queries
from memory_manager.vault.rows import ForgetMode, MemoryRow, MemoryVersion, WriteStatus
from memory_manager.vault.transaction import Transaction


def _id_of(request: web.Request) -> MemoryId:
    return parse_memory_id(request.match_info["id"])


def _reachable(connection: Connection, memory_id: MemoryId, *, deleted: bool) -> MemoryRow:
    """The row of an id; NotFound for one that is unknown or that the gate holds back."""
    row = queries.get_row(connection, memory_id, include_deleted=deleted)
    if row is None or not may_recall(row.envelope, row.metadata, Surface.LOCAL).allowed:
        raise NotFound
    return row


def _check_gate(connection: Connection, memory_id: MemoryId) -> None:
    """NotFound for a row that the gate holds back, forgotten or not."""
    row = queries.get_row(connection, memory_id, include_deleted=True)
    if row is not None and not may_recall(row.envelope, row.metadata, Surface.LOCAL).allowed:
        raise NotFound


def _readable(connection: Connection, memory_id: MemoryId) -> MemoryRow:
    """The live row of an id; an expired one counts as unknown, as it does in every recall."""
    row = _reachable(connection, memory_id, deleted=False)
    if row.expires_at_ms is not None and row.expires_at_ms <= now_ms():
        raise NotFound
    return row


async def get(request: web.Request) -> web.Response:
    memory_id = _id_of(request)
    store = daemon_of(request).store()
    row = await store.read(lambda connection: _readable(connection, memory_id))
    return json_response(row_item(row, call_of(request).identity))


async def explain(request: web.Request) -> web.Response:
    """The row with its provenance and, for a ``query``, why it is or is not found."""
    memory_id = _id_of(request)
    daemon = daemon_of(request)
    row = await daemon.store().read(lambda connection: _readable(connection, memory_id))
    query = request.query.get("query") or request.query.get("q")
    writer = row.writer
    answer: dict[str, object] = {
        "memory": row_item(row, call_of(request).identity),
        "provenance": {
            **row.provenance,
            "written_by": writer.identity.agent_id,
            "client": writer.client,
            "version": row.version,
            "redactions": list(row.redactions),
            "ruleset_version": row.ruleset_version,
        },
    }
    if query:
        answer["match"] = await daemon.recall.explain(memory_id, query)
    return json_response(answer)


async def patch(request: web.Request) -> web.Response:
    daemon = daemon_of(request)
    memory_id = _id_of(request)
    body = call_of(request).json_object()
    change = parse_change(body)

    def work(transaction: Transaction, call: Call) -> Written:
        _readable(transaction.connection, memory_id)
        outcome = daemon.memories.update(transaction, memory_id, change, call.attribution)
        answer = row_item(outcome.row, call.identity)
        answer["redactions"] = list(outcome.row.redactions)
        return Written(200, answer)

    return await write_once(request, body, work)


async def versions(request: web.Request) -> web.Response:
    """All versions, oldest first. The owner also sees those of a forgotten row."""
    memory_id = _id_of(request)
    call = call_of(request)

    def read(connection: Connection) -> list[MemoryVersion]:
        _reachable(connection, memory_id, deleted=call.caller.is_owner)
        return queries.versions(connection, memory_id)

    found = await daemon_of(request).store().read(read)
    return json_response(
        {
            "id": memory_id,
            "memory_id": memory_id,
            "versions": [version_item(version, call.identity) for version in found],
        }
    )


async def forget(request: web.Request) -> web.Response:
    """Out of every reply before this answer is sent; forgetting twice answers the same."""
    daemon = daemon_of(request)
    memory_id = _id_of(request)
    body = call_of(request).json_object()
    asked = parse_forget(body)
    confirmed = call_of(request).caller.is_owner and daemon.owner_is_present()

    def work(transaction: Transaction, call: Call) -> Written:
        _check_gate(transaction.connection, memory_id)
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
        answer: dict[str, object] = {
            "id": memory_id,
            "memory_id": memory_id,
            "status": status.value,
            "mode": asked.mode.value,
        }
        if asked.mode is ForgetMode.HARD_DELETE:
            answer["hard_delete"] = "done" if confirmed else "awaiting_owner"
        return Written(200, answer)

    return await write_once(request, body, work)


async def restore(request: web.Request) -> web.Response:
    """Bring a forgotten row back, or an older version forward, as a new version."""
    daemon = daemon_of(request)
    memory_id = _id_of(request)
    body = call_of(request).json_object()
    asked = parse_restore(body)

    def work(transaction: Transaction, call: Call) -> Written:
        _reachable(transaction.connection, memory_id, deleted=True)
        outcome = daemon.memories.restore(
            transaction, memory_id, call.attribution, version=asked.version, reason=asked.reason
        )
        return Written(200, write_answer(outcome))

    return await write_once(request, body, work)


async def usage(request: web.Request) -> web.Response:
    """Count one use; the documented fields are accepted and not kept."""
    daemon = daemon_of(request)
    memory_id = _id_of(request)
    body = call_of(request).json_object()

    def work(transaction: Transaction, _call: Call) -> Written:
        _readable(transaction.connection, memory_id)
        daemon.memories.mark_used(transaction, memory_id)
        return Written(200, {"id": memory_id, "memory_id": memory_id, "recorded": True})

    return await write_once(request, body, work)


ROUTES: Final = (
    Route("GET", "/memories/{id}", get, Access.READ),
    Route("PATCH", "/memories/{id}", patch, Access.WRITE),
    Route("GET", "/memories/{id}/explain", explain, Access.READ),
    Route("GET", "/memories/{id}/versions", versions, Access.READ),
    Route("POST", "/memories/{id}/forget", forget, Access.WRITE),
    Route("POST", "/memories/{id}/restore", restore, Access.WRITE),
    Route("POST", "/memories/{id}/usage", usage, Access.WRITE),
)
