"""What waits for the owner, and the owner's word on it: logins, and memories to destroy.

Contract: xmemo.md 9 and 10 (a human approves), 6.5 (``awaiting_owner``); vault.md 4.2.
"""

from __future__ import annotations

from typing import Final, cast

from aiohttp import web
from sqlcipher3.dbapi2 import Connection

from memory_manager.api.answers import json_response
from memory_manager.api.calls import Access, call_of
from memory_manager.api.login_approval import approve_login, login_json
from memory_manager.api.parsing import Fields
from memory_manager.api.routing import Route, daemon_of
from memory_manager.base.errors import InvalidInput
from memory_manager.base.identifiers import MemoryId
from memory_manager.base.times import rfc3339
from memory_manager.vault import queries
from memory_manager.vault.destruction import Waiting, waiting_for_destruction
from memory_manager.vault.rows import ForgetMode
from memory_manager.vault.transaction import Transaction

MAX_DESTROYED_AT_ONCE: Final = 1_000


async def approvals(request: web.Request) -> web.Response:
    """Every login that waits, oldest first."""
    daemon = daemon_of(request)
    desk = daemon.logins.desk
    waiting = [login_json(desk, login) for login in desk.pending()]
    return json_response({"approvals": waiting, "auto_approve": daemon.settings.auto_approve})


async def approve(request: web.Request) -> web.Response:
    daemon = daemon_of(request)
    login = await approve_login(daemon, request.match_info["code"])
    return json_response({"status": "approved", **login_json(daemon.logins.desk, login)})


async def deny(request: web.Request) -> web.Response:
    """A no takes nothing but the owner's token."""
    desk = daemon_of(request).logins.desk
    login = desk.decide(request.match_info["code"], approve=False)
    return json_response({"status": "denied", **login_json(desk, login)})


async def destructions(request: web.Request) -> web.Response:
    """Deleted memories that an agent asked to destroy, oldest request first."""

    def read(connection: Connection) -> tuple[int, list[Waiting]]:
        count = queries.count_awaiting_destruction(connection)
        return count, waiting_for_destruction(connection)

    count, waiting = await daemon_of(request).store().read(read)
    shown = [
        {
            "id": entry.row.id,
            "path": entry.row.path,
            "bucket": entry.row.bucket,
            "content": entry.row.content,
            "requested_at": rfc3339(entry.requested_at_ms),
            "deleted_by": entry.row.writer.client,
        }
        for entry in waiting
    ]
    return json_response({"count": count, "memories": shown})


async def destroy(request: web.Request) -> web.Response:
    """Destroy waiting memories with every version: ``ids``, or ``all``. An admin act.

    An id that does not wait is left alone and not counted.
    """
    call = call_of(request)
    body = call.json_object()
    fields = Fields.of_body(body)
    every = fields.flag("all")
    wanted = body.get("ids")
    if not every and not isinstance(wanted, list):
        raise InvalidInput("Name the ids, or send all.", field="ids")
    chosen = {str(each) for each in cast("list[object]", wanted or [])}
    daemon = daemon_of(request)
    store = daemon.writable_store()
    await daemon.require_present_owner()

    def work(transaction: Transaction) -> list[MemoryId]:
        waiting = queries.awaiting_destruction(transaction.connection, limit=MAX_DESTROYED_AT_ONCE)
        gone = [each for each in waiting if every or each in chosen]
        for memory_id in gone:
            daemon.memories.forget(
                transaction,
                memory_id,
                ForgetMode.HARD_DELETE,
                call.attribution,
                owner_confirmed=True,
            )
        return gone

    destroyed = await store.write(work)
    return json_response({"destroyed": destroyed, "count": len(destroyed)})


ROUTES: Final = (
    Route("GET", "/approvals", approvals, Access.OWNER),
    Route("POST", "/approvals/{code}/approve", approve, Access.OWNER),
    Route("POST", "/approvals/{code}/deny", deny, Access.OWNER),
    Route("GET", "/destructions", destructions, Access.OWNER),
    Route("POST", "/destructions", destroy, Access.OWNER),
)
