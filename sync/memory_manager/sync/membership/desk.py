"""What every act of membership does alike: read the state, sign on top of it, post, take it in.

The server says which entry came first; who loses the race builds its entry anew.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeVar

from memory_manager.sync.engine import own_state
from memory_manager.sync.engine.client import SyncClient
from memory_manager.sync.engine.device_secrets import DeviceSecrets
from memory_manager.sync.engine.errors import SyncOff, SyncServerRefused
from memory_manager.sync.engine.rosters import changes
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.ledger import device_names, keybag, roster_log, state, verified
from memory_manager.sync.ledger.journal import SyncJournal
from memory_manager.sync.ledger.state import SyncState
from memory_manager.sync.membership.chain import entries_after
from memory_manager.sync.membership.errors import RosterMoved
from memory_manager.sync.membership.following import follow
from memory_manager.sync.membership.roster_entries import PaperDevice, Rotation, Signer
from memory_manager.sync.service import SyncService
from memory_manager.sync.wire.acceptance import NO_ENTRY, VerifiedLog
from memory_manager.sync.wire.roster import Roster, SignedEntry
from memory_manager.vault import kdf

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

T = TypeVar("T")

ATTEMPTS: Final = 5
REFUSED_LOGIN: Final = frozenset({401, 403, 404})
"""How a server answers whom it does not know, or knows no more."""


@dataclasses.dataclass(frozen=True, slots=True)
class Standing:
    """What is known and verified when an entry is signed."""

    state: SyncState
    roster: Roster
    log: VerifiedLog
    names: dict[bytes, str]

    def last_of(self, device: bytes) -> tuple[int, bytes]:
        """Position and head of a device's last verified row."""
        entry = self.log.devices.get(device, NO_ENTRY)
        return entry.seq, entry.head


class Desk:
    """The tools of the acts; one per daemon. Coroutines run on its loop, one act at a time."""

    def __init__(self, sync: SyncService, journal: SyncJournal) -> None:
        self.sync = sync
        self.journal = journal
        self.acting = asyncio.Lock()

    @property
    def secrets(self) -> DeviceSecrets:
        return self.sync.secrets

    @property
    def client(self) -> SyncClient:
        return self.sync.client

    async def state(self) -> SyncState | None:
        return await self.sync.store.read(state.read)

    async def standing(self) -> Standing:
        """SyncOff when this vault is not synced."""
        found = await self.sync.store.read(_standing)
        if found is None:
            raise SyncOff
        return found

    async def write(self, work: Callable[[Transaction], T]) -> T:
        return await self.sync.store.write(work)

    def signer(self, standing: Standing) -> Signer:
        """This device, at its last verified row."""
        device = self.secrets.device
        return Signer(device, self.secrets.signing_key(), standing.last_of(device)[0])

    async def pull_first(self) -> None:
        """One round before an act; SyncRefused with the code of the stop that keeps it from going.

        A server out of reach is no stop: the act itself finds that out.
        """
        await self.sync.sync_now()
        stop = (await self.standing()).state.stop_code
        if stop is not None:
            raise SyncRefused(stop)

    async def catch_up(self) -> None:
        """Take in what others did to the roster and what needs nobody's word.

        SyncRefused: ROSTER_CHANGED where the owner must agree first, ROSTER_FORK.
        """
        known = (await self.standing()).state
        newer = await entries_after(self.client, known.roster_idx, known.roster_hash)
        asked = [each for each in changes(newer, self.secrets.device) if not each.is_harmless]
        if asked:
            self.sync.poke()  # a round stops for it and asks
            raise SyncRefused(SyncCode.ROSTER_CHANGED, device=asked[0].by, n=asked[0].idx)
        await self.take_in(newer)

    async def take_in(self, entries: tuple[SignedEntry, ...]) -> None:
        """Store entries with the keys they bring; SyncRefused if one does not hold."""
        secrets = self.secrets
        if entries:
            await self.write(lambda transaction: follow(transaction, entries, secrets))

    async def post(self, build: Callable[[Standing], Awaitable[SignedEntry | None]]) -> bool:
        """Sign with ``build``, post, take in; again from the new state when another was faster.

        ``build`` may find that nothing is left to do and give None: then False. RosterMoved after
        some attempts.
        """
        for _ in range(ATTEMPTS):
            await self.catch_up()
            entry = await build(await self.standing())
            if entry is None:
                return False
            try:
                await self.client.post_roster(entry)
            except SyncServerRefused as error:
                if error.reason == "ROSTER_HEAD":
                    continue
                if error.reason == "GAP":  # a cut before rows that we have not seen yet
                    await self.pull_first()
                    continue
                raise
            await self.take_in((entry,))
            self.sync.hint()
            return True
        raise RosterMoved

    async def new_rotation(self, standing: Standing, held: kdf.KeyMaterial) -> Rotation:
        """A random key for the next epoch and the present one; both are wiped with ``held``.

        Whoever made the present epoch without a key for this device is not waited for: without it
        the next one starts anew, or nobody could ever shut that member out.
        """
        epoch = standing.roster.epoch
        present = await self.sync.store.read(lambda connection: keybag.vrk(connection, epoch))
        return Rotation(held.keep(kdf.new_key()), None if present is None else held.keep(present))


async def note_words(desk: Desk, paper: PaperDevice) -> None:
    """Before anybody is asked to let these words recover the vault."""
    member, commitment = paper.keys.device, paper.commitment
    await desk.write(lambda transaction: own_state.note_words(transaction, commitment, member))


def _standing(connection: Connection) -> Standing | None:
    found, roster = state.read(connection), roster_log.load(connection)
    if found is None or roster is None:
        return None
    known = device_names.read(connection)
    names = {device: name for device, name in known.items() if device in roster.members}
    return Standing(found, roster, verified.load(connection), names)
