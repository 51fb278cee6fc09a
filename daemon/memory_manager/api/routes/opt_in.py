"""Opting memories in to the server: agents ask, the owner looks, approves and takes back.

Contract: sync.md 6, redaction.md 11. The passphrase comes in the body of the one act it is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from aiohttp import web

from memory_manager.api.answers import json_response
from memory_manager.api.calls import Access, call_of
from memory_manager.api.items import row_item
from memory_manager.api.operations.opt_in import request_opt_in
from memory_manager.api.parsing import Fields
from memory_manager.api.requests import parse_memory_id
from memory_manager.api.routing import Route, daemon_of
from memory_manager.api.write_once import writing
from memory_manager.base.errors import InvalidInput, NotFound
from memory_manager.base.identifiers import MemoryId
from memory_manager.base.times import rfc3339
from memory_manager.security.envelope import OPT_IN_NOTICE
from memory_manager.sync.engine.errors import SyncServerRefused
from memory_manager.sync.optin.approval import MAX_BATCH, SAMPLES, Approval
from memory_manager.vault.rows import MemoryRow

MAX_PASSPHRASE_CHARACTERS: Final = 1_024
MAX_TOKEN_DAYS: Final = 366
DEFAULT_TOKEN_DAYS: Final = 90
MAX_HITS: Final = 100


def _ids(body: dict[str, object]) -> tuple[MemoryId, ...]:
    listed = body.get("ids")
    if not isinstance(listed, list) or not 0 < len(cast("list[object]", listed)) <= MAX_BATCH:
        raise InvalidInput(f"ids must be a list of 1 to {MAX_BATCH} ids.", field="ids")
    return tuple(parse_memory_id(str(each)) for each in cast("list[object]", listed))


def _place(row: MemoryRow | None) -> dict[str, object]:
    if row is None:
        return {"path": None, "bucket": None, "content": None}
    return {"path": row.path, "bucket": row.bucket, "content": row.content}


async def listing(request: web.Request) -> web.Response:
    """What waits for the owner, and every memory that is opted in, blocked or on its way out."""
    found = await daemon_of(request).opt_ins.listing()
    requests = [
        {
            "id": asked.memory_id,
            "requested_at": rfc3339(asked.asked_at_ms),
            "agent_id": asked.agent_id,
            "client": asked.client,
            "reason": asked.reason,
            **_place(found.rows.get(asked.memory_id)),
        }
        for asked in found.requests
    ]
    opted_in = [
        {
            "id": opted.memory_id,
            "state": opted.state.value,
            "code": opted.code,
            **_place(found.rows.get(opted.memory_id)),
        }
        for opted in found.opted_in
    ]
    return json_response({"requests": requests, "opted_in": opted_in, "notice": OPT_IN_NOTICE})


async def preview(request: web.Request) -> web.Response:
    """Every id, how many, and three samples byte for byte as they would leave.

    ``digest`` names exactly this; ``type_count``: the owner has to type the number.
    """
    ids = _ids(call_of(request).json_object())
    daemon = daemon_of(request)
    seen = await daemon.opt_ins.preview(ids)
    server = await daemon.sync.connection()
    return json_response(
        {
            "count": len(seen.rows),
            "ids": [row.memory_id for row in seen.rows],
            "samples": [row.document.encode().decode() for row in seen.rows[:SAMPLES]],
            "blocked": [
                {"id": row.memory_id, "rules": list(row.rules)} for row in seen.rows if row.rules
            ],
            "digest": seen.digest,
            "type_count": seen.must_type,
            "server": None if server is None else server.url,
            "notice": OPT_IN_NOTICE,
        }
    )


async def approve(request: web.Request) -> web.Response:
    """The owner's grant over what ``digest`` names; needs the passphrase itself, every time."""
    call = call_of(request)
    body = call.json_object()
    fields = Fields.of_body(body)
    digest = fields.required_text("digest")
    passphrase = fields.required_text("passphrase", limit=MAX_PASSPHRASE_CHARACTERS)
    typed = fields.number("count", 0, MAX_BATCH)
    fields.check()
    asked = Approval(_ids(body), digest, None if typed is None else int(typed))
    daemon = daemon_of(request)
    daemon.writable_store()
    granted = await daemon.opt_ins.approve(asked, passphrase, call.attribution)
    ids: Sequence[str] = [row.memory_id for row in granted]
    return json_response({"approved": ids, "count": len(ids), "notice": OPT_IN_NOTICE})


