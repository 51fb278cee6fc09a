"""The roster on the sync server: checked as hygiene, and at once in force."""

from __future__ import annotations

import base64
from typing import Any

import aiohttp
import pytest
from sync_server import Caller, World, entry_json

from memory_manager.sync.server.running import RunningServer
from memory_manager.sync.wire.roster import SignedEntry, found, sign_entry


async def revoke(world: World, target: Caller, seq: int = 0, head: bytes = bytes(32)) -> None:
    world.founded.revoke(target.keys, world.founded.first, seq, head)
    said = await world.caller.post_roster(world.founded.chain[-1])
    assert said.status == 201, said.body


async def test_the_chain_is_read_back_byte_by_byte(
    world: World, http: aiohttp.ClientSession
) -> None:
    await world.join(http)
    said = await world.caller.call("GET", "/v1/roster?after=-1")
    assert said.json["entries"] == [entry_json(entry) for entry in world.founded.chain]
    assert said.json["head"] == world.founded.roster.head.hex()
    rest = await world.caller.call("GET", "/v1/roster?after=0")
    assert rest.json["entries"] == [entry_json(world.founded.chain[1])]


async def test_an_entry_twice_is_one_entry(world: World) -> None:
    world.founded.add()
    first = await world.caller.post_roster(world.founded.chain[-1])
    again = await world.caller.post_roster(world.founded.chain[-1])
    assert first.json == {"idx": 1, "head": world.founded.roster.head.hex()}
    assert (again.status, again.json) == (201, first.json)


async def test_the_second_of_two_concurrent_entries_hears_the_head(world: World) -> None:
    late = world.founded.entry("add", world.founded.first, device=_device(world))
    world.founded.add()
    assert (await world.caller.post_roster(world.founded.chain[-1])).status == 201
    said = await world.caller.post_roster(late)
    assert (said.status, said.code) == (409, "ROSTER_HEAD")
    assert said.details == {"idx": 1, "head": world.founded.roster.head.hex()}


async def test_a_revoked_device_is_out_at_once(world: World, http: aiohttp.ClientSession) -> None:
    lost = await world.join(http)
    world.device.keys, world.device.own = lost.keys, []
    rows = world.rows(2)
    assert (await lost.push(rows[:1])).status == 200
    waiting = await http.ws_connect(lost.url + "/v1/notify", headers=_session(lost))
    assert await waiting.receive_json() == {"n": 1}
    await revoke(world, lost, 1, rows[0].entry.head)

    assert (await waiting.receive(timeout=10)).type in (
        aiohttp.WSMsgType.CLOSE,
        aiohttp.WSMsgType.CLOSED,
    )
    said = await lost.call("GET", "/v1/log/pull")
    assert (said.status, said.code) == (401, "SESSION_EPOCH")
    said = await lost.open_session()
    assert (said.status, said.code) == (403, "REVOKED_DEVICE")
    # its row beyond the cut is nobody's to bring, its earlier one everybody's
    beyond = await world.caller.push(rows[1:], by=lost.keys)
    assert (beyond.status, beyond.code) == (403, "REVOKED_DEVICE")
    assert (await world.caller.push(rows[:1], by=lost.keys)).status == 200
    await waiting.close()


async def test_a_revoked_device_signs_no_roster_entry(
    world: World, http: aiohttp.ClientSession
) -> None:
    lost = await world.join(http)
    await revoke(world, lost)
    for op, extra in [("leave", {}), ("add", {"device": _device(world)})]:
        entry = world.founded.entry(op, lost.keys, **extra)
        said = await world.caller.post_roster(entry)
        assert (said.status, said.code) == (403, "REVOKED_DEVICE")
    said = await world.caller.call("GET", "/v1/roster?after=2")
    assert said.json["entries"] == []


async def test_a_device_that_leaves_has_no_session(
    world: World, http: aiohttp.ClientSession
) -> None:
    leaving = await world.join(http)
    world.founded.amend("leave", leaving.keys)
    assert (await leaving.post_roster(world.founded.chain[-1])).status == 201
    assert (await leaving.call("GET", "/v1/log/pull")).status == 401
    assert (await leaving.open_session()).code == "REVOKED_DEVICE"


async def test_a_cut_before_rows_that_are_there_is_a_gap(
    world: World, http: aiohttp.ClientSession
) -> None:
    other = await world.join(http)
    world.device.keys, world.device.own = other.keys, []
    rows = world.rows(2)
    assert (await other.push(rows)).status == 200
    cut = {"target": other.keys.id.hex(), "cut_seq": 1, "cut_head": rows[0].entry.head.hex()}
    world.founded.vrk[2] = bytes(32)
    entry = world.founded.entry(
        "revoke", world.founded.first, **cut, epoch=world.founded.epoch_document(2)
    )
    said = await world.caller.post_roster(entry)
    assert (said.status, said.code) == (412, "GAP")
    assert said.details == {"seq": 2, "head": rows[1].entry.head.hex()}
    assert (await other.call("GET", "/v1/roster")).status == 200


