"""Mailboxes of an enrolment: 64 KiB, ten minutes, each side written once and read once.

Contract: sync.md 7.2. No session: the new device has none yet. The id is the secret of the two.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from memory_manager.sync.server.answers import empty_answer, octets_answer
from memory_manager.sync.server.call import Access, Call, Route
from memory_manager.sync.server.errors import Malformed
from memory_manager.sync.server.storage import MailSide
from memory_manager.sync.wire.enrolment import MAX_MAILBOX_BYTES


async def post(call: Call) -> web.StreamResponse:
    """Leave the message of one side."""
    host = call.host
    payload = call.octets()
    if not payload:
        raise Malformed
    mailbox, side = call.path_id("mailbox"), _side(call)
    host.mails.take(None)
    now = host.clock_ms()
    await host.storage.put_mail(
        mailbox,
        side,
        payload,
        origin=host.tickets.mark(call.address.encode()),
        max_per_origin=host.settings.quotas.mailboxes_per_ip,
        now_ms=now,
        expires_at_ms=now + round(host.settings.limits.mailbox_seconds * 1000),
    )
    return empty_answer(201)


async def take(call: Call) -> web.StreamResponse:
    """The message of one side, once."""
    host = call.host
    mailbox, side = call.path_id("mailbox"), _side(call)
    return octets_answer(await host.storage.take_mail(mailbox, side, host.clock_ms()))


def _side(call: Call) -> MailSide:
    try:
        return MailSide(call.request.query.get("side", ""))
    except ValueError:
        raise Malformed from None


ROUTES: Final = (
    Route("POST", "/v1/mailbox/{mailbox}", post, Access.OPEN, MAX_MAILBOX_BYTES),
    Route("GET", "/v1/mailbox/{mailbox}", take, Access.OPEN),
)
