"""The verified roster of each vault, kept beside the stored chain and advanced by what is new.

The server checks rosters only as hygiene (sync.md 7.1): clients trust nothing but the chain.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

from memory_manager.sync.server.refusals import VaultUnknown
from memory_manager.sync.server.storage import Storage
from memory_manager.sync.wire.roster import Roster, SignedEntry, roster_of

KEPT_ROSTERS: Final = 200


class Rosters:
    """Rosters of the vaults that were asked for lately. Used on the event loop only."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._kept: OrderedDict[bytes, Roster] = OrderedDict()

    async def current(self, vault: bytes) -> Roster:
        """The roster as stored now; VaultUnknown."""
        known = self._kept.get(vault)
        page = await self._storage.roster(vault, len(known.positions) - 1 if known else -1)
        if known is not None and not page.entries and page.head != known.head:
            known = None  # the database was put back to an older state
            page = await self._storage.roster(vault, -1)
        roster = known
        if page.entries:
            roster = await asyncio.to_thread(_verified, vault, known, page.entries)
        if roster is None:
            raise VaultUnknown
        self._keep(roster)
        return roster

    def forget(self, vault: bytes) -> None:
        self._kept.pop(vault, None)

    def _keep(self, roster: Roster) -> None:
        self._kept[roster.vault] = roster
        self._kept.move_to_end(roster.vault)
        if len(self._kept) > KEPT_ROSTERS:
            self._kept.popitem(last=False)


def _verified(vault: bytes, known: Roster | None, entries: tuple[SignedEntry, ...]) -> Roster:
    if known is None:
        return roster_of(entries, vault)
    return known.verify(entries)
