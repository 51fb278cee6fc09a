"""Real devices for sync tests: a vault on disk, its ledger and the engine, without the daemon.

``quiet`` devices sync only when told; the others by themselves, at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
import shutil
from collections.abc import AsyncGenerator, Callable
from functools import partial
from pathlib import Path
from typing import Any

from small_vault import writer
from sync_server import World, registration_token
from vault_harness import VaultHome

from memory_manager.base.identifiers import MemoryId
from memory_manager.base.times import now_ms
from memory_manager.sync.engine.backoff import Backoff
from memory_manager.sync.engine.connection import ServerConnection
from memory_manager.sync.engine.device_secrets import device_secrets
from memory_manager.sync.engine.loop import Pace
from memory_manager.sync.engine.transport import Limits
from memory_manager.sync.ledger.founding import turn_on
from memory_manager.sync.ledger.journal import SyncJournal
from memory_manager.sync.membership.founding import ServerAddress
from memory_manager.sync.membership.membership import Membership
from memory_manager.sync.server.running import RunningServer
from memory_manager.sync.service import SyncService
from memory_manager.vault import queries
from memory_manager.vault.filters import RowFilter
from memory_manager.vault.key_file import create_key_file
from memory_manager.vault.lifecycle import VaultLifecycle
from memory_manager.vault.memories import Memories
from memory_manager.vault.rows import ForgetMode, MemoryDraft, MemoryRow
from memory_manager.vault.setup import create_vault
from memory_manager.vault.store import Store
from memory_manager.vault.transaction import Transaction

FAR = 1e9
QUIET = Pace(first=FAR, poll=FAR, debounce=FAR, apart=0.0, listens=False)
EAGER = Pace(first=0.0, poll=300.0, debounce=0.01, apart=0.02)
LIMITS = Limits(connect_seconds=10.0, read_seconds=30.0, total_seconds=50.0)
"""An honest server is never so late, however much else the machine has to do."""
DEADLINE_SECONDS = 40.0
MARK = 1
"""The founder's first row names the roster, and the founder."""


def key_file_of(home: VaultHome) -> Path:
    return home.root / "key"


def quick_backoff() -> Backoff:
    return Backoff(random.Random(1), first_seconds=0.01, last_seconds=0.05)


@dataclasses.dataclass
class SyncDevice:
    """One installation. ``open`` and ``close`` are unlocking and locking."""

    home: VaultHome
    pace: Pace = QUIET
    limits: Limits = LIMITS
    lifecycle: VaultLifecycle | None = None

    def __post_init__(self) -> None:
        self.journal = SyncJournal()
        self.memories = Memories((), journal=self.journal)
        self.sync = SyncService(
            self.memories,
            self.journal,
            pace=self.pace,
            limits=self.limits,
            backoff=quick_backoff,
        )
        self.membership = Membership(self.sync, self.journal)

    @property
    def store(self) -> Store:
        assert self.lifecycle is not None
        return self.lifecycle.store

    @property
    def id(self) -> bytes:
        return self.sync.secrets.device

    async def open(self) -> SyncDevice:
        lifecycle = self.lifecycle = self.home.lifecycle(open_store=self._open_store)
        await asyncio.to_thread(lifecycle.start, key_file_of(self.home))
        with lifecycle.transition() as session:
            assert session is not None, lifecycle.status()
            secrets = device_secrets(session)
        await self.sync.open(lifecycle.store, secrets, lifecycle)
        return self

    async def close(self) -> None:
        await self.sync.close()
        if self.lifecycle is not None:
            await asyncio.to_thread(self.lifecycle.close)
            self.lifecycle = None

    def _open_store(self, connect: Callable[[], Any], context: Any) -> Store:
        def committed(*args: Any) -> None:
            context.on_commit(*args)
            self.sync.poke()

        return Store(
            connect,
            on_commit=committed,
            on_write_failure=context.on_write_failure,
            on_write_recovered=context.on_write_recovered,
            on_damage=context.on_damage,
            read_only=context.read_only,
        )

    # --- what its owner does ------------------------------------------------------------------

    async def remember(self, content: str, path: str = "notes") -> MemoryId:
        draft = MemoryDraft(content, path)
        done = await self.store.write(lambda tx: self.memories.remember(tx, draft, writer()))
        return done.row.id

    async def remember_many(self, count: int, text: str = "memory") -> list[MemoryId]:
        """In one wave, so that the writer commits them in groups."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.remember(f"{text} {k}")) for k in range(count)]
        return [task.result() for task in tasks]

    async def delete(self, *ids: MemoryId) -> None:
        """Into the trash."""
        for memory_id in ids:
            await self.store.write(partial(self._delete, memory_id))

    def _delete(self, memory_id: MemoryId, transaction: Transaction) -> None:
        self.memories.forget(transaction, memory_id, ForgetMode.SOFT_DELETE, writer())

    async def answer_breaker(self) -> dict[str, Any]:
        """The status, after agreeing to the deletions if the breaker asks."""
        said: dict[str, Any] = await self.sync.fresh_status()
        if said["state"] == "stopped" and "BREAKER" in await self.codes():
            said = await self.sync.confirm("BREAKER", "BREAKER")
        return said

    async def rows(self) -> list[MemoryRow]:
        return await self.store.read(
            lambda c: queries.list_rows(c, RowFilter(), now_ms(), limit=20_000)
        )

    async def texts(self) -> set[str]:
        return {row.content for row in await self.rows()}

    async def verified(self) -> tuple[int, str]:
        """(n, G)."""
        said: Any = (await self.sync.fresh_status())["verified"]
        return said["n"], said["g"]

    async def state(self) -> str:
        return str((await self.sync.fresh_status())["state"])

    async def codes(self) -> list[str]:
        said: Any = (await self.sync.fresh_status())["alarms"]
        return [alarm["code"] for alarm in said]

    async def until(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The status once ``condition`` holds of it."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                said: dict[str, Any] = await self.sync.fresh_status()
                if condition(said):
                    return said
                await asyncio.sleep(0.01)

    async def until_text(self, text: str) -> None:
        """Until a memory of this device says so."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while text not in await self.texts():  # noqa: ASYNC110 - the vault has no event for it
                await asyncio.sleep(0.02)

    async def count(self, table: str) -> int:
        found: int = (
            await self.store.read(lambda c: c.execute(f"SELECT count(*) FROM {table}").fetchone())
        )[0]
        return found


