"""Content keys wrapped anew after a rotation (sync.md 8, 9.1)."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from memory_manager.sync.server.answers import json_answer
from memory_manager.sync.server.call import Call, Route, member_hex
from memory_manager.sync.server.errors import Malformed
from memory_manager.sync.server.storage import WrapRow
from memory_manager.sync.wire.envelope import WRAP_BYTES
from memory_manager.sync.wire.labels import HASH_BYTES

MAX_BODY_BYTES: Final = 1 << 20
MAX_PULL_WRAPS: Final = 2_000
DEFAULT_PULL_WRAPS: Final = 1_000


async def push(call: Call) -> web.StreamResponse:
    """Store wraps of rows that the vault has; none of an epoch the roster does not know."""
    session, host = call.session, call.host
    wraps = _wraps(call)
    host.entries.take(session.vault, len(wraps))
    roster = await host.rosters.current(session.vault)
    if not all(1 <= wrap.epoch <= roster.epoch for wrap in wraps):
        raise Malformed
    return json_answer({"stored": await host.storage.put_wraps(session.vault, wraps)})


async def pull(call: Call) -> web.StreamResponse:
    """Wraps in the order they were stored, behind a cursor."""
    after = call.number("after", 0, 0)
    limit = call.number("limit", DEFAULT_PULL_WRAPS, 1, MAX_PULL_WRAPS)
    page = await call.host.storage.wraps(call.session.vault, after, limit)
    wraps = [
        {"body_hash": row.body_hash.hex(), "epoch": row.epoch, "wrap": row.wrap.hex()}
        for row in page.wraps
    ]
    return json_answer({"wraps": wraps, "cursor": page.cursor})


def _wraps(call: Call) -> list[WrapRow]:
    listed = call.json().get("wraps")
    if not isinstance(listed, list):
        raise Malformed
    found: list[WrapRow] = []
    for item in listed:
        if not isinstance(item, dict):
            raise Malformed
        body_hash = member_hex(item, "body_hash", HASH_BYTES)
        found.append(WrapRow(body_hash, member_hex(item, "wrap", WRAP_BYTES)))
    return found


ROUTES: Final = (
    Route("POST", "/v1/wrap/push", push, max_body_bytes=MAX_BODY_BYTES),
    Route("GET", "/v1/wrap/pull", pull),
)
