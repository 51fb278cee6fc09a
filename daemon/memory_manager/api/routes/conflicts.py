"""Memories that two devices changed at once, and the owner's word on them (sync.md 5)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from aiohttp import web
from sqlcipher3.dbapi2 import Connection

from memory_manager.api.answers import json_response
from memory_manager.api.calls import Access, call_of
from memory_manager.api.parsing import Fields
from memory_manager.api.requests import parse_memory_id
from memory_manager.api.routing import Route, daemon_of
from memory_manager.base.errors import InvalidInput, NotFound
from memory_manager.base.identifiers import MemoryId
from memory_manager.base.times import rfc3339
from memory_manager.service.daemon import Daemon
from memory_manager.sync.ledger import conflicts, device_names
from memory_manager.sync.ledger.conflicts import ConflictedRecord, Sibling
from memory_manager.sync.wire.envelope import Dot, dot_from_hex
from memory_manager.vault.rows import MemoryChange, WriteOutcome
from memory_manager.vault.transaction import Transaction

MAX_CONTENT_CHARACTERS: Final = 1_000_000
MAX_LISTED: Final = 100


def _sibling_json(sibling: Sibling, called: Mapping[bytes, str]) -> dict[str, object]:
    contents = sibling.contents
    return {
        "revision": sibling.dot.hex(),
        "device": sibling.dot.device.hex(),
        "device_name": called.get(sibling.dot.device),
        "shown": sibling.is_winner,
        "written_at": rfc3339(sibling.at_ms),
        "agent_id": sibling.writer.identity.agent_id,
        "client": sibling.writer.client,
        "content": None if contents is None else contents.content,
        "path": None if contents is None else contents.path,
    }


def _record_json(record: ConflictedRecord, called: Mapping[bytes, str]) -> dict[str, object]:
    return {"id": record.id, "revisions": [_sibling_json(each, called) for each in record.siblings]}


async def listed(request: web.Request) -> web.Response:
    """Memories with several current revisions; the one that recall shows comes first."""
    store = daemon_of(request).store()

    def read(connection: Connection) -> dict[str, object]:
        called = device_names.read(connection)
        found = conflicts.listed(connection, limit=MAX_LISTED)
        return {
            "conflicts": [_record_json(each, called) for each in found],
            "total": conflicts.count(connection),
        }

    return json_response(await store.read(read))


async def get(request: web.Request) -> web.Response:
    memory_id = parse_memory_id(request.match_info["id"])

    def read(connection: Connection) -> dict[str, object] | None:
        found = conflicts.of_record(connection, memory_id)
        return None if found is None else _record_json(found, device_names.read(connection))

    found = await daemon_of(request).store().read(read)
    if found is None:
        raise NotFound("This memory is not in conflict.", hint="See: memlocket conflicts")
    return json_response(found)


async def keep(request: web.Request) -> web.Response:
    """One revision becomes the only one, on all devices; the others stay in its history."""
    call = call_of(request)
    memory_id = parse_memory_id(request.match_info["id"])
    fields = Fields.of_body(call.json_object())
    revision = _revision(fields.required_text("revision"))
    fields.check()
    daemon = daemon_of(request)

    def decide(transaction: Transaction) -> WriteOutcome:
        return conflicts.keep(transaction, daemon.memories, memory_id, revision, call.attribution)

    return await _decided(daemon, memory_id, decide)


async def merge(request: web.Request) -> web.Response:
    """A text of the owner's own becomes the only revision, on all devices."""
    call = call_of(request)
    memory_id = parse_memory_id(request.match_info["id"])
    fields = Fields.of_body(call.json_object())
    content = fields.required_text("content", limit=MAX_CONTENT_CHARACTERS)
    fields.check()
    daemon, change = daemon_of(request), MemoryChange(content=content)

    def decide(transaction: Transaction) -> WriteOutcome:
        return conflicts.merge(transaction, daemon.memories, memory_id, change, call.attribution)

    return await _decided(daemon, memory_id, decide)


async def _decided(
    daemon: Daemon, memory_id: MemoryId, decide: Callable[[Transaction], WriteOutcome]
) -> web.Response:
    await daemon.writable_store().write(decide)
    daemon.sync.poke()
    return json_response({"id": memory_id, "resolved": True})


def _revision(text: str) -> Dot:
    try:
        return dot_from_hex(text)
    except (ValueError, TypeError):
        raise InvalidInput("A revision has 48 hex digits.", field="revision") from None


ROUTES: Final = (
    Route("GET", "/conflicts", listed, Access.OWNER),
    Route("GET", "/conflicts/{id}", get, Access.OWNER),
    Route("POST", "/conflicts/{id}/keep", keep, Access.OWNER),
    Route("POST", "/conflicts/{id}/merge", merge, Access.OWNER),
)
