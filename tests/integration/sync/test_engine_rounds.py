"""Real devices and the real server: rows arrive, stops ask, the owner goes on."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from sync_devices import EAGER, MARK, QUIET, Devices
from sync_proxy import PULL, PUSH, ROSTER, Answer, Call, SyncProxy, refusal
from sync_server import server_in_process

from memory_manager.sync.engine import exchange
from memory_manager.sync.engine.errors import NothingToConfirm, SyncOff
from memory_manager.sync.engine.loop import SyncLoop
from memory_manager.sync.engine.own_state import heads
from memory_manager.sync.engine.parts import Parts, Progress
from memory_manager.sync.ledger import alarms, state
from memory_manager.sync.server.running import RunningServer
from memory_manager.sync.wire.framing import MAX_PUSH_BYTES, MAX_PUSH_ROWS, unpack_push


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with server_in_process(tmp_path / "server") as running:
        yield running


async def test_a_vault_without_a_server_says_so(made: Devices) -> None:
    device = await made.new("one")
    await device.remember("alone")
    said = await device.sync.fresh_status()
    assert said["state"] == "off"
    assert all(value is None for name, value in said.items() if name != "state")
    with pytest.raises(SyncOff):
        await device.sync.sync_now()


async def test_rows_of_both_devices_end_up_on_both(server: RunningServer, made: Devices) -> None:
    one = await made.found(server)
    before = {f"early {k}" for k in range(3)}
    for text in before:
        await one.remember(text)
    two = await made.join(one, server.url, "two")
    assert await two.texts() == before
    await one.remember("from one")
    await two.remember("from two")
    for device in (one, two, one):
        await device.sync.sync_now()
    assert await one.texts() == await two.texts() == {*before, "from one", "from two"}
    assert await one.verified() == await two.verified()
    said: Any = await two.sync.fresh_status()
    assert (said["state"], said["outbox"], said["alarms"]) == ("ok", 0, [])
    assert len(said["verified"]["words"]) == 6
    assert {device["id"] for device in said["devices"]} == {one.id.hex(), two.id.hex()}
    assert "early" not in json.dumps(said)


async def test_devices_sync_by_themselves(server: RunningServer, made: Devices) -> None:
    one = await made.found(server, pace=EAGER)
    two = await made.join(one, server.url, "two", pace=EAGER)
    for turn in range(3):
        await one.remember(f"written {turn}")
        await two.until_text(f"written {turn}")
    await one.until(lambda said: said["outbox"] == 0)


async def test_news_that_come_during_a_round_are_not_lost(
    server: RunningServer, made: Devices, proxy: SyncProxy
) -> None:
    """A poke is told once: the round under way may have looked before."""
    one = await made.found(server, proxy.url)

    def parts(tell: Callable[[Progress | None], None]) -> Parts:
        return Parts(
            store=one.store,
            client=one.sync.client,
            secrets=one.sync.secrets,
            memories=one.memories,
            journal=one.journal,
            flush_anchor=one.sync.anchor.write_anchor,
            tell=tell,
        )

    async def nothing() -> None:
        return None

    loop = SyncLoop(parts, pace=QUIET, refreshed=nothing)

    async def hear(_: Parts) -> None:
        loop.hint()

    async with asyncio.TaskGroup() as group:
        running = group.create_task(loop.run())
        before = proxy.count(f"GET {PULL}")
        assert await loop.round(hear) is None
        await one.until(lambda _: proxy.count(f"GET {PULL}") == before + 2)
        running.cancel()


@pytest.mark.timeout(900)  # 10 000 rows when thorough
async def test_many_rows_go_in_batches_of_the_size_the_protocol_allows(
    server: RunningServer, made: Devices, proxy: SyncProxy, thorough: bool
) -> None:
    one = await made.found(server, proxy.url)
    sizes: list[int] = []

    async def watch(call: Call) -> None:
        if call.path == PUSH:
            assert len(call.body) <= MAX_PUSH_BYTES
            sizes.append(len(unpack_push(call.body).rows))

    proxy.rule = watch
    count, large = 10_000 if thorough else 300, 12
    await one.remember_many(count)
    for k in range(large):
        await one.remember(f"{k} " * 30_000)
    await one.sync.sync_now()
    assert sum(sizes) == count + large
    assert (await one.verified())[0] == MARK + count + large
    assert max(sizes) == MAX_PUSH_ROWS
    two = await made.join(one, proxy.url, "two")
    assert await two.count("record") == count + large
    assert await one.verified() == await two.verified()


async def test_a_pause_lasts_over_a_restart_and_holds_writes_back(
    server: RunningServer, made: Devices
) -> None:
    one = await made.found(server, pace=EAGER)
    held = (await one.verified())[0]
    await one.sync.pause()
    await one.remember("kept back")
    await one.until(lambda said: said["outbox"] == 1)
    assert await one.state() == "paused"
    await one.close()
    await one.open()
    await asyncio.sleep(0.1)
    assert (await one.state(), (await one.verified())[0]) == ("paused", held)
    await one.sync.resume()
    await one.until(lambda said: said["outbox"] == 0 and said["state"] == "ok")


async def test_two_rounds_over_one_outbox_are_one_push_in_the_log(
    server: RunningServer, made: Devices, proxy: SyncProxy
) -> None:
    """T33: overlapping and repeated batches are idempotent."""
    one = await made.found(server, proxy.url)
    await one.remember_many(5)
    repeated: list[int] = []

    async def twice(call: Call) -> Answer | None:
        if call.path != PUSH:
            return None
        first = await call.forward()
        second = await call.forward()
        repeated.extend((first.status, second.status))
        return second

    proxy.rule = twice
    await asyncio.gather(one.sync.sync_now(), one.sync.sync_now())
    assert repeated == [200, 200]
    assert ((await one.verified())[0], await one.codes()) == (MARK + 5, [])


async def test_a_gap_is_healed_by_one_pull_and_reported_when_it_stays(
    server: RunningServer, made: Devices, proxy: SyncProxy
) -> None:
    one = await made.found(server, proxy.url)
    await one.remember("row")
    gaps = 1

    async def gap(call: Call) -> Answer | None:
        nonlocal gaps
        if call.path == PUSH and gaps:
            gaps -= 1
            return refusal(412, "GAP", {"seq": 0, "head": bytes(32).hex()})
        return None

    proxy.rule = gap
    assert (await one.sync.sync_now())["outbox"] == 0
    await one.remember("another")
    gaps = 2
    said = await one.sync.sync_now()
    assert (said["state"], said["outbox"], await one.codes()) == ("waiting", 1, ["GAP"])
    assert (await one.sync.sync_now())["state"] == "ok"


@pytest.mark.parametrize(
    ("status", "code", "state"),
    [
        (409, "FORK", "stopped"),
        (403, "REVOKED_DEVICE", "stopped"),
        (422, "CLASS_POLICY", "stopped"),
        (422, "MALFORMED", "stopped"),
        (429, "RATE", "waiting"),
        (507, "QUOTA", "waiting"),
        (413, "TOO_LARGE", "waiting"),
    ],
)
async def test_what_the_server_refuses_stops_or_waits(
    server: RunningServer, made: Devices, proxy: SyncProxy, status: int, code: str, state: str
) -> None:
    one = await made.found(server, proxy.url)
    await one.remember("row")

    async def refuse(call: Call) -> Answer | None:
        headers = {"Retry-After": "1800"} if status == 429 else {}
        return refusal(status, code, **headers) if call.path == PUSH else None

    proxy.rule = refuse
    said: Any = await one.sync.sync_now()
    shown = "SERVER_REFUSED" if code == "MALFORMED" else code
    assert (said["state"], said["outbox"]) == (state, 1)
    assert [alarm["code"] for alarm in said["alarms"]] == [shown]
    assert said["alarms"][0]["advice"]
    asked = len(proxy.calls)
    if state == "stopped":
        await one.close()
        await one.open()
        assert (await one.sync.sync_now())["state"] == "stopped"
        assert len(proxy.calls) == asked  # never a blind retry
        proxy.rule = None
        said = await one.sync.retry()
    else:
        proxy.rule = None
        said = await one.sync.sync_now()
    assert (said["state"], said["outbox"], said["alarms"]) == ("ok", 0, [])


async def test_a_change_of_the_roster_waits_for_the_owner(
    server: RunningServer, made: Devices
) -> None:
    """T42."""
    one = await made.found(server)
    two = await made.join(one, server.url, "two")
    await made.join(one, server.url, "three")
    await one.remember("after three")
    await one.sync.sync_now()
    said: Any = await two.sync.sync_now()
    assert said["state"] == "stopped"
    (alarm,) = said["alarms"]
    assert (alarm["code"], alarm["device"]) == ("ROSTER_CHANGED", one.id.hex())
    assert alarm["changes"].startswith("add ")
    assert "after three" not in await two.texts()
    assert len(said["devices"]) == 2
    with pytest.raises(NothingToConfirm):
        await two.sync.confirm("ROSTER_CHANGED", "yes")
    with pytest.raises(NothingToConfirm):
        await two.sync.confirm("BREAKER", "BREAKER")
    with pytest.raises(NothingToConfirm):
        await two.sync.retry()
    said = await two.sync.confirm("ROSTER_CHANGED", "roster_changed ")
    assert (said["state"], len(said["devices"]), said["alarms"]) == ("ok", 3, [])
    assert "after three" in await two.texts()


@pytest.mark.parametrize(
    ("rows", "deleted"), [(100, 21), (60, 36)], ids=["21 of 100", "60 percent"]
)
async def test_many_deletions_wait_for_the_owner(
    server: RunningServer, made: Devices, rows: int, deleted: int
) -> None:
    """T42."""
    one = await made.found(server)
    ids = await one.remember_many(rows)
    two = await made.join(one, server.url, "two")
    await one.delete(*ids[:deleted])
    await one.sync.sync_now()
    said = await two.sync.sync_now()
    assert (said["state"], await two.codes()) == ("stopped", ["BREAKER"])
    assert len(await two.texts()) == rows
    said = await two.sync.confirm("BREAKER", "BREAKER")
    assert (said["state"], said["alarms"]) == ("ok", [])
    assert len(await two.texts()) == rows - deleted
    assert await one.verified() == await two.verified()


async def test_a_clone_of_a_device_is_noticed_and_one_side_stops(
    server: RunningServer, made: Devices
) -> None:
    """T40: the copy of a whole machine, its device key included."""
    one = await made.found(server)
    await one.remember("before")
    await one.sync.sync_now()
    clone = await made.clone(one, "clone")
    for _ in range(4):
        await one.sync.sync_now()
        await clone.sync.sync_now()
    states = [await one.state(), await clone.state()]
    assert states.count("stopped") == 1
    stopped, going = (one, clone) if states[0] == "stopped" else (clone, one)
    assert await stopped.codes() == ["CLONED"]
    await going.remember("goes on")
    assert (await going.sync.sync_now())["state"] == "ok"
    said = await stopped.sync.retry()
    assert (said["state"], await stopped.codes()) == ("stopped", ["CLONED"])
    assert await stopped.texts() == {"before"}


async def test_a_clone_that_writes_first_makes_no_fork(
    server: RunningServer, made: Devices
) -> None:
    one = await made.found(server)
    await one.remember("before")
    await one.sync.sync_now()
    clone = await made.clone(one, "clone")
    await clone.remember("by the clone")
    await one.remember("by the original")
    assert (await clone.sync.sync_now())["state"] == "ok"
    said = await one.sync.sync_now()
    assert (said["state"], await one.codes()) == ("stopped", ["CLONED"])
    assert await one.texts() == {"before", "by the original"}


async def test_an_idle_round_writes_nothing_and_asks_little(
    server: RunningServer, made: Devices, proxy: SyncProxy
) -> None:
    one = await made.found(server, proxy.url)
    await one.remember("row")
    await one.sync.sync_now()
    generation, before = one.store.generation(), len(proxy.calls)
    for _ in range(5):
        await one.sync.sync_now()
    assert one.store.generation() == generation
    asked = [call for call in proxy.calls[before:] if "notify" not in call]
    assert asked == [f"GET {ROSTER}", f"GET {PULL}"] * 5


async def test_the_last_heads_of_the_server_are_kept(server: RunningServer, made: Devices) -> None:
    one = await made.found(server, pace=QUIET)
    for turn in range(3):
        await one.remember(f"row {turn}")
        await one.sync.sync_now()
    kept = await one.store.read(heads)
    assert [head.value.n for head in kept] == [0, MARK, MARK + 1, MARK + 2, MARK + 3]


async def test_what_is_locked_holds_no_key_and_no_connection(
    server: RunningServer, made: Devices
) -> None:
    one = await made.found(server, pace=EAGER)
    await one.until(lambda said: said["state"] == "ok")
    secrets = one.sync.secrets
    await one.close()
    assert not any(secrets.key.secrets)
    with pytest.raises(SyncOff):
        _ = one.sync.client
    assert one.sync.status()["state"] == "off"


async def test_a_stop_that_the_vault_cannot_keep_is_found_and_kept_later(
    server: RunningServer, made: Devices, proxy: SyncProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: the next round meets the same refusal, and the disk has room again."""
    one = await made.found(server, proxy.url, pace=EAGER)
    await one.until(lambda said: said["state"] == "ok")
    monkeypatch.setattr(alarms, "record", _once_failing(alarms.record))
    proxy.calls.clear()

    async def refuse(call: Call) -> Answer | None:
        return refusal(409, "FORK") if call.path == PUSH else None

    proxy.rule = refuse
    await one.remember("row")
    said = await one.until(lambda said: said["state"] == "stopped")
    assert [alarm["code"] for alarm in said["alarms"]] == ["FORK"]
    assert proxy.count(f"POST {PUSH}") == 2


