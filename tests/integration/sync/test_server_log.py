"""Rows into the sync server and out of it: order, forks, gaps, classes, and who may bring them."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import random
import sqlite3
from pathlib import Path

import aiohttp
import pytest
from sync_server import World, create_vault, registration_token, server_in_process

from memory_manager.sync.server.index.mount import index_mount
from memory_manager.sync.server.running import RunningServer
from memory_manager.sync.wire.envelope import SealedRow, body_hash
from memory_manager.sync.wire.framing import LogRow, Page, unpack_page
from memory_manager.sync.wire.log import (
    Entry,
    ServerHead,
    next_global_head,
    server_head_verifies,
)


async def pulled(world: World, after: int = 0, limit: int = 500) -> Page:
    said = await world.caller.call("GET", f"/v1/log/pull?after={after}&limit={limit}")
    assert (said.status, said.headers["Content-Type"]) == (200, "application/octet-stream")
    return unpack_page(said.body)


def altered(row: LogRow, body: bytes) -> LogRow:
    """A row whose entry names another body, as its author could sign it."""
    entry = dataclasses.replace(row.entry, body_hash=body_hash(body))
    return LogRow(entry, SealedRow(body, row.row.wrap))


async def test_what_is_pushed_is_pulled_and_verifies(
    world: World, http: aiohttp.ClientSession
) -> None:
    rows = world.rows(5)
    said = await world.caller.push(rows)
    g = bytes(32)
    for row in rows:
        g = next_global_head(g, row.entry.device, row.entry.head)
    head = said.json["head"]
    assert (said.status, said.json["first_n"], head["n"], head["g"]) == (200, 1, 5, g.hex())
    assert server_head_verifies(
        world.founded.vault,
        ServerHead(5, g),
        bytes.fromhex(head["signature"]),
        world.device.server_key,
    )
    page = await pulled(world)
    assert [row.row for row in page.rows] == [row.row for row in rows]
    assert [signed.value.seq for signed in page.checkpoints] == [5]
    assert world.device.accept(page).log.n == 5


async def test_a_page_ends_at_its_limit_and_tells_the_tip(world: World) -> None:
    await world.caller.push(world.rows(3))
    await world.caller.push(world.rows(4))
    page = await pulled(world, after=1, limit=2)
    assert ([row.n for row in page.rows], page.page_head.value.n) == ([2, 3], 3)
    assert page.tip.value.n == 7
    last = await pulled(world, after=7)
    assert (last.rows, last.tip.value.n) == ((), 7)
    assert (await pulled(world, after=10**15)).rows == ()


async def test_a_page_stays_below_8_mib(tmp_path: Path, http: aiohttp.ClientSession) -> None:
    async with server_in_process(tmp_path / "large") as server:
        world = await create_vault(http, server.url, await registration_token(server))
        for _ in range(20):
            row = world.device.write(
                world.founded.source.randbytes(15).rjust(16, b"\1"), "x" * 500_000
            )
            assert (await world.caller.push([row])).status == 200
        said = await world.caller.call("GET", "/v1/log/pull?limit=500")
        assert len(said.body) <= 8 << 20
        assert 10 < len(unpack_page(said.body).rows) < 20


async def test_a_push_twice_is_one_push(world: World) -> None:
    body = world.caller.push_body(world.rows(3))
    first = await world.caller.call("POST", "/v1/log/push", body=body)
    again = await world.caller.call("POST", "/v1/log/push", body=body)
    assert first.json == again.json
    assert (await pulled(world)).tip.value.n == 3


async def test_another_row_at_a_taken_position_is_a_fork(world: World) -> None:
    ours = world.rows(1)
    assert (await world.caller.push(ours)).status == 200
    world.device.own.clear()
    theirs = world.rows(1)
    said = await world.caller.push(theirs)
    assert (said.status, said.code) == (409, "FORK")
    assert said.details == {
        "seq": 1,
        "ours": ours[0].entry.head.hex(),
        "theirs": theirs[0].entry.head.hex(),
    }
    assert (await pulled(world)).tip.value.n == 1


async def test_a_row_that_does_not_follow_is_a_gap(world: World) -> None:
    rows = world.rows(4)
    assert (await world.caller.push(rows[:1])).status == 200
    said = await world.caller.push(rows[2:])
    assert (said.status, said.code) == (412, "GAP")
    assert said.details == {"seq": 1, "head": rows[0].entry.head.hex()}


@pytest.mark.parametrize("order", [[1, 0], [0, 2], [0, 0]], ids=["reordered", "hole", "doubled"])
async def test_a_batch_that_is_no_chain_is_refused_whole(world: World, order: list[int]) -> None:
    rows = world.rows(3)
    said = await world.caller.push([rows[at] for at in order])
    assert (said.status, said.code) in {(412, "GAP"), (422, "MALFORMED")}
    assert (await pulled(world)).tip.value.n == 0


async def test_a_checkpoint_of_another_row_or_key_is_refused(
    world: World, http: aiohttp.ClientSession
) -> None:
    other = await world.join(http)
    rows = world.rows(2)
    body = bytearray(world.caller.push_body(rows))
    body[16 + 112] ^= 1  # the checkpoint's signature
    said = await world.caller.call("POST", "/v1/log/push", body=bytes(body))
    assert (said.status, said.code) == (403, "UNKNOWN_DEVICE")
    said = await world.caller.push(rows, by=other.keys)
    assert (said.status, said.code) == (422, "MALFORMED")
    assert (await pulled(world)).tip.value.n == 0


async def test_a_body_that_is_not_the_named_one_is_refused(world: World) -> None:
    first, second = world.rows(2)
    swapped = LogRow(first.entry, second.row)
    said = await world.caller.push([swapped])
    assert (said.status, said.code) == (422, "MALFORMED")


async def test_a_row_of_another_position_is_refused(world: World) -> None:
    """The readable header belongs to the entry, although hash and signature hold."""
    first, second = world.rows(2)
    said = await world.caller.push([altered(first, second.row.body)])
    assert (said.status, said.code) == (422, "MALFORMED")


@pytest.mark.parametrize(("at", "value"), [(5, 1), (24, 0x80)], ids=["policy byte", "class bit"])
async def test_a_row_whose_class_and_policy_disagree_is_refused_and_noted(
    world: World, caplog: pytest.LogCaptureFixture, at: int, value: int
) -> None:
    (row,) = world.rows(1)
    body = bytearray(row.row.body)
    body[at] |= value
    with caplog.at_level(logging.WARNING, "memory_manager.sync.server"):
        said = await world.caller.push([altered(row, bytes(body))])
    assert (said.status, said.code) == (422, "CLASS_POLICY")
    assert [r.msg for r in caplog.records] == ["class_policy_refused"]
    assert (await pulled(world)).tip.value.n == 0


async def test_a_push_of_a_wrong_class_is_in_the_audit_of_its_vault(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with server_in_process(tmp_path / "server", mounts=[index_mount()]) as server:
        world = await create_vault(http, server.url, await registration_token(server))
        good, bad = world.rows(2)
        assert (await world.caller.push([good])).status == 200
        body = bytearray(bad.row.body)
        body[5] |= 1
        assert (await world.caller.push([altered(bad, bytes(body))])).status == 422
    with contextlib.closing(sqlite3.connect(tmp_path / "server" / "index.db")) as connection:
        noted = connection.execute("SELECT vault, device, action, code FROM index_audit").fetchall()
    device = world.caller.keys.id
    assert noted == [(world.founded.vault, device, "push.refused", "class_policy")]


async def test_a_push_of_an_earlier_session_epoch_is_fenced(world: World) -> None:
    said = await world.caller.push(world.rows(1), epoch=world.caller.epoch + 1)
    assert (said.status, said.code) == (401, "SESSION_EPOCH")


async def test_another_device_brings_back_what_a_server_lost(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    """Whole batches with their author's checkpoint, and the roster entries, verify again."""
    async with server_in_process(tmp_path / "new") as server:
        world = await create_vault(http, server.url, await registration_token(server))
        keys = world.founded.add()
        world.device.keys = keys  # rows of the second device, brought by the first
        rows = world.rows(3)
        said = await world.caller.push(rows, by=keys)
        assert (said.status, said.code) == (403, "UNKNOWN_DEVICE")
        assert (await world.caller.post_roster(world.founded.chain[-1])).status == 201
        parts = await world.caller.push(rows[:2], by=keys)
        assert (parts.status, parts.json["first_n"]) == (200, 1)
        assert (await world.caller.push(rows[2:], by=keys)).status == 200
        page = await pulled(world)
        assert {row.entry.device for row in page.rows} == {keys.id}
        assert [signed.value.device for signed in page.checkpoints] == [keys.id, keys.id]


