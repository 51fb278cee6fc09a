"""Login at the sync server and what every call demands of its session."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from sync_server import Caller, World, create_vault, registration_token, server_in_process
from sync_world import new_keys

from memory_manager.base.times import now_ms
from memory_manager.sync.server.running import RunningServer, running_server
from memory_manager.sync.server.settings import Address, ServerSettings

WITH_SESSION = [
    ("POST", "/v1/log/push"),
    ("GET", "/v1/log/pull"),
    ("POST", "/v1/wrap/push"),
    ("GET", "/v1/wrap/pull"),
    ("GET", "/v1/roster"),
    ("POST", "/v1/roster"),
    ("GET", "/v1/notify"),
    ("DELETE", "/v1/vaults/self"),
]


async def test_a_session_has_a_token_an_epoch_and_a_life(world: World) -> None:
    said = await world.caller.open_session()
    assert said.status == 200
    assert len(bytes.fromhex(said.json["token"])) == 32
    assert (said.json["epoch"], said.json["expires_in"]) == (2, 900)


async def test_the_database_holds_no_token(world: World, server: RunningServer) -> None:
    token = world.caller.token
    for path in server.host.settings.data.iterdir():
        data = path.read_bytes()
        assert token.encode() not in data, path.name
        assert bytes.fromhex(token) not in data, path.name


async def test_strangers_get_the_same_answers_as_members(
    world: World, http: aiohttp.ClientSession
) -> None:
    source = random.Random(7)
    stranger = new_keys(source)
    callers = [
        Caller(http, world.caller.url, world.founded.vault, stranger),
        Caller(http, world.caller.url, source.randbytes(16), stranger),
        Caller(http, world.caller.url, source.randbytes(16), world.caller.keys),
    ]
    lying = await world.caller.open_session(nonce=bytes(32))
    assert (lying.status, lying.code) == (401, "LOGIN")
    for caller in callers:
        nonce, server_key = await caller.challenge()
        assert len(nonce) == 32
        assert server_key == world.device.server_key
        said = await caller.open_session()
        assert (said.status, said.body) == (lying.status, lying.body)
        assert said.headers.keys() == lying.headers.keys()


@pytest.mark.parametrize(
    "lie",
    [
        {"host": "sync.example.org:8443"},
        {"server_key": bytes(32)},
        {"action": 2},
        {"vault": bytes(16)},
        {"device": bytes(16)},
        {"nonce": bytes(32)},
    ],
    ids=["host", "server key", "action", "vault", "device", "nonce"],
)
async def test_a_signature_over_other_facts_opens_no_session(
    world: World, lie: dict[str, Any]
) -> None:
    said = await world.caller.open_session(**lie)
    assert (said.status, said.code) == (401, "LOGIN")


async def test_the_name_that_clients_use_is_what_they_sign(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    public = "sync.example.org:8443"
    async with server_in_process(tmp_path / "named", public_host=public) as server:
        world = await create_vault(http, server.url, await registration_token(server), host=public)
        assert (await world.caller.open_session(host="127.0.0.1:1")).status == 401
        assert (await world.caller.open_session()).status == 200


async def test_a_nonce_opens_one_session(world: World) -> None:
    document = await world.caller.signed(1)
    first = await world.caller.call("POST", "/v1/auth/session", document=document, session=False)
    again = await world.caller.call("POST", "/v1/auth/session", document=document, session=False)
    assert first.status == 200
    assert (again.status, again.code) == (401, "CHALLENGE")


async def test_a_nonce_of_another_device_opens_nothing(
    world: World, http: aiohttp.ClientSession
) -> None:
    other = await world.join(http)
    nonce, _ = await other.challenge()
    assert (await world.caller.open_session(nonce=nonce)).status == 401


async def test_nonces_and_sessions_end_with_their_time(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    offset = 0
    settings = ServerSettings(data=tmp_path / "timed", listen=Address("127.0.0.1", 0))
    async with running_server(settings, clock_ms=lambda: now_ms() + offset) as server:
        world = await create_vault(http, server.url, await registration_token(server))
        document = await world.caller.signed(1)
        offset = 61_000
        late = await world.caller.call("POST", "/v1/auth/session", document=document, session=False)
        assert (late.status, late.code) == (401, "LOGIN")
        assert (await world.caller.call("GET", "/v1/roster")).status == 200
        offset = 901_000
        over = await world.caller.call("GET", "/v1/roster")
        assert (over.status, over.code) == (401, "SESSION_EPOCH")
        assert over.details == {"reason": "expired"}


async def test_a_newer_session_ends_the_older_one(
    world: World, http: aiohttp.ClientSession
) -> None:
    twin = await Caller(http, world.caller.url, world.caller.vault, world.caller.keys).login()
    evicted = await world.caller.call("GET", "/v1/roster")
    assert (evicted.status, evicted.code) == (401, "SESSION_EPOCH")
    assert evicted.details == {"reason": "superseded"}
    assert (await twin.call("GET", "/v1/roster")).status == 200
    assert twin.epoch == world.caller.epoch + 1


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer", "X-Session-Epoch": "1"},
        {"Authorization": f"Bearer {'00' * 32}", "X-Session-Epoch": "1"},
        {"Authorization": f"Bearer {'00' * 31}", "X-Session-Epoch": "1"},
        {"Authorization": "Bearer zz", "X-Session-Epoch": "1"},
        {"Authorization": "Basic OK", "X-Session-Epoch": "1"},
        {"Authorization": "Bearer OK", "X-Session-Epoch": "2"},
        {"Authorization": "Bearer OK", "X-Session-Epoch": "one"},
        {"Authorization": "Bearer OK"},
    ],
    ids=[
        "none", "empty", "unknown", "short", "no hex", "scheme", "epoch", "no epoch", "absent",
    ],
)  # fmt: skip
async def test_every_call_demands_its_session(world: World, headers: dict[str, str]) -> None:
    sent = {name: value.replace("OK", world.caller.token) for name, value in headers.items()}
    for method, path in WITH_SESSION:
        said = await world.caller.call(method, path, headers=sent, session=False)
        assert (said.status, said.code) == (401, "SESSION_EPOCH"), path
        assert said.details == {"reason": "unknown"}


async def test_the_paper_device_may_log_in(world: World, http: aiohttp.ClientSession) -> None:
    paper = Caller(http, world.caller.url, world.caller.vault, world.founded.paper)
    await paper.login()
    assert (await paper.call("GET", "/v1/log/pull")).status == 200


async def test_one_vault_cannot_name_another(
    world: World, server: RunningServer, http: aiohttp.ClientSession
) -> None:
    other = await create_vault(http, server.url, await registration_token(server), seed=2)
    assert (await other.caller.push(other.rows(2))).status == 200
    caller = world.caller
    # its rows with our session, its roster entry, its device's re-wrapped keys
    stolen = other.caller.push_body(other.rows(1), epoch=caller.epoch)
    assert (await caller.call("POST", "/v1/log/push", body=stolen)).status == 422
    other.founded.add(other.caller.keys)
    assert (await caller.post_roster(other.founded.chain[-1])).status == 422
    row = other.device.own[0]
    wraps = [{"body_hash": row.entry.body_hash.hex(), "wrap": row.row.wrap.hex()}]
    said = await caller.call("POST", "/v1/wrap/push", document={"wraps": wraps})
    assert (said.status, said.json) == (200, {"stored": 0})
    assert (await caller.call("GET", "/v1/log/pull?after=0")).body.startswith(
        b"MLKQ\x01\0\0\0" + bytes(8)
    )
    assert (await caller.call("GET", "/v1/notify?after=0&wait=0")).json == {"n": 0}
