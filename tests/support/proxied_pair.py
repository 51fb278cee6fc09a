"""Two devices of one vault behind a proxy that may lie to them, and what a lying server signs."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from nacl.signing import SigningKey
from sync_devices import Devices, SyncDevice, devices
from sync_proxy import (
    Answer,
    Call,
    SyncProxy,
    between,
    signed_head,
)
from sync_server import server_in_process

from memory_manager.sync.server.running import RunningServer
from memory_manager.sync.wire.framing import LogRow, Page
from memory_manager.sync.wire.log import next_global_head


@dataclasses.dataclass
class ProxiedPair:
    """Device one writes straight to the server; device two reads through the proxy."""

    server: RunningServer
    proxy: SyncProxy
    made: Devices
    one: SyncDevice
    two: SyncDevice

    @property
    def key(self) -> SigningKey:
        return self.server.host.key.signing

    @property
    def vault(self) -> bytes:
        return bytes.fromhex(str(self.one.sync.status()["vault"]))

    async def write(self, *texts: str) -> None:
        """By device one, which is told the truth."""
        self.proxy.rule = None
        for text in texts:
            await self.one.remember(text)
        await self.one.sync.sync_now()


@contextlib.asynccontextmanager
async def paired(folder: Path) -> AsyncIterator[ProxiedPair]:
    async with (
        server_in_process(folder / "server") as server,
        between(server) as proxy,
        devices(folder) as made,
    ):
        one = await made.found(server, proxy.url)
        two = await made.join(one, proxy.url, "two")
        yield ProxiedPair(server, proxy, made, one, two)


def renumbered(rows: tuple[LogRow, ...], first: int) -> tuple[LogRow, ...]:
    return tuple(dataclasses.replace(row, n=first + k) for k, row in enumerate(rows))


def resigned(pair: ProxiedPair, page: Page, rows: tuple[LogRow, ...], g: bytes) -> Page:
    """What a server that wants to lie consistently sends: new numbers, new G, its signature."""
    rows = renumbered(rows, page.rows[0].n)
    for row in rows:
        g = next_global_head(g, row.entry.device, row.entry.head)
    head = signed_head(pair.key, pair.vault, rows[-1].n, g)
    return Page(rows, page.checkpoints, head, head)


def changed(old: LogRow, **parts: Any) -> LogRow:
    return dataclasses.replace(old, **parts)


async def dead(_: Call) -> Answer:
    return Answer(502, "text/html", b"<html>")
