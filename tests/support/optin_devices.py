"""Real devices with a passphrase, a real server with the index, and a proxy that records it all."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

from small_vault import writer
from sync_devices import QUIET, SyncDevice, devices, key_file_of
from sync_proxy import Answer, Call, SyncProxy, listening
from sync_server import registration_token, server_in_process
from vault_harness import PASSPHRASE, VaultHome

from memory_manager.base.identifiers import MemoryId
from memory_manager.sync.membership.founding import ServerAddress
from memory_manager.sync.optin import requests, table
from memory_manager.sync.optin.approval import Approval, Preview
from memory_manager.sync.optin.service import OptIns
from memory_manager.sync.optin.table import OptedIn
from memory_manager.sync.server.index.mount import index_mount
from memory_manager.sync.server.running import RunningServer
from memory_manager.vault import argon, audit
from memory_manager.vault.audit import AuditEvent
from memory_manager.vault.grant_signing import grant_public_key
from memory_manager.vault.key_file import create_key_file
from memory_manager.vault.lifecycle import VaultLifecycle
from memory_manager.vault.setup import create_vault


@dataclasses.dataclass
class Owner:
    """One device and what its owner does with opting in."""

    device: SyncDevice
    opt_ins: OptIns

    async def remember(self, content: str, path: str = "notes") -> MemoryId:
        return await self.device.remember(content, path)

    async def ask(self, memory_id: MemoryId, reason: str | None = None) -> bool:
        return await self.device.store.write(
            lambda transaction: requests.file_request(transaction, memory_id, writer(), reason)
        )

    async def grant(
        self,
        ids: Sequence[MemoryId],
        *,
        seen: Preview | None = None,
        typed: int | None = None,
        passphrase: str = PASSPHRASE,
    ) -> list[OptedIn]:
        """Look and approve."""
        seen = seen or await self.opt_ins.preview(ids)
        asked = Approval(tuple(ids), seen.digest, typed)
        return await self.opt_ins.approve(asked, passphrase, writer())

    async def deliver(self) -> bool:
        """A round of sync, then what is due at the index; whether anything is left."""
        await self.device.sync.sync_now()
        return await self.opt_ins.delivery.round()

    async def opt_in(self, *ids: MemoryId) -> None:
        await self.grant(ids)
        assert not await self.deliver()

    async def opt_out(self, *ids: MemoryId) -> None:
        await self.opt_ins.opt_out(ids, writer())

    async def found_on_server(self, query: str) -> int:
        """How many rows the server's index has for a query."""
        return len((await self.opt_ins.search(query, 10)).hits)

    async def rows(self) -> list[OptedIn]:
        return await self.device.store.read(table.listed)

    async def states(self) -> list[str]:
        return [row.state.value for row in await self.rows()]

    async def audit(self, *acts: str) -> list[AuditEvent]:
        """Entries about opting in, newest first."""
        chosen = [f".{act}" for act in acts]
        return await self.device.store.read(
            lambda connection: audit.events(connection, subjects=["opt_in."], acts=chosen)
        )


@dataclasses.dataclass
class Recording:
    """Every request and answer that passed, by path."""

    seen: list[tuple[str, bytes, bytes]] = dataclasses.field(default_factory=list)
    calls: list[tuple[str, bytes]] = dataclasses.field(default_factory=list)

    def bodies(self, call: str) -> list[bytes]:
        """What was sent with one call, such as ``POST /v1/index/rows``."""
        return [body for name, body in self.calls if name == call]

    async def rule(self, call: Call) -> Answer:
        self.calls.append((f"{call.method} {call.path}", call.body))
        answer = await call.forward()
        sent = call.request.path_qs.encode() + b"\n" + call.body
        self.seen.append((call.path, sent, answer.body))
        return answer


@dataclasses.dataclass
class OptInWorld:
    server: RunningServer
    proxy: SyncProxy
    recording: Recording
    owner: Owner
    made: Any

    @property
    def gate(self) -> VaultLifecycle:
        assert self.owner.device.lifecycle is not None
        return self.owner.device.lifecycle

    @property
    def data(self) -> Path:
        return self.server.host.settings.data

    async def join(self, name: str) -> Owner:
        """One more device of the owner."""
        device = await _with_passphrase(self.made, name)
        grant = await asyncio.to_thread(grant_public_key, device.lifecycle, PASSPHRASE)
        asked = await device.membership.ask_to_join(
            ServerAddress(self.proxy.url), name=name, grant=grant
        )
        handle, _ = await self.owner.device.membership.look_at_offer(asked.text)
        await self.owner.device.membership.let_in(handle)
        assert await device.membership.look_for_welcome() is not None
        await self.owner.device.sync.sync_now()
        await device.sync.sync_now()
        assert device.lifecycle is not None
        return Owner(device, OptIns(device.sync, device.lifecycle))


async def _with_passphrase(made: Any, name: str) -> SyncDevice:
    root = made.folder / name
    root.mkdir(mode=0o700)
    home = VaultHome(root)
    create_key_file(key_file_of(home))
    await asyncio.to_thread(
        create_vault,
        home.directory,
        passphrase=PASSPHRASE,
        insecure_key_file=key_file_of(home),
        with_recovery=False,
        parameters=argon.FLOOR,
    )
    taken: SyncDevice = await made.take(home, QUIET)
    return taken


@contextlib.asynccontextmanager
async def opt_in_world(folder: Path) -> AsyncGenerator[OptInWorld]:
    """A server with the index behind a recording proxy, and the owner's first device."""
    async with (
        listening("") as proxy,
        server_in_process(
            folder / "server",
            mounts=(index_mount(),),
            public_host=proxy.url.removeprefix("http://"),
        ) as server,
        devices(folder) as made,
    ):
        proxy.upstream = server.url
        recording = Recording()
        proxy.rule = recording.rule
        device = await _with_passphrase(made, "one")
        grant = await asyncio.to_thread(grant_public_key, device.lifecycle, PASSPHRASE)
        await device.membership.set_up(
            ServerAddress(proxy.url),
            await registration_token(server),
            name="one",
            grant=grant,
            words=None,
        )
        assert device.lifecycle is not None
        owner = Owner(device, OptIns(device.sync, device.lifecycle))
        yield OptInWorld(server, proxy, recording, owner, made)
