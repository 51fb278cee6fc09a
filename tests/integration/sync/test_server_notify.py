"""Pokes over WebSocket and long poll, and when they end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from sync_server import Caller, World, create_vault, registration_token, server_in_process

from memory_manager.sync.server.running import RunningServer

SECONDS = 20.0


def socket_of(caller: Caller, **options: Any) -> Any:
    headers = {
        "Authorization": f"Bearer {caller.token}",
        "X-Session-Epoch": str(caller.epoch),
    }
    return caller.http.ws_connect(caller.url + "/v1/notify", headers=headers, **options)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that no event tells."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


async def test_a_socket_hears_of_rows_and_nothing_more(
    world: World, http: aiohttp.ClientSession
) -> None:
    other = await world.join(http)
    async with socket_of(other, compress=15) as socket:
        assert await socket.receive_json(timeout=SECONDS) == {"n": 0}
        await world.caller.push(world.rows(3))
        message = await socket.receive(timeout=SECONDS)
        assert message.data == '{"n": 3}'
        assert socket.compress == 0


async def test_a_socket_of_another_vault_hears_nothing(
    world: World, server: RunningServer, http: aiohttp.ClientSession
) -> None:
    other = await create_vault(http, server.url, await registration_token(server), seed=2)
    async with socket_of(other.caller) as socket:
        assert await socket.receive_json(timeout=SECONDS) == {"n": 0}
        await world.caller.push(world.rows(3))
        await other.caller.push(other.rows(1))
        assert await socket.receive_json(timeout=SECONDS) == {"n": 1}


async def test_a_long_poll_waits_for_rows(world: World, server: RunningServer) -> None:
    rows = world.rows(2)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(world.caller.call("GET", "/v1/notify?after=0&wait=55"))
        await until(lambda: server.host.waiters.count == 1)
        assert (await world.caller.push(rows)).status == 200
        started = time.monotonic()
    assert waiting.result().json == {"n": 2}
    assert time.monotonic() - started < 10
    assert (await world.caller.call("GET", "/v1/notify?after=1&wait=55")).json == {"n": 2}


async def test_a_long_poll_ends_with_its_time(world: World) -> None:
    started = time.monotonic()
    assert (await world.caller.call("GET", "/v1/notify?after=0&wait=1")).json == {"n": 0}
    assert 0.9 < time.monotonic() - started < 10


async def test_a_new_session_ends_the_sockets_of_the_old_one(
    world: World, http: aiohttp.ClientSession
) -> None:
    async with socket_of(world.caller) as socket:
        await socket.receive_json(timeout=SECONDS)
        await Caller(http, world.caller.url, world.caller.vault, world.caller.keys).login()
        message = await socket.receive(timeout=SECONDS)
        assert message.type is aiohttp.WSMsgType.CLOSE
        assert message.data == aiohttp.WSCloseCode.GOING_AWAY


async def test_the_oldest_of_too_many_waits_is_ended(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with server_in_process(tmp_path / "waits", quotas={"notify_per_device": 2}) as server:
        world = await create_vault(http, server.url, await registration_token(server))
        async with socket_of(world.caller) as first, socket_of(world.caller) as second:
            await first.receive_json(timeout=SECONDS)
            await second.receive_json(timeout=SECONDS)
            async with socket_of(world.caller) as third:
                await third.receive_json(timeout=SECONDS)
                assert (await first.receive(timeout=SECONDS)).type is aiohttp.WSMsgType.CLOSE
                assert server.host.waiters.count == 2
                await world.caller.push(world.rows(1))
                assert await second.receive_json(timeout=SECONDS) == {"n": 1}


async def test_a_client_that_speaks_is_hung_up_on(world: World) -> None:
    for said in ("hello", "x" * 10_000):
        async with socket_of(world.caller) as socket:
            await socket.receive_json(timeout=SECONDS)
            await socket.send_str(said)
            assert (await socket.receive(timeout=SECONDS)).type is aiohttp.WSMsgType.CLOSE


async def test_a_dead_client_is_noticed_by_its_missing_pong(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with server_in_process(tmp_path / "dead", limits={"ping_seconds": 0.2}) as server:
        world = await create_vault(http, server.url, await registration_token(server))
        async with socket_of(world.caller, autoping=False) as socket:
            await socket.receive_json(timeout=SECONDS)
            assert (await socket.receive(timeout=SECONDS)).type is aiohttp.WSMsgType.PING
            await until(lambda: server.host.waiters.count == 0)


@pytest.mark.parametrize("kind", ["socket", "poll"])
async def test_a_stopping_server_lets_nobody_wait(
    tmp_path: Path, http: aiohttp.ClientSession, kind: str
) -> None:
    started = 0.0
    async with server_in_process(tmp_path / "stop", limits={"finish_seconds": 45.0}) as server:
        world = await create_vault(http, server.url, await registration_token(server))
        if kind == "socket":
            socket = await socket_of(world.caller)
            await socket.receive_json(timeout=SECONDS)
            waiting: Any = asyncio.ensure_future(socket.receive(timeout=SECONDS))
        else:
            waiting = asyncio.ensure_future(world.caller.call("GET", "/v1/notify?after=0&wait=55"))
        await until(lambda: server.host.waiters.count == 1)
        started = time.monotonic()
    assert time.monotonic() - started < SECONDS
    answer = await waiting
    if kind == "socket":
        assert answer.type is aiohttp.WSMsgType.CLOSE
        await socket.close()
    else:
        assert (answer.status, answer.json) == (200, {"n": 0})