async def test_a_vault_that_could_not_be_read_is_read_again(
    server: RunningServer, made: Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await made.found(server, pace=EAGER)
    await one.until(lambda said: said["state"] == "ok")
    read, failing = one.store.read, _once_failing(state.must_enrol_again)

    async def read_once_failing(work: Callable[[Any], Any]) -> Any:
        return await read(failing if work is state.must_enrol_again else work)

    monkeypatch.setattr(one.store, "read", read_once_failing)
    await one.remember("row")
    await one.until(lambda said: said["outbox"] == 0 and said["state"] == "ok")


def _once_failing(works: Callable[..., Any]) -> Callable[..., Any]:
    left = [OSError("no space left on device")]

    def work(*arguments: Any, **named: Any) -> Any:
        if left:
            raise left.pop()
        return works(*arguments, **named)

    return work


async def test_a_certificate_file_that_is_gone_is_told(
    server: RunningServer, made: Devices, tmp_path: Path
) -> None:
    one = await made.found(server)
    known = await one.sync.connection()
    assert known is not None
    url = "https://127.0.0.1:1"
    missing = dataclasses.replace(known, url=url, ca_file=str(tmp_path / "gone.pem"))
    await one.sync.connect(missing)
    said = await one.sync.fresh_status()
    assert (said["state"], await one.codes()) == ("waiting", ["CONNECTION_UNUSABLE"])
    await one.sync.connect(known)
    assert (await one.sync.sync_now())["state"] == "ok"


async def test_a_write_near_the_end_of_the_owners_round_is_sent_soon(
    server: RunningServer, made: Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await made.found(server, pace=EAGER)
    await one.until(lambda said: said["state"] == "ok")
    pushed, written = asyncio.Event(), asyncio.Event()

    async def rewrap(_: Parts) -> None:
        pushed.set()
        await written.wait()

    monkeypatch.setattr(exchange, "rewrap", rewrap)
    async with asyncio.TaskGroup() as group:
        group.create_task(one.sync.sync_now())
        await pushed.wait()
        await one.remember("late")
        await asyncio.sleep(0.2)
        written.set()
    await one.until(lambda said: said["outbox"] == 0 and said["state"] == "ok")


async def test_keys_are_wiped_also_when_the_end_of_sync_fails(
    server: RunningServer, made: Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await made.found(server)
    secrets, close = one.sync.secrets, one.sync.client.close

    async def fail() -> None:
        await close()
        raise OSError("no close")

    monkeypatch.setattr(one.sync.client, "close", fail)
    with pytest.raises(OSError, match="no close"):
        await one.sync.close()
    assert not any(secrets.key.secrets)


async def test_writes_wait_by_chance_as_the_owner_says(
    server: RunningServer, made: Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the next write on, also after a restart; the owner's own round waits for nothing."""
    alone = await made.new("alone")
    with pytest.raises(SyncOff):
        await alone.sync.set_jitter(1.0)
    one = await made.found(server, pace=EAGER)
    await one.until(lambda said: said["state"] == "ok")
    await one.sync.set_jitter(60.0)
    monkeypatch.setattr(random.SystemRandom, "uniform", lambda _self, _low, high: high)
    await one.remember("blurred")
    await asyncio.sleep(0.5)
    await one.close()
    await one.open()
    assert (await one.sync.options()).jitter_seconds == 60.0
    await one.until(lambda said: said["outbox"] == 0 and said["state"] == "ok")  # at the opening
    await one.remember("blurred, too")
    await asyncio.sleep(0.5)
    assert (await one.sync.fresh_status())["outbox"] == 1
    assert (await one.sync.sync_now())["outbox"] == 0
    await one.sync.set_jitter(0.0)
    await one.remember("at once")
    await one.until(lambda said: said["outbox"] == 0 and said["state"] == "ok")