class Devices:
    """Makes the devices of a test and closes them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: list[SyncDevice] = []
        self.limits = LIMITS

    async def new(self, name: str, pace: Pace = QUIET) -> SyncDevice:
        root = self.folder / name
        root.mkdir(mode=0o700)
        home = VaultHome(root)
        create_key_file(key_file_of(home))  # a passphrase costs most of a second
        await asyncio.to_thread(
            create_vault,
            home.directory,
            passphrase=None,
            insecure_key_file=key_file_of(home),
            with_recovery=False,
        )
        return await self.take(home, pace)

    async def take(self, home: VaultHome, pace: Pace = QUIET) -> SyncDevice:
        """The installation in a folder that is there already."""
        device = SyncDevice(home, pace, self.limits)
        self.made.append(device)
        return await device.open()

    async def found(
        self, server: RunningServer, url: str | None = None, pace: Pace = QUIET, name: str = "one"
    ) -> SyncDevice:
        """The first device of a new vault on ``server``, reached at ``url``."""
        device = await self.found_with(await self.new(name, pace), server, url)
        await device.sync.sync_now()  # its mark is in the log
        return device

    async def found_with(
        self, device: SyncDevice, server: RunningServer, url: str | None = None
    ) -> SyncDevice:
        await device.membership.set_up(
            ServerAddress(url or server.url),
            await registration_token(server),
            name=device.home.root.name,
            grant=None,
            words=None,
        )
        return device

    async def join(self, member: SyncDevice, url: str, name: str, pace: Pace = QUIET) -> SyncDevice:
        """One more device, let in by ``member``; both have heard of it."""
        device = await self.new(name, pace)
        await self.let_in(member, device, url)
        await member.sync.sync_now()
        await device.sync.sync_now()
        return device

    async def let_in(self, member: SyncDevice, device: SyncDevice, url: str) -> None:
        name = device.home.root.name
        invited = await device.membership.ask_to_join(ServerAddress(url), name=name, grant=None)
        handle, _ = await member.membership.look_at_offer(invited.text)
        await member.membership.let_in(handle)
        assert await device.membership.look_for_welcome() is not None

    async def clone(self, device: SyncDevice, name: str, pace: Pace = QUIET) -> SyncDevice:
        """A copy of the whole machine, ``device.key`` included."""
        root = self.folder / name
        await device.close()
        shutil.copytree(device.home.root, root)
        await device.open()
        return await self.take(VaultHome(root), pace)

    async def close(self) -> None:
        for device in self.made:
            with contextlib.suppress(Exception):
                await device.close()


@contextlib.asynccontextmanager
async def devices(folder: Path) -> AsyncGenerator[Devices]:
    made = Devices(folder)
    try:
        yield made
    finally:
        await made.close()


async def adopt(made: Devices, world: World, url: str, name: str = "real") -> SyncDevice:
    """A real device in a vault whose other members are simulated: they can write anything."""
    device = await made.new(name)
    secrets, founded = device.sync.secrets, world.founded
    public = {
        "id": secrets.device.hex(),
        "role": "device",
        "ed25519": secrets.signing_key().verify_key.encode().hex(),
        "x25519": secrets.box_key().public_key.encode().hex(),
        "grant": bytes(32).hex(),
    }
    founded.amend("add", founded.first, device=public)
    said = await world.caller.post_roster(founded.chain[-1])
    assert said.status == 201, said.body
    key = world.device.server_key

    def join(transaction: Transaction) -> None:
        turn_on(
            transaction,
            device.journal,
            vault=founded.vault,
            server_url=url,
            server_key=key,
            chain=founded.chain,
            keys=founded.vrk,
        )

    await device.store.write(join)
    await device.sync.connect(ServerConnection(url, key))
    return device
