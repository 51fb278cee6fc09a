"""All acts of membership of one daemon, one at a time, as the owner's door calls them.

Contract: sync.md 7, 8; vault.md 9.3. The caller has asked for the passphrase where an act needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memory_manager.sync.ledger import device_names, marks, roster_log, state
from memory_manager.sync.ledger.journal import SyncJournal
from memory_manager.sync.membership import acts, recovering
from memory_manager.sync.membership.approving import Doorkeeper
from memory_manager.sync.membership.desk import Desk
from memory_manager.sync.membership.devices import (
    DeviceView,
    device_views,
    member_called,
    rotation_is_due,
)
from memory_manager.sync.membership.founding import (
    Enrolled,
    ServerAddress,
    found_vault,
    named_key,
    require_outside,
    visiting,
)
from memory_manager.sync.membership.joining import Invited, Newcomer
from memory_manager.sync.membership.letters import Offer
from memory_manager.sync.membership.recovering import Lost, NotedHead
from memory_manager.sync.membership.roster_entries import paper_device
from memory_manager.sync.service import SyncService
from memory_manager.sync.wire.enrolment import printable_name
from memory_manager.sync.wire.roster import Member

if TYPE_CHECKING:
    from memory_manager.vault.transaction import Transaction


class Membership:
    """One per daemon. What a member may do raises SyncOff while this vault is not synced."""

    def __init__(self, sync: SyncService, journal: SyncJournal) -> None:
        self._desk = Desk(sync, journal)
        self._newcomer = Newcomer(self._desk)
        self._doorkeeper = Doorkeeper(self._desk)

    # --- becoming a member --------------------------------------------------------------------

    async def look_at_server(self, address: ServerAddress) -> bytes:
        """The key that a server shows; SyncAlreadyOn, or what keeps it from being used."""
        async with self._desk.acting:
            await require_outside(self._desk)
            async with visiting(self._desk, address) as client:
                return await named_key(client, address)

    async def set_up(
        self,
        address: ServerAddress,
        registration_token: str,
        *,
        name: str,
        grant: bytes | None,
        words: str | None,
    ) -> Enrolled:
        """The first device of a new vault; without ``words`` nothing recovers it."""
        paper = None if words is None else paper_device(words)
        async with self._desk.acting:
            try:
                return await found_vault(
                    self._desk,
                    address,
                    registration_token,
                    name=printable_name(name),
                    grant=grant,
                    paper=paper,
                )
            finally:
                if paper is not None:
                    paper.wipe()

    async def ask_to_join(
        self, address: ServerAddress, *, name: str, grant: bytes | None
    ) -> Invited:
        async with self._desk.acting:
            return await self._newcomer.ask(address, name, grant)

    async def look_for_welcome(self) -> Enrolled | None:
        """None while nobody answered; EnrolmentExpired once it is too late."""
        async with self._desk.acting:
            return await self._newcomer.look()

    def seconds_left(self) -> int | None:
        """How long the shown string is good; None while nothing waits."""
        return self._newcomer.seconds_left()

    def stop_waiting(self) -> None:
        """The shown string is worth nothing from now on."""
        self._newcomer.give_up()

    async def recover(
        self,
        address: ServerAddress,
        vault: bytes,
        words: str,
        *,
        noted: NotedHead | None,
        name: str,
        grant: bytes | None,
    ) -> Enrolled:
        """This device by the recovery words of the vault."""
        paper = paper_device(words)
        async with self._desk.acting:
            try:
                return await recovering.recover(
                    self._desk, address, Lost(vault, paper, noted), name=name, grant=grant
                )
            finally:
                paper.wipe()

    # --- acts of a member ---------------------------------------------------------------------

    async def look_at_offer(self, text: str) -> tuple[str, Offer]:
        """A handle for the owner's word, and who asks."""
        async with self._desk.acting:
            return await self._doorkeeper.look(text)

    async def let_in(self, handle: str) -> Offer:
        async with self._desk.acting:
            return await self._doorkeeper.let_in(handle)

    async def decline(self, handle: str) -> None:
        """The owner said no to the device of an offer."""
        async with self._desk.acting:
            await self._doorkeeper.decline(handle)

    async def revoke(self, typed: str) -> Member:
        async with self._desk.acting:
            return await acts.revoke(self._desk, typed)

    async def rotate(self) -> int:
        """The new epoch."""
        async with self._desk.acting:
            return await acts.rotate(self._desk)

    async def leave(self, *, anyway: bool = False) -> bool:
        """Whether the server was told; ``anyway``: one out of reach needs not be."""
        async with self._desk.acting:
            return await acts.leave(self._desk, anyway=anyway)

    async def delete_shared(self) -> None:
        """The server forgets the vault; every device keeps its memories."""
        async with self._desk.acting:
            await acts.delete_shared(self._desk)

    async def announce_grant_key(self, public_key: bytes | None) -> bool:
        async with self._desk.acting:
            return await acts.announce_grant_key(self._desk, public_key)

    async def replace_words(self, words: str) -> bool:
        """Whether anything changed: these may be the vault's words already."""
        paper = paper_device(words)
        async with self._desk.acting:
            try:
                return await acts.replace_words(self._desk, paper)
            finally:
                paper.wipe()

    async def renew(self, *, grant: bytes | None) -> Enrolled:
        """Go on under a new device id after this device's state was lost."""
        async with self._desk.acting:
            return await recovering.renew(self._desk, grant=grant)

    # --- looking ------------------------------------------------------------------------------

    async def devices(self) -> tuple[Sequence[DeviceView], bool]:
        """Everybody who is or was a member, and whether somebody left without a new key since."""
        standing = await self._desk.standing()
        chain = await self._desk.sync.store.read(roster_log.chain)
        views = device_views(standing, chain, self._desk.secrets.device)
        return views, rotation_is_due(chain)

    async def call_device(self, typed: str, name: str) -> bytes:
        """Give a device another name; its id.

        The others learn it where they know none, and where a device names itself.
        """
        standing = await self._desk.standing()
        member = member_called(standing, typed)

        def store(transaction: Transaction) -> None:
            device_names.put(transaction, {member.id: name})
            if not state.must_enrol_again(transaction.connection):
                marks.write_mark(transaction)  # tells the others

        await self._desk.write(store)
        self._desk.sync.hint()
        return member.id