async def test_rows_of_two_authors_are_no_batch(world: World, http: aiohttp.ClientSession) -> None:
    other = await world.join(http)
    mine = world.rows(1)
    world.device.keys, world.device.own = other.keys, []
    said = await world.caller.push([*mine, *world.rows(1)])
    assert (said.status, said.code) == (422, "MALFORMED")


async def test_wraps_of_a_rotation_are_kept_by_row_and_epoch(world: World) -> None:
    rows = world.rows(3)
    await world.caller.push(rows)
    old = [{"body_hash": r.entry.body_hash.hex(), "wrap": r.row.wrap.hex()} for r in rows]
    future = [{**wrap, "wrap": "00000002" + wrap["wrap"][8:]} for wrap in old]
    said = await world.caller.call("POST", "/v1/wrap/push", document={"wraps": future})
    assert (said.status, said.code) == (422, "MALFORMED")  # no such epoch yet
    world.founded.vrk[2] = random.Random(3).randbytes(32)
    entry = world.founded.entry(
        "rotate", world.founded.first, epoch=world.founded.epoch_document(2)
    )
    assert (await world.caller.post_roster(entry)).status == 201
    said = await world.caller.call("POST", "/v1/wrap/push", document={"wraps": future})
    assert said.json == {"stored": 3}
    first = await world.caller.call("GET", "/v1/wrap/pull?after=0&limit=2")
    rest = await world.caller.call("GET", f"/v1/wrap/pull?after={first.json['cursor']}")
    found = [*first.json["wraps"], *rest.json["wraps"]]
    assert [(w["body_hash"], w["wrap"], w["epoch"]) for w in found] == [
        (wrap["body_hash"], wrap["wrap"], 2) for wrap in future
    ]
    assert (await pulled(world)).rows[0].row.wrap.hex() == future[0]["wrap"]


async def test_an_entry_of_another_vault_in_the_right_vaults_session(world: World) -> None:
    (row,) = world.rows(1)
    foreign = dataclasses.replace(row.entry, vault=bytes(16))
    said = await world.caller.push([LogRow(foreign, row.row)])
    assert (said.status, said.code) == (422, "MALFORMED")
    assert isinstance(foreign, Entry)


async def test_the_largest_push_is_taken_and_one_row_more_is_not(
    world: World, server: RunningServer
) -> None:
    rows = world.rows(257)
    said = await world.caller.push(rows)
    assert (said.status, said.code) == (413, "TOO_LARGE")
    assert (await world.caller.push(rows[:256])).status == 200
    assert "memlocket_server_rows_pushed_total 256\n" in server.host.metrics.text()
