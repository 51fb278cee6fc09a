"""Two devices of one vault for tests of membership, and a server that lies about the list."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Coroutine
from typing import Any

from sync_devices import Devices, SyncDevice
from sync_proxy import ROSTER, Answer, Call, SyncProxy, hang

from memory_manager.sync.ledger import roster_log
from memory_manager.sync.membership.roster_entries import Signer
from memory_manager.sync.server.running import RunningServer
from memory_manager.sync.wire.roster import Roster, SignedEntry
from memory_manager.sync.wire.roster_json import read_entry


@dataclasses.dataclass
class Pair:
    """Two devices of one vault."""

    first: SyncDevice
    second: SyncDevice
    url: str

    async def settle(self) -> None:
        """Both have everything of each other."""
        for device in (self.first, self.second, self.first):
            await device.sync.sync_now()


async def pair(server: RunningServer, made: Devices, url: str | None = None) -> Pair:
    first = await made.found(server, url)
    second = await made.join(first, url or server.url, "two")
    found = Pair(first, second, url or server.url)
    await found.settle()
    return found


async def roster(device: SyncDevice) -> Roster:
    found = await device.store.read(roster_log.load)
    assert found is not None
    return found


async def chain(device: SyncDevice) -> tuple[SignedEntry, ...]:
    return await device.store.read(roster_log.chain)


async def signer(device: SyncDevice) -> Signer:
    return Signer(device.id, device.sync.secrets.signing_key())


async def agree(device: SyncDevice) -> None:
    """The owner looks at a changed device list and agrees."""
    await device.sync.sync_now()
    assert await device.codes() == ["ROSTER_CHANGED"]
    await device.sync.confirm("ROSTER_CHANGED", "ROSTER_CHANGED")


def told_roster(
    entries: Callable[[list[dict[str, str]]], list[dict[str, str]]], head: bytes = bytes(32)
) -> Any:
    """A server that shows another device list; ``head`` is what it names where none is left."""

    async def rule(call: Call) -> Answer | None:
        if call.path != ROSTER or call.method != "GET":
            return None
        answer = await call.forward()
        if answer.status != 200:
            return answer
        said = json.loads(answer.body)
        said["entries"] = entries(said["entries"])
        left = said["entries"]
        said["head"] = (read_entry(left[-1]).hash if left else head).hex()
        return dataclasses.replace(answer, body=json.dumps(said).encode())

    return rule


def both(two: Pair) -> tuple[SyncDevice, SyncDevice]:
    return two.first, two.second


async def lose_the_roster_answer(call: Call) -> Answer | None:
    """The server takes an entry, and nobody hears of it."""
    if (call.method, call.path) != ("POST", ROSTER):
        return None
    await call.forward()
    return Answer(502, "text/html", b"gone")


async def lose_the_answer(call: Call) -> Answer | None:
    """The server makes the vault, and nobody hears of it."""
    if call.path != "/v1/vaults":
        return None
    assert (await call.forward()).status == 201
    return Answer(502, "text/html", b"gone")


async def end_at_the_roster(attempt: Coroutine[Any, Any, object], proxy: SyncProxy) -> None:
    """Run an act until it posts an entry, which nobody takes; there it ends."""
    met = asyncio.Event()

    async def stay_away(call: Call) -> Answer | None:
        if (call.method, call.path) != ("POST", ROSTER):
            return None
        met.set()
        return await hang(call)

    proxy.rule = stay_away
    async with asyncio.TaskGroup() as group:
        task = group.create_task(attempt)
        await met.wait()
        task.cancel()
    proxy.rule = None
