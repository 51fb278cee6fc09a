"""A new device asks to be let in by a pasted string, and waits (sync.md 7.2).

What waits, waits in memory only, for ten minutes.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable

from memory_manager.sync.engine.client import SyncClient
from memory_manager.sync.engine.connection import base_url
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.membership.chain import entries_after
from memory_manager.sync.membership.desk import Desk
from memory_manager.sync.membership.epoch_keys import collect_keys
from memory_manager.sync.membership.errors import EnrolmentExpired, EnrolmentRefused
from memory_manager.sync.membership.founding import (
    Enrolled,
    ServerAddress,
    become_member,
    own_keys,
    require_outside,
    visiting,
)
from memory_manager.sync.membership.letters import (
    Greeter,
    Offer,
    Welcome,
    read_welcome,
)
from memory_manager.sync.membership.mailbox import check_head, is_member, take
from memory_manager.sync.wire.enrolment import (
    MAILBOX_SECONDS,
    SECRET_BYTES,
    Invitation,
    NewKeys,
    printable_name,
    sign_possession,
)
from memory_manager.sync.wire.labels import ID_BYTES
from memory_manager.sync.wire.log import ServerHead
from memory_manager.sync.wire.roster import Roster, roster_of
from memory_manager.vault import kdf


@dataclasses.dataclass(frozen=True, slots=True)
class Invited:
    """What the new device shows; the string is a secret until it is used or expires."""

    text: str = dataclasses.field(repr=False)
    url: str
    expires_in_seconds: int


@dataclasses.dataclass(frozen=True, slots=True)
class _Waiting:
    """The new device's side."""

    invitation: Invitation = dataclasses.field(repr=False)
    keys: NewKeys
    address: ServerAddress
    name: str
    deadline: float


class Newcomer:
    """A device that wants to join; at most one attempt at a time, the newest."""

    def __init__(self, desk: Desk, clock: Callable[[], float] = time.monotonic) -> None:
        self._desk = desk
        self._clock = clock
        self._waiting: _Waiting | None = None

    async def ask(self, address: ServerAddress, name: str, grant: bytes | None) -> Invited:
        """Leave an offer at the server and give the string that a member has to read."""
        await require_outside(self._desk)
        self.give_up()
        keys = own_keys(self._desk, grant)
        url = base_url(address.url)
        invitation = Invitation(os.urandom(ID_BYTES), keys.hash, os.urandom(SECRET_BYTES), url)
        signing = self._desk.secrets.signing_key()
        name = printable_name(name)
        offer = Offer(keys, name, sign_possession(keys, invitation.mailbox, signing))
        async with visiting(self._desk, address) as client:
            await client.put_mailbox(invitation.mailbox, "offer", offer.pack())
        deadline = self._clock() + MAILBOX_SECONDS
        self._waiting = _Waiting(invitation, keys, address, name, deadline)
        return Invited(invitation.text(), url, MAILBOX_SECONDS)

    def seconds_left(self) -> int | None:
        """How long the string is good; None while nothing waits."""
        waiting = self._waiting
        return None if waiting is None else max(0, int(waiting.deadline - self._clock()))

    async def look(self) -> Enrolled | None:
        """Join if the welcome is there; None while it is not.

        EnrolmentExpired, or what is wrong with the answer: then nothing waits any more.
        """
        waiting = self._waiting
        if waiting is None or self._clock() >= waiting.deadline:
            self.give_up()
            raise EnrolmentExpired
        async with visiting(self._desk, waiting.address) as client:
            letter = await take(client, waiting.invitation.mailbox, "welcome")
            if letter is None:
                return None
            self.give_up()
            return await self._enter(client, waiting, letter)

    def give_up(self) -> None:
        """Forget the attempt; its string is worth nothing from now on."""
        self._waiting = None

    async def _enter(self, client: SyncClient, waiting: _Waiting, letter: bytes) -> Enrolled:
        secrets = self._desk.secrets
        greeter, welcome = read_welcome(letter, waiting.invitation, secrets.box_key())
        with kdf.KeyMaterial(*welcome.epochs.values()) as held:
            client.identify(welcome.vault, secrets, welcome.server_key)
            chain = await entries_after(client, -1)
            roster = roster_of(chain, welcome.vault)
            _check_members(roster, welcome, greeter, waiting.keys)
            keys = collect_keys(
                chain, roster, secrets.device, bytes(secrets.box_key()), welcome.epochs
            )
            for vrk in keys.values():
                held.keep(vrk)
            if roster.epoch not in keys:
                raise SyncRefused(SyncCode.WAITING_KEY)
            seen = ServerHead(welcome.n, welcome.g)
            await check_head(client, welcome.vault, welcome.server_key, seen)
            told = {each: name for each, name in welcome.names.items() if each in roster.members}
            called = {**told, secrets.device: waiting.name}
            return await become_member(
                self._desk,
                waiting.address,
                welcome.server_key,
                welcome.vault,
                chain,
                keys,
                called,
                expected=seen,
            )


def _check_members(roster: Roster, welcome: Welcome, greeter: Greeter, keys: NewKeys) -> None:
    """The one who answered is active, and we were added with exactly our keys."""
    if welcome.roster not in roster.positions:
        raise EnrolmentRefused("The server shows another device list than the one who answered.")
    by = roster.members.get(welcome.checkpoint.value.device)
    if by is None or not by.is_active or Greeter(by.ed25519, by.x25519) != greeter:
        raise EnrolmentRefused("The device that answered is not on the vault's device list.")
    if not is_member(roster, keys):
        raise EnrolmentRefused("This device is not on the vault's device list.")
