"""A member lets a device in: reads the string, shows the name, adds it, hands over (sync.md 7.2).

An offer that was read waits for the owner's word in memory only, for ten minutes.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable

from memory_manager.sync.engine.connection import base_url
from memory_manager.sync.engine.errors import SyncOff, SyncServerRefused
from memory_manager.sync.errors import MalformedMessage
from memory_manager.sync.ledger import device_names, keybag
from memory_manager.sync.membership import roster_entries
from memory_manager.sync.membership.desk import Desk, Standing
from memory_manager.sync.membership.errors import EnrolmentExpired, EnrolmentRefused
from memory_manager.sync.membership.letters import (
    Greeter,
    Offer,
    Welcome,
    pack_declined,
    pack_welcome,
    read_offer,
)
from memory_manager.sync.membership.mailbox import GONE, is_member, take
from memory_manager.sync.membership.roster_entries import Possession
from memory_manager.sync.wire.enrolment import MAILBOX_SECONDS, Invitation, read_invitation
from memory_manager.sync.wire.framing import Signed
from memory_manager.sync.wire.labels import ID_BYTES
from memory_manager.sync.wire.log import Checkpoint, sign_checkpoint
from memory_manager.sync.wire.roster import SignedEntry
from memory_manager.vault import kdf


@dataclasses.dataclass(frozen=True, slots=True)
class _Shown:
    """The member's side: an offer that was read and waits for the owner's word."""

    invitation: Invitation = dataclasses.field(repr=False)
    offer: Offer
    deadline: float


class Doorkeeper:
    """A member that lets new devices in."""

    def __init__(self, desk: Desk, clock: Callable[[], float] = time.monotonic) -> None:
        self._desk = desk
        self._clock = clock
        self._shown: dict[str, _Shown] = {}

    async def look(self, text: str) -> tuple[str, Offer]:
        """The offer behind a pasted string, and a handle by which the owner agrees to it."""
        connection = await self._desk.sync.connection()
        if connection is None:
            raise SyncOff
        try:
            invitation = read_invitation(text)
            same_server = base_url(invitation.url) == connection.url
        except MalformedMessage as error:
            raise EnrolmentRefused(error.message) from None
        if not same_server:
            raise EnrolmentRefused("The string is for another server than this vault's.")
        now = self._clock()
        self._shown = {key: shown for key, shown in self._shown.items() if shown.deadline > now}
        letter = await take(self._desk.client, invitation.mailbox, "offer")
        if letter is None:
            raise EnrolmentExpired("No device waits with this string.")
        offer = read_offer(letter, invitation)
        handle = os.urandom(ID_BYTES).hex()
        self._shown[handle] = _Shown(invitation, offer, now + MAILBOX_SECONDS)
        return handle, offer

    async def let_in(self, handle: str) -> Offer:
        """Add the device to the roster and hand it the vault. An admin act."""
        shown = self._shown.get(handle)
        if shown is None or self._clock() >= shown.deadline:
            raise EnrolmentExpired
        keys, name = shown.offer.keys, shown.offer.name
        desk, proof = self._desk, Possession(shown.offer.possession, shown.invitation.mailbox)

        async def build(now: Standing) -> SignedEntry | None:
            if is_member(now.roster, keys):
                return None  # an earlier attempt got this far
            return roster_entries.add(now.roster, desk.signer(now), keys, proof)

        await desk.catch_up()  # who was let in before is on the list, and keeps its name
        # first, so that the mark of the new entry tells the others
        await desk.write(lambda transaction: device_names.expect(transaction, keys.device, name))
        await desk.post(build)
        await self._welcome(shown)
        del self._shown[handle]
        return shown.offer

    async def decline(self, handle: str) -> None:
        """Tell the device of an offer that it is not let in; its string is used up."""
        shown = self._shown.pop(handle, None)
        if shown is None:
            raise EnrolmentExpired
        await self._put(shown.invitation, pack_declined(shown.invitation, self._greeter()))

    async def _welcome(self, shown: _Shown) -> None:
        desk, standing = self._desk, await self._desk.standing()
        state = standing.state
        seq, head = standing.last_of(desk.secrets.device)
        said = Checkpoint(state.vault, desk.secrets.device, seq, head, state.n, state.g)
        with kdf.KeyMaterial() as held:
            epochs = await desk.sync.store.read(
                lambda connection: keybag.keep_all(connection, held)
            )
            letter = pack_welcome(
                Welcome(
                    vault=state.vault,
                    epochs=epochs,
                    roster=standing.roster.head,
                    server_key=state.server_key,
                    n=state.n,
                    g=state.g,
                    checkpoint=Signed(said, sign_checkpoint(desk.secrets.signing_key(), said)),
                    names=standing.names,
                ),
                shown.invitation,
                self._greeter(),
                desk.secrets.box_key(),
                shown.offer.keys.x25519,
            )
        await self._put(shown.invitation, letter)

    def _greeter(self) -> Greeter:
        secrets = self._desk.secrets
        return Greeter(bytes(secrets.signing_key().verify_key), bytes(secrets.box_key().public_key))

    async def _put(self, invitation: Invitation, letter: bytes) -> None:
        try:
            await self._desk.client.put_mailbox(invitation.mailbox, "welcome", letter)
        except SyncServerRefused as error:
            if error.reason in GONE:
                raise EnrolmentExpired from None
            raise