def _device(world: World) -> dict[str, str]:
    from sync_world import new_keys

    return new_keys(world.founded.source).public()


def _session(caller: Caller) -> dict[str, str]:
    return {"Authorization": f"Bearer {caller.token}", "X-Session-Epoch": str(caller.epoch)}


def _wrong_key(world: World) -> SignedEntry:
    entry = world.founded.entry("add", world.founded.first, device=_device(world))
    return SignedEntry(entry.document, world.founded.paper.signing.sign(b"x").signature)


def _stranger(world: World) -> SignedEntry:
    from sync_world import new_keys

    return world.founded.entry("leave", new_keys(world.founded.source))


def _short_key(world: World) -> SignedEntry:
    device = {**_device(world), "ed25519": "00" * 31}
    return world.founded.entry("add", world.founded.first, device=device)


def _short_grant(world: World) -> SignedEntry:
    first = world.founded.first
    return world.founded.entry("grant_key", first, target=first.id.hex(), grant="00")


def _odd_operation(world: World) -> SignedEntry:
    return world.founded.entry("promote", world.founded.first)


def _second_genesis(world: World) -> SignedEntry:
    document = {
        "v": 1, "idx": 1, "prev": world.founded.roster.head.hex(), "op": "genesis",
        "by": world.founded.first.id.hex(), "at_seq": 0, "vault": world.founded.vault.hex(),
        "device": world.founded.first.public(), "epoch": world.founded.epoch_document(1),
    }  # fmt: skip
    return sign_entry(document, world.founded.first.signing)


def _no_json(world: World) -> SignedEntry:
    return SignedEntry(b"{", world.founded.chain[0].signature)


@pytest.mark.parametrize(
    ("make", "answer"),
    [
        (_wrong_key, (403, "UNKNOWN_DEVICE")),
        (_stranger, (403, "UNKNOWN_DEVICE")),
        (_short_key, (403, "UNKNOWN_DEVICE")),
        (_short_grant, (422, "MALFORMED")),
        (_odd_operation, (422, "MALFORMED")),
        (_second_genesis, (422, "MALFORMED")),
        (_no_json, (422, "MALFORMED")),
    ],
    ids=[
        "wrong key", "stranger", "short key", "short grant", "odd operation", "second genesis",
        "no JSON",
    ],
)  # fmt: skip
async def test_an_entry_that_does_not_hold_is_refused(
    world: World, server: RunningServer, make: Any, answer: tuple[int, str]
) -> None:
    said = await world.caller.post_roster(make(world))
    assert (said.status, said.code) == answer
    chain = await server.host.storage.roster(world.founded.vault, -1)
    assert chain.idx == 0


async def test_a_long_chain_is_read_in_pieces(world: World) -> None:
    padding = {f"{at:032x}": "00" * 1_000 for at in range(25)}
    for epoch in range(2, 20):
        world.founded.vrk[epoch] = bytes([epoch]) * 32
        document = {**world.founded.epoch_document(epoch), "sealed": padding}
        world.founded.amend("rotate", world.founded.first, epoch=document)
        assert (await world.caller.post_roster(world.founded.chain[-1])).status == 201
    found: list[dict[str, str]] = []
    while True:
        said = await world.caller.call("GET", f"/v1/roster?after={len(found) - 1}")
        assert len(said.body) < 1 << 20
        if not said.json["entries"]:
            break
        found += said.json["entries"]
    assert found == [entry_json(entry) for entry in world.founded.chain]


async def test_a_database_that_was_put_back_is_noticed(
    world: World, server: RunningServer, http: aiohttp.ClientSession
) -> None:
    """What was read of the roster before does not outlive it."""
    await world.join(http)
    storage, vault = server.host.storage, world.founded.vault
    assert (await server.host.rosters.current(vault)).head == world.founded.chain[1].hash
    await storage.delete_vault(vault)
    first = found(world.founded.chain[0], vault)
    members = tuple(first.members.values())
    await storage.create_vault(vault, world.founded.chain[0], members, now_ms=0, registration=None)
    assert (await server.host.rosters.current(vault)).head == first.head


async def test_an_entry_larger_than_its_route_takes_is_refused(world: World) -> None:
    text = base64.urlsafe_b64encode(bytes(100_000)).rstrip(b"=").decode()
    document = {"entry": text, "signature": "00" * 64}
    said = await world.caller.call("POST", "/v1/roster", document=document)
    assert (said.status, said.code) == (413, "TOO_LARGE")
