"""What both sides of an enrolment look at: the mailbox, the member list, the server's head."""

from __future__ import annotations

from typing import Final

from memory_manager.sync.engine.client import SyncClient
from memory_manager.sync.engine.errors import SyncServerRefused
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.membership.errors import EnrolmentExpired, EnrolmentRefused
from memory_manager.sync.wire.enrolment import NewKeys
from memory_manager.sync.wire.framing import Page
from memory_manager.sync.wire.log import ServerHead, server_head_verifies
from memory_manager.sync.wire.roster import Roster

GONE: Final = frozenset({"GONE", "MAILBOX_TAKEN"})
"""Codes of a mailbox that was read already, used, or whose time is over."""


async def check_head(client: SyncClient, vault: bytes, server_key: bytes, seen: ServerHead) -> None:
    """The server stands to the log as somebody else saw it.

    SyncRefused: ROLLBACK when it has less, EQUIVOCATION when another history, SERVER_KEY.
    """
    page = await client.pull(max(0, seen.n - 1), 1)
    check_signatures(page, vault, server_key)
    if page.tip.value.n < seen.n:
        raise SyncRefused(SyncCode.ROLLBACK, n=page.tip.value.n)
    if seen.n and page.page_head.value != seen:
        raise SyncRefused(SyncCode.EQUIVOCATION, n=seen.n)


def check_signatures(page: Page, vault: bytes, server_key: bytes) -> None:
    """Both statements of a page are of this server and vault; SyncRefused(SERVER_KEY)."""
    for said in (page.page_head, page.tip):
        if not server_head_verifies(vault, said.value, said.signature, server_key):
            raise SyncRefused(SyncCode.SERVER_KEY)


def is_member(roster: Roster, keys: NewKeys) -> bool:
    """Active with these very keys; EnrolmentRefused when the id is taken by others or ended."""
    member = roster.members.get(keys.device)
    if member is None:
        return False
    if not member.is_active or (member.ed25519, member.x25519, member.grant) != (
        keys.ed25519,
        keys.x25519,
        keys.grant,
    ):
        raise EnrolmentRefused("This device id was used before; the new device needs another one.")
    return True


async def take(client: SyncClient, mailbox: bytes, side: str) -> bytes | None:
    """The letter on that side, ``offer`` or ``welcome``; None while there is none yet.

    EnrolmentExpired for one that was read already or whose time is over.
    """
    try:
        return await client.take_mailbox(mailbox, side)
    except SyncServerRefused as error:
        if error.reason in GONE or error.status == 410:
            raise EnrolmentExpired from None
        raise
