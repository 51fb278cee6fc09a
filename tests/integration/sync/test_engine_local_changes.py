"""What changes on a machine or on the server's clock, and is no business of sync."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from optin_devices import OptInWorld, opt_in_world
from sync_devices import Devices
from sync_proxy import PULL, PUSH, Answer, Call
from vault_harness import OTHER_PASSPHRASE, PASSPHRASE

from memory_manager.base.times import now_ms
from memory_manager.sync.ledger import roster_log
from memory_manager.sync.server.running import RunningServer

TEN_YEARS_MS = 315_576_000_000


@pytest.fixture
async def opted(tmp_path: Path) -> AsyncIterator[OptInWorld]:
    async with opt_in_world(tmp_path) as world:
        yield world


async def test_a_new_passphrase_in_the_middle_of_a_round_is_none_of_its_business(
    opted: OptInWorld,
) -> None:
    """T12s: changed while a pull, then a push, waits for its answer."""
    one, two = opted.owner.device, (await opted.join("two")).device
    chain = await one.store.read(roster_log.chain)
    passphrases = [PASSPHRASE, OTHER_PASSPHRASE, PASSPHRASE]
    texts: set[str] = set()
    for at, path in enumerate((PULL, PUSH)):
        waits, goes_on = asyncio.Event(), asyncio.Event()

        async def hold(
            call: Call, path: str = path, waits: Any = waits, goes_on: Any = goes_on
        ) -> Answer:
            if call.path == path:
                waits.set()
                await goes_on.wait()
            return await opted.recording.rule(call)

        texts |= {f"by one {at}", f"by two {at}"}
        await two.remember(f"by two {at}")
        await two.sync.sync_now()
        await one.remember(f"by one {at}")
        opted.proxy.rule = hold
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            round_ = group.create_task(one.sync.sync_now())
            await waits.wait()
            await asyncio.to_thread(
                opted.gate.change_passphrase, passphrases[at], passphrases[at + 1]
            )
            goes_on.set()
        opted.proxy.rule = opted.recording.rule
        said: Any = round_.result()
        assert (said["state"], said["outbox"], said["alarms"]) == ("ok", 0, [])
        await two.sync.sync_now()
        assert await one.texts() == await two.texts() == texts
    assert await one.store.read(roster_log.chain) == chain
    assert (await one.verified())[0] == 4 + 2  # and the marks of founding and join
    await one.close()
    await one.open()
    assert (await one.sync.sync_now())["state"] == "ok"
    assert await one.verified() == await two.verified()


@pytest.mark.parametrize("years", [10, -10])
async def test_a_servers_clock_blocks_nobody(
    server: RunningServer, made: Devices, years: int
) -> None:
    """T38: wrong after the vault was made, then put right, then wrong again."""
    lead = years * TEN_YEARS_MS // 10
    host = server.host
    one = await made.found(server)
    host.clock_ms = lambda: now_ms() + lead
    two = await made.join(one, server.url, "two")
    for at, skew in enumerate((lead, 0, lead)):
        host.clock_ms = lambda skew=skew: now_ms() + skew
        await one.remember(f"row {at}")
        said: Any = await one.sync.sync_now()
        assert (said["state"], said["outbox"], said["alarms"]) == ("ok", 0, [])
        assert (await two.sync.sync_now())["state"] == "ok"
    assert await one.texts() == await two.texts() == {"row 0", "row 1", "row 2"}
