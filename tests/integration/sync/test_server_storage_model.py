"""Random pushes and pulls of both storages, compared with a simple server in memory."""

from __future__ import annotations

import random

import pytest
from stored_vault import Pushed, StoredVault
from sync_world import Server

from memory_manager.sync.server.refusals import Fork, Gap
from memory_manager.sync.server.storage import Storage
from memory_manager.sync.wire.framing import MAX_PULL_BYTES, Signed
from memory_manager.sync.wire.log import Checkpoint

pytestmark = pytest.mark.timeout(900)  # with the full counts

STEPS = 40


class Model:
    """The simple server, and what a push must do to it."""

    def __init__(self, vault: StoredVault) -> None:
        self.server = Server(vault.id, random.Random(1))
        self.ends: list[tuple[int, Signed[Checkpoint]]] = []

    def own(self, device: bytes) -> list[bytes]:
        rows = self.server.rows
        return [row.entry.pack() for row in rows if row.entry.device == device]

    def expected(self, pushed: Pushed) -> type[Exception] | int:
        """The refusal, or how many rows are new."""
        known = self.own(pushed.author)
        first = pushed.rows[0].entry.seq
        if first > len(known) + 1:
            return Gap
        for row in pushed.rows:
            seq = row.entry.seq
            if seq <= len(known) and known[seq - 1] != row.entry.pack():
                return Fork
        return max(0, pushed.rows[-1].entry.seq - len(known))

    def push(self, pushed: Pushed, added: int) -> None:
        if added:
            self.server.push(pushed.rows[-added:])
            self.ends.append((len(self.server.rows), pushed.checkpoint))


class Walk:
    """One random walk of two to four devices."""

    def __init__(self, seed: str) -> None:
        self.chance = random.Random(seed)
        self.vault = StoredVault(seed, self.chance.randrange(2, 5))
        self.model = Model(self.vault)

    def next_push(self) -> Pushed:
        who = self.chance.randrange(len(self.vault.devices))
        own = self.vault.devices[who].own
        known = len(self.model.own(self.vault.devices[who].keys.id))
        kind = self.chance.choice(["new", "new", "again", "overlap", "fork", "hoard"])
        if kind == "hoard":  # rows that wait in the outbox
            self.vault.batch(who, self.chance.randrange(1, 5))
        if kind in ("new", "hoard") or not own:
            self.vault.batch(who, self.chance.randrange(1, 5))
            first = known + 1 if kind == "new" else self.chance.randrange(1, len(own) + 1)
            return self.vault.again(who, first, len(own))
        if kind == "fork" and known:
            return self.vault.fork(who, self.chance.randrange(1, known + 1))
        last = self.chance.randrange(1, len(own) + 1)
        return self.vault.again(who, self.chance.randrange(1, last + 1), last)

    async def step(self, storage: Storage) -> None:
        pushed = self.next_push()
        expected = self.model.expected(pushed)
        if isinstance(expected, int):
            answer = await self.vault.push(storage, pushed)
            assert answer.added == expected
            self.model.push(pushed, expected)
            assert answer.head == self.model.server.head(len(self.model.server.rows)).value
            rows = self.model.server.rows
            assert rows[answer.first_n - 1].entry == pushed.rows[0].entry
        else:
            with pytest.raises(expected):
                await self.vault.push(storage, pushed)
        await self.compare(storage)

    async def compare(self, storage: Storage) -> None:
        tip = len(self.model.server.rows)
        after, limit = self.chance.randrange(tip + 2), self.chance.randrange(1, tip + 2)
        expected = self.model.server.pull(after, limit)
        page = await storage.page(self.vault.id, after, limit, MAX_PULL_BYTES)
        assert page.rows == expected.rows
        assert page.tip == expected.tip.value
        assert page.head == (expected.page_head.value if page.rows else page.tip)
        positions = {row.n for row in page.rows}
        assert page.checkpoints == tuple(said for n, said in self.model.ends if n in positions)
        for device in await storage.devices(self.vault.id):
            assert device.seq == len(self.model.own(device.id))


async def test_random_pushes_do_what_a_simple_server_does(
    storage: Storage, request: pytest.FixtureRequest, thorough: bool
) -> None:
    for number in range(250 if thorough else 6):
        walk = Walk(f"{request.node.nodeid} {number}")
        await walk.vault.create(storage)
        for _ in range(STEPS):
            await walk.step(storage)
        assert len(walk.model.server.rows) > STEPS / 2
