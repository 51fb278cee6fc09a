"""Many memories at once: list, export and import (xmemo.md 5 #39; vault.md 4.2 for the export).

Export and import stream whole histories, for the owner: they are no operations of an agent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any, Final, cast

from aiohttp import web
from sqlcipher3.dbapi2 import Connection

from memory_manager.api.answers import (
    add_fixed_headers,
    json_response,
    json_text,
)
from memory_manager.api.callers import still_valid
from memory_manager.api.calls import Access, Call, call_of
from memory_manager.api.operations.listing import list_memories
from memory_manager.api.parsing import Fields
from memory_manager.api.reading import reading
from memory_manager.api.routing import Route, daemon_of
from memory_manager.base.errors import InvalidInput, MemlocketError, NotFound, TooLarge
from memory_manager.base.times import now_ms
from memory_manager.capture.errors import InvalidRecord
from memory_manager.capture.records import parse_record, record_as_json, record_from_row
from memory_manager.capture.replay import ReplayOutcome, replay_record
from memory_manager.security.redact.export import shorten_marks_in
from memory_manager.service.daemon import Daemon
from memory_manager.vault import queries
from memory_manager.vault.errors import Conflict
from memory_manager.vault.filters import RowFilter
from memory_manager.vault.store import Store
from memory_manager.vault.transaction import Transaction

MAX_IMPORT_RECORDS: Final = 256
MAX_IMPORT_BYTES: Final = 64 << 20  # a record may carry many long versions; owner only
EXPORT_TYPE: Final = "application/x-ndjson"

_EXPORT_ROWS_AT_ONCE: Final = 100
_ID_PREFIX: Final = re.compile(r"[0-9a-f]{8,32}")
_REFUSALS: Final = (Conflict, InvalidInput, InvalidRecord, NotFound, TooLarge)


async def export(request: web.Request) -> web.StreamResponse:
    """Archive records of every kind, one per line, oldest first. An admin act: a fresh passphrase
    is needed. ``short_marks`` leaves the rule out of every redaction mark (redaction.md 7).
    """
    daemon = daemon_of(request)
    await asyncio.to_thread(daemon.lifecycle.require_admin)
    store = daemon.store()
    fields = Fields.of_query(dict(request.query))
    chosen = RowFilter(
        include_deleted=fields.flag("include_deleted"), include_hidden=True, kinds=None
    )
    rendering = shorten_marks_in if fields.flag("short_marks") else _as_it_is
    rowids = await store.read(lambda connection: queries.list_rowids(connection, chosen, now_ms()))
    response = web.StreamResponse()
    response.content_type = EXPORT_TYPE
    add_fixed_headers(response)
    await response.prepare(request)
    for start in range(0, len(rowids), _EXPORT_ROWS_AT_ONCE):
        some = rowids[start : start + _EXPORT_ROWS_AT_ONCE]
        lines = await _export_lines(store, some, chosen, rendering)
        await response.write(lines)
    await response.write_eof()
    return response


def _as_it_is(record: dict[str, Any]) -> dict[str, Any]:
    return record


async def _export_lines(
    store: Store,
    rowids: list[int],
    chosen: RowFilter,
    rendering: Callable[[dict[str, Any]], dict[str, Any]],
) -> bytes:
    def read(connection: Connection) -> bytes:
        lines: list[str] = []
        for rowid in rowids:
            row = queries.row_by_rowid(connection, rowid)
            if row is None or (row.status == "deleted" and not chosen.include_deleted):
                continue  # forgotten since the export began
            record = record_from_row(row, queries.versions(connection, row.id))
            lines.append(json_text(rendering(record_as_json(record))) + "\n")
        return "".join(lines).encode("utf-8", "replace")

    return await store.read(read)


async def import_records(request: web.Request) -> web.Response:
    """Up to 256 archive records, each whole or not at all; one outcome per record, same order.

    With ``dry_run`` every record is stored and taken back, so that only its outcome remains.
    """
    call = call_of(request)
    value = call.json_value()
    body = cast("dict[str, object]", value) if isinstance(value, dict) else {"records": value}
    records, dry_run = body.get("records"), body.get("dry_run") is True
    if not isinstance(records, list):
        raise InvalidInput("records must be a list.", field="records")
    listed = cast("list[object]", records)
    if len(listed) > MAX_IMPORT_RECORDS:
        raise InvalidInput(f"At most {MAX_IMPORT_RECORDS} records at once.", field="records")
    daemon = daemon_of(request)
    store = daemon.writable_store()
    # one unit of work each: the writer groups them, and a bad record harms no other
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(_import_one(daemon, store, call, item, dry_run=dry_run))
            for item in listed
        ]
    return json_response({"results": [task.result() for task in tasks], "dry_run": dry_run})


class _TakenBack(Exception):
    """Carries the outcome of a record out of the savepoint that is rolled back."""

    def __init__(self, outcome: ReplayOutcome) -> None:
        super().__init__()
        self.outcome = outcome


async def _import_one(
    daemon: Daemon, store: Store, call: Call, document: object, *, dry_run: bool
) -> dict[str, object]:
    if not isinstance(document, dict):
        return _refused(InvalidInput("A record must be an object."))
    try:
        record = parse_record(cast("dict[str, object]", document))

        def unit(transaction: Transaction) -> ReplayOutcome:
            still_valid(transaction.connection, call.caller)
            outcome = replay_record(transaction, daemon.memories, record, call.attribution)
            if dry_run:
                raise _TakenBack(outcome)
            return outcome

        outcome = await store.write(unit)
    except _TakenBack as rehearsed:
        outcome = rehearsed.outcome
    except _REFUSALS as error:
        return _refused(error)
    return {
        "id": outcome.id,
        "memory_id": outcome.id,
        "status": outcome.status.value,
        "version": outcome.versions,
        "redactions": list(outcome.redactions),
    }


def _refused(error: MemlocketError) -> dict[str, object]:
    return {"status": "refused", "error": {"code": error.code, "message": error.message}}


async def find_ids(request: web.Request) -> web.Response:
    """At most two ids of records that begin with ``prefix``: eight or more hex digits."""
    fields = Fields.of_query(dict(request.query))
    digits = fields.required_text("prefix").replace("-", "").lower()
    if not _ID_PREFIX.fullmatch(digits):
        fields.refuse("prefix", "must be 8 to 32 hexadecimal digits")
    fields.check()
    found = await daemon_of(request).store().read(lambda c: queries.ids_with_prefix(c, digits))
    return json_response({"ids": list(found)})


ROUTES: Final = (
    Route("GET", "/memories", reading(list_memories), Access.READ),
    Route("GET", "/memories/ids", find_ids, Access.OWNER),
    Route("GET", "/memories/export", export, Access.OWNER),
    Route(
        "POST",
        "/memories/import",
        import_records,
        Access.OWNER,
        max_body_bytes=MAX_IMPORT_BYTES,
    ),
)
