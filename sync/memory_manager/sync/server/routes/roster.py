"""The roster chain: read by whoever is in it, added to by an entry that verifies (sync.md 7.1, 8).

The session's device need not be the signer: a device that kept the chain may bring the entries
that a restored server lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from aiohttp import web

from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.server.answers import json_answer
from memory_manager.sync.server.call import ENTRY_BODY_BYTES, Call, Route, signed_entry
from memory_manager.sync.server.errors import Malformed, UnknownSignature
from memory_manager.sync.server.refusals import DeviceCut, RosterHead
from memory_manager.sync.server.storage import RosterPage
from memory_manager.sync.wire.canonical import decode, is_count
from memory_manager.sync.wire.roster import Roster, SignedEntry
from memory_manager.sync.wire.roster_json import entry_json

MAX_ANSWER_BYTES: Final = 720_000  # of documents, so that the answer stays below 1 MiB


async def read(call: Call) -> web.StreamResponse:
    """Entries after ``after``, as many as one answer holds; ``head`` is that of the whole chain."""
    after = call.number("after", -1, -1)
    page = await call.host.storage.roster(call.session.vault, after)
    entries = [entry_json(entry) for entry in _bounded(page)]
    return json_answer({"entries": entries, "head": page.head.hex()})


async def post(call: Call) -> web.StreamResponse:
    """One more entry. Whom it revokes is out at once: sessions, waits and later rows."""
    session, host = call.session, call.host
    entry = signed_entry(call.json())
    before = await host.rosters.current(session.vault)
    if entry.hash == before.head:
        return _added(before)
    _check_place(entry, before)
    after = await asyncio.to_thread(_advanced, before, entry)
    await host.storage.append_roster(
        session.vault,
        len(before.positions),
        before.head,
        entry,
        tuple(after.members.values()),
    )
    for member in _cut_now(before, after):
        host.waiters.end_device(session.vault, member)
    return _added(after)


def _added(roster: Roster) -> web.StreamResponse:
    return json_answer({"idx": len(roster.positions) - 1, "head": roster.head.hex()}, status=201)


def _check_place(entry: SignedEntry, roster: Roster) -> None:
    """RosterHead unless the entry names the last one as the one before it."""
    document = decode(entry.document)
    if not is_count(document.get("idx")) or document.get("vault") != roster.vault.hex():
        raise Malformed
    if document.get("prev") != roster.head.hex():
        raise RosterHead(len(roster.positions) - 1, roster.head)


def _advanced(roster: Roster, entry: SignedEntry) -> Roster:
    try:
        return roster.verify((entry,))
    except SyncRefused as error:
        if error.reason is SyncCode.REVOKED_DEVICE:
            raise DeviceCut from None
        if error.reason is SyncCode.UNKNOWN_DEVICE:
            raise UnknownSignature from None
        raise Malformed from None
    except (ValueError, TypeError):  # a key of another length
        raise Malformed from None


def _cut_now(before: Roster, after: Roster) -> list[bytes]:
    return [
        member.id
        for member in after.members.values()
        if not member.is_active and (old := before.members.get(member.id)) and old.is_active
    ]


def _bounded(page: RosterPage) -> Sequence[SignedEntry]:
    size = 0
    for count, entry in enumerate(page.entries):
        size += len(entry.document)
        if size > MAX_ANSWER_BYTES and count:
            return page.entries[:count]
    return page.entries


ROUTES: Final = (
    Route("GET", "/v1/roster", read),
    Route("POST", "/v1/roster", post, max_body_bytes=ENTRY_BODY_BYTES),
)
