"""Quotas and rates with small values, registration, mailboxes, and the end of a vault."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict
from sync_server import (
    Caller,
    World,
    create_vault,
    entry_json,
    registration_token,
    server_in_process,
)
from sync_world import Founded, new_keys

from memory_manager.base.times import now_ms
from memory_manager.sync.server.running import RunningServer, running_server
from memory_manager.sync.server.settings import Address, Quotas, ServerSettings

BOX = "/v1/mailbox/" + "ab" * 16


async def test_a_full_vault_takes_no_more_rows(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with server_in_process(tmp_path / "rows", quotas={"rows": 3}) as server:
        world = await create_vault(http, server.url, await registration_token(server))
        assert (await world.caller.push(world.rows(3))).status == 200
        said = await world.caller.push(world.rows(1))
        assert (said.status, said.code) == (507, "QUOTA")
        assert said.details == {"what": "rows", "limit": 3}


async def test_a_vault_has_so_many_bytes(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with server_in_process(tmp_path / "bytes", quotas={"bytes": 4_000}) as server:
        world = await create_vault(http, server.url, await registration_token(server))
        said = await world.caller.push(world.rows(20))
        assert (said.status, said.code) == (507, "QUOTA")
        assert said.details == {"what": "bytes", "limit": 4_000}
        assert (await server.host.storage.vault(world.founded.vault)).head.n == 0


async def test_a_vault_has_so_many_devices(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with server_in_process(tmp_path / "devices", quotas={"devices": 3}) as server:
        world = await create_vault(http, server.url, await registration_token(server))
        await world.join(http)
        world.founded.add()
        said = await world.caller.post_roster(world.founded.chain[-1])
        assert (said.status, said.code) == (507, "QUOTA")
        assert said.details == {"what": "devices", "limit": 3}


async def test_rows_a_minute_are_limited_for_each_vault(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with server_in_process(tmp_path / "rate", quotas={"entries_per_minute": 10}) as server:
        world = await create_vault(http, server.url, await registration_token(server))
        other = await create_vault(http, server.url, await registration_token(server), seed=2)
        rows = world.rows(11)
        assert (await world.caller.push(rows[:10])).status == 200
        said = await world.caller.push(rows[10:])
        assert (said.status, said.code) == (429, "RATE")
        assert 1 <= int(said.headers["Retry-After"]) <= 6
        assert (await other.caller.push(other.rows(10))).status == 200


async def test_requests_a_minute_are_limited_for_each_device(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with server_in_process(tmp_path / "many", quotas={"requests_per_minute": 5}) as server:
        world = await create_vault(http, server.url, await registration_token(server))
        said = [await world.caller.call("GET", "/v1/roster") for _ in range(6)]
        assert [answer.status for answer in said] == [200] * 5 + [429]
        assert int(said[-1].headers["Retry-After"]) >= 1
        assert (await world.caller.call("GET", "/v1/health")).status == 200


async def test_calls_without_a_session_are_limited_for_each_address(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    quotas = {"logins_per_minute": 4}
    async with server_in_process(tmp_path / "logins", quotas=quotas, behind_proxy=True) as server:
        caller = Caller(http, server.url, bytes(16), new_keys(random.Random(1)))
        asked_by: list[str] = []

        async def ask(address: str) -> int:
            asked = {"vault": "00" * 16, "device": "00" * 16}
            headers = CIMultiDict({"X-Forwarded-For": "10.1.1.1"})  # the client's own
            headers.add("X-Forwarded-For", f"10.{len(asked_by)}.9.9, {address}")
            asked_by.append(address)
            said = await caller.call(
                "POST", "/v1/auth/challenge", document=asked, headers=headers, session=False
            )
            return said.status

        assert [await ask("192.0.2.1") for _ in range(5)] == [200] * 4 + [429]
        assert await ask("192.0.2.2") == 200


async def test_an_address_that_a_client_claims_does_not_count(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with server_in_process(tmp_path / "claims", quotas={"logins_per_minute": 2}) as server:
        caller = Caller(http, server.url, bytes(16), new_keys(random.Random(1)))
        asked = {"vault": "00" * 16, "device": "00" * 16}
        statuses = [
            (
                await caller.call(
                    "POST",
                    "/v1/auth/challenge",
                    document=asked,
                    headers={"X-Forwarded-For": f"192.0.2.{at}"},
                    session=False,
                )
            ).status
            for at in range(3)
        ]
        assert statuses == [200, 200, 429]


async def make_vault(
    http: aiohttp.ClientSession, server: RunningServer, token: Any, seed: int = 5
) -> Any:
    founded = Founded(random.Random(seed))
    caller = Caller(http, server.url, founded.vault, founded.first)
    document = {"registration_token": token, **entry_json(founded.chain[0])}
    return await caller.call("POST", "/v1/vaults", document=document, session=False)


async def test_a_registration_token_makes_one_vault(
    server: RunningServer, http: aiohttp.ClientSession
) -> None:
    token = await registration_token(server)
    for wrong in ("", "mlkreg-", token[:-1], token + "x", token.upper(), "ä"):
        said = await make_vault(http, server, wrong)
        assert (said.status, said.code) == (403, "REGISTRATION")
    assert (await make_vault(http, server, None)).status == 422
    first = await make_vault(http, server, token)
    assert first.status == 201
    again = await make_vault(http, server, token)  # the answer was lost on the way
    assert (again.status, again.json) == (201, first.json)
    other = await make_vault(http, server, token, seed=6)
    assert (other.status, other.code) == (403, "REGISTRATION")


async def test_a_registration_token_ends(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    offset = 0
    settings = ServerSettings(data=tmp_path / "week", listen=Address("127.0.0.1", 0))
    async with running_server(settings, clock_ms=lambda: now_ms() + offset) as server:
        token = await registration_token(server)
        offset = 8 * 86_400_000
        said = await make_vault(http, server, token)
        assert (said.status, said.code) == (403, "REGISTRATION")


async def test_open_registration_is_an_explicit_choice(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with server_in_process(tmp_path / "open", open_registration=True) as server:
        assert (await make_vault(http, server, "")).status == 201


async def test_a_genesis_must_be_that_of_its_vault(
    server: RunningServer, http: aiohttp.ClientSession
) -> None:
    founded = Founded(random.Random(9))
    entry = founded.chain[0]
    caller = Caller(http, server.url, founded.vault, founded.first)
    token = await registration_token(server)
    forged = entry_json(entry) | {"signature": "00" * 64}
    renamed = entry_json(
        type(entry)(
            entry.document.replace(founded.vault.hex().encode(), b"0" * 32), entry.signature
        )
    )
    for lie in (forged, renamed):
        asked = {"registration_token": token, **lie}
        said = await caller.call("POST", "/v1/vaults", document=asked, session=False)
        assert (said.status, said.code) == (422, "MALFORMED")
    assert (await server.host.storage.usage(0)).vaults == 0


async def mail(caller: Caller, method: str, side: str, body: bytes | None = None) -> Any:
    return await caller.call(method, f"{BOX}?side={side}", body=body, session=False)


async def test_each_side_of_a_mailbox_is_written_and_read_once(
    server: RunningServer, http: aiohttp.ClientSession
) -> None:
    caller = Caller(http, server.url, bytes(16), new_keys(random.Random(1)))
    absent = await mail(caller, "GET", "offer")
    assert (absent.status, absent.code) == (404, "NOT_FOUND")
    assert (await mail(caller, "POST", "offer", b"x" * 65_536)).status == 201
    assert (await mail(caller, "POST", "offer", b"y")).status == 409
    assert (await mail(caller, "POST", "welcome", b"w")).status == 201
    taken = await mail(caller, "GET", "offer")
    assert (taken.status, taken.body) == (200, b"x" * 65_536)
    gone = await mail(caller, "GET", "offer")
    assert (gone.status, gone.code) == (410, "GONE")
    assert (await mail(caller, "POST", "offer", b"again")).status == 409
    assert (await mail(caller, "GET", "welcome")).body == b"w"
    assert (await mail(caller, "POST", "welcome", b"")).status in (409, 422)


async def test_a_mailbox_lives_ten_minutes_and_an_address_has_few(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    offset = 0
    settings = ServerSettings(
        data=tmp_path / "mail",
        listen=Address("127.0.0.1", 0),
        quotas=Quotas(mailboxes_per_ip=2),
    )
    async with running_server(settings, clock_ms=lambda: now_ms() + offset) as server:
        caller = Caller(http, server.url, bytes(16), new_keys(random.Random(1)))
        assert (await mail(caller, "POST", "offer", b"x")).status == 201
        assert (await mail(caller, "POST", "welcome", b"x")).status == 201
        third = await caller.call(
            "POST", "/v1/mailbox/" + "00" * 16 + "?side=offer", body=b"x", session=False
        )
        assert (third.status, third.code) == (429, "RATE")
        assert int(third.headers["Retry-After"]) >= 1
        offset = 601_000
        assert (await mail(caller, "GET", "offer")).status in (404, 410)
        later = await caller.call(
            "POST", "/v1/mailbox/" + "00" * 16 + "?side=offer", body=b"x", session=False
        )
        assert later.status == 201


async def test_mailboxes_of_many_addresses_do_not_fill_the_disk(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    quotas = {"mailboxes_per_minute": 2}
    async with server_in_process(tmp_path / "flood", quotas=quotas, behind_proxy=True) as server:
        caller = Caller(http, server.url, bytes(16), new_keys(random.Random(1)))
        statuses = [
            (
                await caller.call(
                    "POST",
                    f"/v1/mailbox/{at:032x}?side=offer",
                    body=b"x",
                    headers={"X-Forwarded-For": f"192.0.2.{at}"},
                    session=False,
                )
            ).status
            for at in range(3)
        ]
        assert statuses == [201, 201, 429]


async def test_a_deleted_vault_leaves_no_row_in_any_table(
    world: World, server: RunningServer, http: aiohttp.ClientSession
) -> None:
    other = await create_vault(http, server.url, await registration_token(server), seed=2)
    assert (await world.caller.push(world.rows(3))).status == 200
    await other.caller.push(other.rows(1))
    login = await world.caller.signed(1)
    said = await world.caller.call("DELETE", "/v1/vaults/self", document=login)
    assert (said.status, said.code) == (401, "LOGIN")  # a login is no deletion
    waiting = await http.ws_connect(
        server.url + "/v1/notify",
        headers={
            "Authorization": f"Bearer {world.caller.token}",
            "X-Session-Epoch": str(world.caller.epoch),
        },
    )
    assert await waiting.receive_json() == {"n": 3}
    document = await world.caller.signed(2)
    said = await world.caller.call("DELETE", "/v1/vaults/self", document=document)
    assert (said.status, said.body) == (204, b"")
    assert (await waiting.receive(timeout=10)).type is aiohttp.WSMsgType.CLOSE
    await waiting.close()
    assert (await world.caller.call("GET", "/v1/log/pull")).status == 401
    assert (await world.caller.open_session()).code == "LOGIN"
    assert rows_with(server.host.settings.data / "sync.db", world.founded.vault) == {}
    assert (await other.caller.call("GET", "/v1/log/pull")).status == 200


def rows_with(path: Path, vault: bytes) -> dict[str, int]:
    """How many rows of each table hold the id in any column."""
    found: dict[str, int] = {}
    connection = sqlite3.connect(path)
    tables = [
        name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type='table'")
    ]
    assert len(tables) > 5
    for table in tables:
        count = sum(
            any(isinstance(value, bytes) and vault in value for value in row)
            for row in connection.execute(f"SELECT * FROM {table}")
        )
        if count:
            found[table] = count
    connection.close()
    return found


@pytest.mark.parametrize("role", ["paper", "revoked"])
async def test_only_an_active_device_deletes_the_vault(
    world: World, http: aiohttp.ClientSession, role: str
) -> None:
    if role == "paper":
        caller = await Caller(
            http, world.caller.url, world.caller.vault, world.founded.paper
        ).login()
    else:
        caller = await world.join(http)
        world.founded.amend("leave", caller.keys)
        await world.caller.post_roster(world.founded.chain[-1])
    said = await caller.call("DELETE", "/v1/vaults/self", document=await caller.signed(2))
    assert said.status in (401, 403)
    assert (await world.caller.call("GET", "/v1/roster")).status == 200