async def decline(request: web.Request) -> web.Response:
    """Requests that are not granted go; a no takes nothing but the owner's token."""
    call = call_of(request)
    gone = await daemon_of(request).opt_ins.decline(_ids(call.json_object()), call.attribution)
    return json_response({"declined": gone, "count": len(gone)})


async def out(request: web.Request) -> web.Response:
    """Take memories back: here at once, at the server as soon as it answers."""
    call = call_of(request)
    taken = await daemon_of(request).opt_ins.opt_out(_ids(call.json_object()), call.attribution)
    return json_response({"taken_back": taken, "count": len(taken)})


async def search(request: web.Request) -> web.Response:
    """What hosted agents would find. The query goes to the server; the text is this vault's."""
    call = call_of(request)
    fields = Fields.of_body(call.json_object())
    query = fields.required_text("query", limit=4_000)
    limit = fields.clamped("limit", 10, 1, MAX_HITS)
    fields.check()
    found = await daemon_of(request).opt_ins.search(query, limit)
    results = [
        {**row_item(hit.row, call.identity), "score": round(hit.score, 6)} for hit in found.hits
    ]
    return json_response(
        {
            "results": results,
            "rejected": found.strangers,
            "alarm": found.is_alarming,
            "degraded": list(found.degraded),
        }
    )


async def status(request: web.Request) -> web.Response:
    """How many memories wait, are sent, are blocked and are on their way out."""
    return json_response({"opt_in": await daemon_of(request).opt_ins.counts()})


async def add_token(request: web.Request) -> web.Response:
    """Access for a hosted agent to what is opted in; an admin act. The token stands here only.

    ``server`` is the address at which the agent gives it.
    """
    call = call_of(request)
    fields = Fields.of_body(call.json_object())
    name = fields.required_text("name", limit=100)
    days = fields.clamped("days", DEFAULT_TOKEN_DAYS, 1, MAX_TOKEN_DAYS)
    fields.check()
    daemon = daemon_of(request)
    daemon.writable_store()
    await daemon.require_present_owner()
    issued = await daemon.opt_ins.issue_token(name, days, call.attribution)
    server = await daemon.sync.connection()
    return json_response({**issued, "server": None if server is None else server.url}, status=201)


async def tokens(request: web.Request) -> web.Response:
    return json_response(dict(await daemon_of(request).opt_ins.tokens()))


async def revoke_token(request: web.Request) -> web.Response:
    """A no takes nothing but the owner's token."""
    call = call_of(request)
    try:
        await daemon_of(request).opt_ins.revoke_token(request.match_info["token"], call.attribution)
    except SyncServerRefused as error:
        if error.reason != "NOT_FOUND":
            raise
        raise NotFound("There is no such token.", hint="See: memlocket opt-in tokens") from None
    return json_response({"revoked": request.match_info["token"]})


ROUTES: Final = (
    Route("POST", "/memories/{id}/opt-in", writing(request_opt_in), Access.WRITE),
    Route("GET", "/opt-in", listing, Access.OWNER),
    Route("GET", "/opt-in/status", status, Access.OWNER),
    Route("POST", "/opt-in/preview", preview, Access.OWNER),
    Route("POST", "/opt-in/approve", approve, Access.OWNER),
    Route("POST", "/opt-in/decline", decline, Access.OWNER),
    Route("POST", "/opt-in/out", out, Access.OWNER),
    Route("POST", "/opt-in/search", search, Access.OWNER),
    Route("POST", "/opt-in/tokens", add_token, Access.OWNER),
    Route("GET", "/opt-in/tokens", tokens, Access.OWNER),
    Route("POST", "/opt-in/tokens/{token}/revoke", revoke_token, Access.OWNER),
)
