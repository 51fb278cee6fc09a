"""Vaults with batches to be pushed to a server's storage, as their devices would make them."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from sync_world import Device, Founded, Keys

from memory_manager.sync.server.open_storage import open_storage
from memory_manager.sync.server.storage import Appended, Quota, Storage, StoredPage, WrapRow
from memory_manager.sync.wire.framing import MAX_PULL_BYTES, LogRow, Signed
from memory_manager.sync.wire.log import FIRST_GLOBAL_HEAD, Checkpoint, ServerHead, next_global_head

MAX_TEXT = 300


@dataclasses.dataclass(frozen=True)
class Pushed:
    """One batch: its rows and the author's checkpoint at its end."""

    rows: tuple[LogRow, ...]
    checkpoint: Signed[Checkpoint]

    @property
    def author(self) -> bytes:
        return self.checkpoint.value.device


class StoredVault:
    """A founded vault and its devices; nothing is stored before ``create``."""

    def __init__(self, seed: str, devices: int = 2) -> None:
        self.source = random.Random(seed)
        self.founded = Founded(self.source)
        self.id = self.founded.vault
        keys = [self.founded.first, *(self.founded.add() for _ in range(devices - 1))]
        self.devices = [self.device(each) for each in keys]

    def device(self, keys: Keys) -> Device:
        return Device(self.founded, keys, b"")

    async def create(self, storage: Storage, registration: bytes | None = None) -> None:
        """Found the vault there and bring its roster up to date."""
        chain = self.founded.chain
        first = (self.founded.first, self.founded.paper)
        members = [self.founded.roster.members[keys.id] for keys in first]
        await storage.create_vault(self.id, chain[0], members, now_ms=0, registration=registration)
        for idx, entry in enumerate(chain[1:], 1):
            await storage.append_roster(
                self.id, idx, chain[idx - 1].hash, entry, list(self.founded.roster.members.values())
            )

    def batch(self, who: int = 0, rows: int = 1) -> Pushed:
        """The next rows of one device."""
        device = self.devices[who]
        for _ in range(rows):
            record = b"\x01" + self.source.randbytes(15)
            device.write(record, "x" * self.source.randrange(MAX_TEXT))
        return Pushed(tuple(device.own[-rows:]), device.checkpoint())

    def again(self, who: int, first: int, last: int) -> Pushed:
        """Rows ``first`` to ``last`` of a device once more, by sequence number."""
        device = self.devices[who]
        kept, device.own = device.own, device.own[:last]
        checkpoint = device.checkpoint()
        device.own = kept
        return Pushed(tuple(kept[first - 1 : last]), checkpoint)

    def fork(self, who: int, seq: int) -> Pushed:
        """Another row at a position that the device has used."""
        twin = self.device(self.devices[who].keys)
        twin.own = self.devices[who].own[: seq - 1]
        twin.write(b"\x02" + self.source.randbytes(15), "another")
        return Pushed((twin.own[-1],), twin.checkpoint())

    async def revoke(self, storage: Storage, who: int, seq: int, head: bytes) -> None:
        """Cut a device; the first one signs."""
        founded = self.founded
        roster = founded.revoke(self.devices[who].keys, founded.first, seq, head)
        idx = len(founded.chain) - 1
        members = list(roster.members.values())
        prev = founded.chain[idx - 1].hash
        await storage.append_roster(self.id, idx, prev, founded.chain[idx], members)

    async def push(self, storage: Storage, pushed: Pushed) -> Appended:
        return await storage.append(self.id, pushed.rows, pushed.checkpoint)

    async def pull(self, storage: Storage, after: int = 0, limit: int = 10_000) -> StoredPage:
        return await storage.page(self.id, after, limit, MAX_PULL_BYTES)

    def rewrap(self, row: LogRow, epoch: int) -> WrapRow:
        wrap = epoch.to_bytes(4, "big") + self.source.randbytes(88)
        return WrapRow(row.entry.body_hash, wrap)


def head_of(rows: tuple[LogRow, ...]) -> ServerHead:
    """(n, G) of a log, recomputed."""
    g = FIRST_GLOBAL_HEAD
    for row in rows:
        g = next_global_head(g, row.entry.device, row.entry.head)
    return ServerHead(len(rows), g)


Opener = Callable[..., AbstractAsyncContextManager[Storage]]


def opener(kind: str, folder: Path, url: str | None) -> Opener:
    """``open_storage`` at one fixed place of either kind."""

    @contextlib.asynccontextmanager
    async def opened(quota: Quota | None = None) -> AsyncIterator[Storage]:
        data, database_url = (folder, None) if kind == "sqlite" else (None, url)
        async with open_storage(data=data, database_url=database_url, quota=quota) as storage:
            yield storage

    return opened
