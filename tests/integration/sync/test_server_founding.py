"""A founding that is asked for again is answered as before, on both storages, and no other is."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from sync_server import Caller, World, entry_json, registration_token, server_in_process
from sync_world import Device, Founded

from memory_manager.sync.server.running import RunningServer

AT_ONCE = 12


@pytest.fixture(params=["sqlite", "postgres"])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RunningServer]:
    url = None
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_server").new_database()
    async with server_in_process(tmp_path / "server", database_url=url) as running:
        yield running


class Founding:
    """What the first device of a vault sends, as often as it likes."""

    def __init__(self, server: RunningServer, http: aiohttp.ClientSession, seed: int) -> None:
        self.founded = Founded(random.Random(seed))
        self.caller = Caller(http, server.url, self.founded.vault, self.founded.first)
        self.key = server.host.key.public

    async def send(self, token: str) -> Any:
        document = {"registration_token": token, **entry_json(self.founded.chain[0])}
        return await self.caller.call("POST", "/v1/vaults", document=document, session=False)

    async def world(self) -> World:
        await self.caller.login()
        return World(self.founded, self.caller, Device(self.founded, self.founded.first, self.key))


async def test_the_same_founding_is_answered_as_before_with_or_without_a_token(
    server: RunningServer, http: aiohttp.ClientSession
) -> None:
    token = await registration_token(server)
    founding = Founding(server, http, 1)
    first = await founding.send(token)
    assert first.status == 201
    for given in (token, "", "mlkreg-never-given"):
        again = await founding.send(given)
        assert (again.status, again.json) == (201, first.json)
    other = await Founding(server, http, 2).send(token)
    assert (other.status, other.code) == (403, "REGISTRATION")
    assert [known.vault for known in await server.host.storage.heads()] == [founding.founded.vault]


async def test_the_same_founding_many_times_at_once_is_one_vault_for_one_token(
    server: RunningServer, http: aiohttp.ClientSession
) -> None:
    token = await registration_token(server)
    founding = Founding(server, http, 3)
    async with asyncio.TaskGroup() as group:
        sent = [group.create_task(founding.send(token)) for _ in range(AT_ONCE)]
    answers = [task.result() for task in sent]
    assert [answer.status for answer in answers] == [201] * AT_ONCE
    assert all(answer.json == answers[0].json for answer in answers)
    assert len(await server.host.storage.heads()) == 1


@pytest.mark.parametrize("change", ["a row", "a device"])
async def test_a_vault_that_is_used_tells_nothing_to_who_founds_it_again(
    server: RunningServer, http: aiohttp.ClientSession, change: str
) -> None:
    founding = Founding(server, http, 4)
    assert (await founding.send(await registration_token(server))).status == 201
    world = await founding.world()
    if change == "a row":
        assert (await world.caller.push(world.rows(1))).status == 200
    else:
        await world.join(http)
    again = await founding.send(await registration_token(server))
    assert (again.status, again.code) == (409, "VAULT_EXISTS")
    assert "head" not in again.json
