"""POST /v1/remember: store one memory (xmemo.md 6.2)."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from memory_manager.api.calls import Access, Call, call_of
from memory_manager.api.items import write_answer
from memory_manager.api.requests import parse_draft
from memory_manager.api.routing import Route, daemon_of
from memory_manager.api.write_once import Written, write_once
from memory_manager.vault.rows import WriteStatus
from memory_manager.vault.transaction import Transaction


async def remember(request: web.Request) -> web.Response:
    """201 for a new row, 200 for one that was updated in place or was there already."""
    daemon = daemon_of(request)
    body = call_of(request).json_object()
    draft = parse_draft(body)

    def work(transaction: Transaction, call: Call) -> Written:
        outcome = daemon.memories.remember(transaction, draft, call.attribution)
        status = 201 if outcome.status is WriteStatus.CREATED else 200
        return Written(status, write_answer(outcome))

    return await write_once(request, body, work)


ROUTES: Final = (Route("POST", "/remember", remember, Access.WRITE),)
