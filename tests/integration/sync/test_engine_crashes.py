"""kill -9 at each step of a round, sleeping machines, portals and storms: nothing is lost."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from sync_devices import EAGER, LIMITS, MARK, Devices, SyncDevice
from sync_proxy import PULL, PUSH, Answer, Call, SyncProxy, refusal
from sync_server import server_in_process

from memory_manager.base.times import parse_rfc3339
from memory_manager.sync.engine.transport import Limits
from memory_manager.sync.server.running import RunningServer

SUPPORT = Path(__file__).resolve().parent.parent.parent / "support"
CHILD_SECONDS = 120.0
IMPATIENT = Limits(connect_seconds=4.0, read_seconds=2.0, total_seconds=4.0)
"""An answer that never comes costs each test one of these."""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with server_in_process(tmp_path / "server") as running:
        yield running


@dataclasses.dataclass
class Child:
    """One round of a device in another process."""

    process: asyncio.subprocess.Process

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGKILL)

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    async def end(self) -> tuple[int, str]:
        async with asyncio.timeout(CHILD_SECONDS):
            out, err = await self.process.communicate()
        code = self.process.returncode
        assert code in (0, -signal.SIGKILL), err.decode()[-2000:]
        return code, out.decode().strip()


async def child_of(device: SyncDevice) -> Child:
    """The device must be closed here."""
    return Child(
        await asyncio.create_subprocess_exec(
            sys.executable,
            str(SUPPORT / "sync_child.py"),
            str(device.home.root),
            env=os.environ | {"PYTHONPATH": str(SUPPORT)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    )


async def _length(server: RunningServer) -> int:
    (known,) = await server.host.storage.heads()
    return known.head.n


@pytest.mark.parametrize("step", ["before the server", "before the reply", "before the outbox"])
async def test_killed_in_a_push(
    server: RunningServer, proxy: SyncProxy, made: Devices, step: str
) -> None:
    """T2."""
    one = await made.found(server, proxy.url)
    await one.remember_many(5)
    await one.close()
    child = await child_of(one)

    async def kill(call: Call) -> Answer | None:
        if call.path != PUSH:
            return None
        if step == "before the server":
            child.kill()
            return Answer(502, "text/plain", b"")
        answer = await call.forward()
        if step == "before the reply":
            child.kill()
            return Answer(502, "text/plain", b"")
        child.freeze()  # the reply arrives and nobody reads it
        asyncio.get_running_loop().call_later(0.1, child.kill)
        return answer

    proxy.rule = kill
    assert (await child.end())[0] == -signal.SIGKILL
    proxy.rule = None
    assert await _length(server) == MARK + (0 if step == "before the server" else 5)
    await one.open()
    said: Any = await one.sync.sync_now()
    assert (said["state"], said["outbox"], said["alarms"]) == ("ok", 0, [])
    assert await _length(server) == said["verified"]["n"] == MARK + 5
    two = await made.join(one, proxy.url, "two")
    assert await two.texts() == await one.texts()


async def test_two_processes_over_one_outbox_are_one_push_in_the_log(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    """T33: the second waits for the database or sends the very same rows; nothing comes twice."""
    one = await made.found(server, proxy.url)
    await one.remember_many(20)
    await one.close()
    proxy.calls.clear()
    arrived = asyncio.Event()

    async def together(call: Call) -> None:
        if call.path == PUSH:
            if proxy.count(f"POST {PUSH}") > 1:
                arrived.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LIMITS.read_seconds / 2):
                    await arrived.wait()

    proxy.rule = together
    children = [await child_of(one) for _ in range(2)]
    ended = [await child.end() for child in children]
    proxy.rule = None
    assert (0, "ok 0") in ended
    assert proxy.count(f"POST {PUSH}") > 1
    assert await _length(server) == MARK + 20
    await one.open()
    said: Any = await one.sync.sync_now()
    assert (said["state"], said["outbox"], said["alarms"]) == ("ok", 0, [])
    two = await made.join(one, proxy.url, "two")
    assert await two.texts() == await one.texts()


async def test_killed_at_every_page_of_a_pull(
    server: RunningServer, proxy: SyncProxy, made: Devices, thorough: bool
) -> None:
    """T3."""
    one = await made.found(server, proxy.url)
    two = await made.join(one, proxy.url, "two")
    rows, page = 30 if thorough else 6, 4
    await one.remember_many(rows)
    await one.sync.sync_now()
    start = (await two.verified())[0]
    seen, child = 0, await _nobody()

    async def kill(call: Call) -> Answer | None:
        nonlocal seen
        if call.path != PULL:
            return None
        seen += 1
        if seen == 2:
            child.kill()
        return await call.forward({**call.query, "limit": str(page)})

    proxy.rule = kill
    reached, code = [start], -signal.SIGKILL
    while code != 0:
        await two.close()
        seen, child = 0, await child_of(two)
        code, _ = await child.end()
        await two.open()
        reached.append((await two.verified())[0])
    assert reached == [*range(start, start + rows, page), start + rows]
    assert await two.texts() == await one.texts()
    assert await two.verified() == await one.verified()


async def _nobody() -> Child:
    return Child(await asyncio.create_subprocess_exec("true"))


async def _portal(_: Call) -> web.Response:
    return web.Response(text="<html>Welcome to the hotel</html>", content_type="text/html")


async def _cut(call: Call) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
    response.content_length = 1000
    await response.prepare(call.request)
    await response.write(b"MLKQ")
    assert call.request.transport is not None
    call.request.transport.close()
    return response


async def _drop(call: Call) -> web.StreamResponse:
    assert call.request.transport is not None
    call.request.transport.close()
    return web.Response()


async def _sleep_in_push(call: Call) -> Answer | None:
    """The machine sleeps while its push is on the way."""
    if call.path == PUSH:
        await asyncio.Event().wait()
    return None


@pytest.mark.parametrize(
    "trouble", [_portal, _cut, _drop, _sleep_in_push], ids=lambda rule: rule.__name__.strip("_")
)
async def test_trouble_on_the_way_changes_nothing_and_passes(
    server: RunningServer,
    proxy: SyncProxy,
    made: Devices,
    trouble: Callable[[Call], Awaitable[Any]],
) -> None:
    """T14."""
    made.limits = IMPATIENT
    one = await made.found(server, proxy.url, EAGER)
    await one.until(lambda said: said["state"] == "ok")
    held = await one.verified()
    proxy.rule = trouble
    await one.remember("written meanwhile")
    said = await one.until(lambda said: said["state"] == "offline")
    assert (await one.verified(), said["outbox"]) == (held, 1)
    assert [alarm["code"] for alarm in said["alarms"]] == ["OFFLINE"]
    assert said["next_try_at"] is not None
    proxy.rule = None
    said = await one.until(lambda said: said["state"] == "ok" and said["outbox"] == 0)
    assert said["alarms"] == []
    assert await _length(server) == MARK + 1


async def test_a_reply_that_never_comes_needs_no_second_push(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    """T14: the rows are on the server; the next pull says so."""
    made.limits = IMPATIENT
    one = await made.found(server, proxy.url, EAGER)
    await one.until(lambda said: said["state"] == "ok" and said["outbox"] == 0)
    proxy.calls.clear()

    async def swallow(call: Call) -> Answer | None:
        if call.path == PUSH:
            await call.forward()
            await asyncio.Event().wait()
        return None

    proxy.rule = swallow
    await one.remember("arrived unheard")
    await one.until(lambda said: said["state"] == "ok" and said["verified"]["n"] == MARK + 1)
    assert proxy.count(f"POST {PUSH}") == 1


async def test_a_storm_of_refusals_is_waited_out(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    """T35: Retry-After is obeyed, ten years of it as one hour."""
    one = await made.found(server, proxy.url, EAGER)
    await one.until(lambda said: said["state"] == "ok")

    async def storm(_: Call) -> Answer:
        return refusal(429, "RATE", **{"Retry-After": "315360000"})

    proxy.rule = storm
    await one.remember("patient")
    said = await one.until(lambda said: said["state"] == "waiting" and said["next_try_at"])
    wait = parse_rfc3339(said["next_try_at"], "next_try_at") / 1000 - time.time()
    assert 3500 < wait <= 3600
    asked = [call for call in proxy.calls if "notify" not in call]
    for k in range(3):
        await one.remember(f"still patient {k}")
    await one.until(lambda said: said["outbox"] == 4)
    assert [call for call in proxy.calls if "notify" not in call] == asked
    proxy.rule = None
    assert (await one.sync.sync_now())["outbox"] == 0


async def test_a_new_server_key_stops_for_good_until_the_owner_looks(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    """T35."""
    one = await made.found(server, proxy.url)

    async def other(call: Call) -> Answer | None:
        if call.path != "/v1/auth/challenge":
            return None
        answer = await call.forward()
        key = server.host.key.public.hex().encode()
        return dataclasses.replace(answer, body=answer.body.replace(key, b"0" * 64))

    await one.close()
    await one.open()
    proxy.rule = other
    said = await one.sync.sync_now()
    assert (said["state"], await one.codes()) == ("stopped", ["SERVER_KEY"])
    proxy.rule = None
    assert (await one.sync.sync_now())["state"] == "stopped"
    assert (await one.sync.retry())["state"] == "ok"
