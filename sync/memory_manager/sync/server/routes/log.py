"""Rows come in as batches and go out as pages (sync.md 9.3).

What is checked here is what any reader could check: forms, classes, and who signed the batch. Order
and chains are the storage's; content is nobody's but the clients'.
"""

from __future__ import annotations

import asyncio
from typing import Final

from aiohttp import web

from memory_manager.sync.errors import MalformedMessage, RowRefused, SyncCode
from memory_manager.sync.server.answers import json_answer, octets_answer
from memory_manager.sync.server.call import Call, Route
from memory_manager.sync.server.errors import (
    BodyOverLimit,
    ClassPolicyBroken,
    Malformed,
    UnknownSignature,
)
from memory_manager.sync.server.refusals import SessionEnd, SessionRefused
from memory_manager.sync.server.server_key import ServerKey
from memory_manager.sync.server.storage import Appended, DeviceState, StoredPage
from memory_manager.sync.wire.envelope import read_header
from memory_manager.sync.wire.framing import (
    COUNT_BYTES,
    MAX_PULL_BYTES,
    MAX_PUSH_BYTES,
    MAX_PUSH_ROWS,
    PUSH_FRAME_BYTES,
    ROW_FRAME_BYTES,
    LogRow,
    Page,
    Push,
    Signed,
    pack_page,
    unpack_push,
)
from memory_manager.sync.wire.log import (
    ServerHead,
    checkpoint_verifies,
    sign_server_head,
)

MAX_PULL_ROWS: Final = 5_000
DEFAULT_PULL_ROWS: Final = 500

_COUNT: Final = slice(PUSH_FRAME_BYTES - COUNT_BYTES, PUSH_FRAME_BYTES)


async def push(call: Call) -> web.StreamResponse:
    """Store one batch of one author. The author is whoever signed the checkpoint: normally the
    session's device, another one where rows are brought back to a restored server.
    """
    session, host = call.session, call.host
    batch = await asyncio.to_thread(_unpacked, call.octets())
    if batch.session_epoch != session.epoch:
        raise SessionRefused(SessionEnd.UNKNOWN)
    said = batch.checkpoint.value
    if said.vault != session.vault or not batch.rows:
        raise Malformed
    author = await host.storage.device(session.vault, said.device)
    try:
        await asyncio.to_thread(_check, batch, author)
    except ClassPolicyBroken:
        for mount in host.mounts:
            await mount.class_refused(session.vault, session.device)
        raise
    host.entries.take(session.vault, len(batch.rows))
    stored: Appended = await host.storage.append(session.vault, batch.rows, batch.checkpoint)
    host.metrics.count("rows_pushed", stored.added)
    host.metrics.count("body_bytes_pushed", len(call.body))
    head = host.head_json(session.vault, stored.head)
    return json_answer({"head": head, "first_n": stored.first_n})


async def pull(call: Call) -> web.StreamResponse:
    """The rows after ``after``: at most ``limit`` and 8 MiB, with both heads signed."""
    session, host = call.session, call.host
    after = call.number("after", 0, 0)
    limit = call.number("limit", DEFAULT_PULL_ROWS, 1, MAX_PULL_ROWS)
    page = await host.storage.page(session.vault, after, limit, MAX_PULL_BYTES)
    body = await asyncio.to_thread(_packed, page, session.vault, host.key)
    host.metrics.count("rows_pulled", len(page.rows))
    host.metrics.count("body_bytes_pulled", len(body))
    return octets_answer(body)


def _unpacked(body: bytes) -> Push:
    """The batch; BodyOverLimit for one that only has too many rows, MalformedMessage otherwise."""
    try:
        return unpack_push(body)
    except MalformedMessage:
        count = int.from_bytes(body[_COUNT], "big")
        if MAX_PUSH_ROWS < count <= (len(body) - _COUNT.stop) // ROW_FRAME_BYTES:
            raise BodyOverLimit from None
        raise


def _check(batch: Push, author: DeviceState) -> None:
    for row in batch.rows:
        _check_row(row)
    signed = batch.checkpoint
    if not checkpoint_verifies(signed.value, signed.signature, author.ed25519):
        raise UnknownSignature


def _check_row(row: LogRow) -> None:
    """The readable header must be that of the entry, and its class that of its policy."""
    if not row.row.body:
        return  # a forgotten row on its way back to a server that lost it: only its entry is left
    try:
        header = read_header(row.row.body)
    except RowRefused as error:
        raise (ClassPolicyBroken if error.reason is SyncCode.CLASS_POLICY else Malformed) from None
    entry = row.entry
    named = (header.vault, header.dot.device, header.dot.seq)
    if named != (entry.vault, entry.device, entry.seq):
        raise Malformed


def _packed(page: StoredPage, vault: bytes, key: ServerKey) -> bytes:
    def signed(head: ServerHead) -> Signed[ServerHead]:
        return Signed(head, sign_server_head(key.signing, vault, head))

    return pack_page(Page(page.rows, page.checkpoints, signed(page.head), signed(page.tip)))


ROUTES: Final = (
    Route("POST", "/v1/log/push", push, max_body_bytes=MAX_PUSH_BYTES),
    Route("GET", "/v1/log/pull", pull),
)
