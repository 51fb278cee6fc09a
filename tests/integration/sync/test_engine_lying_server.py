"""A server, or somebody on the way to it, that lies about the log: each lie stops with its code."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import random
import shutil
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from nacl.signing import SigningKey
from sync_devices import Devices, SyncDevice, devices
from sync_proxy import (
    PULL,
    PUSH,
    ROSTER,
    Answer,
    Call,
    Rule,
    SyncProxy,
    between,
    listening,
    octets,
    pages,
    signed_head,
)
from sync_server import server_in_process
from sync_world import new_keys

from memory_manager.sync.engine.errors import NothingToConfirm
from memory_manager.sync.engine.evidence import verify_evidence
from memory_manager.sync.server.running import RunningServer
from memory_manager.sync.wire.canonical import decode
from memory_manager.sync.wire.envelope import SealedRow
from memory_manager.sync.wire.framing import LogRow, Page
from memory_manager.sync.wire.log import next_global_head
from memory_manager.sync.wire.roster import SignedEntry, sign_entry


@dataclasses.dataclass
class Pair:
    """Device one writes straight to the server; device two reads through the proxy."""

    server: RunningServer
    proxy: SyncProxy
    made: Devices
    one: SyncDevice
    two: SyncDevice

    @property
    def key(self) -> SigningKey:
        return self.server.host.key.signing

    @property
    def vault(self) -> bytes:
        return bytes.fromhex(str(self.one.sync.status()["vault"]))

    async def write(self, *texts: str) -> None:
        """By device one, which is told the truth."""
        self.proxy.rule = None
        for text in texts:
            await self.one.remember(text)
        await self.one.sync.sync_now()


@contextlib.asynccontextmanager
async def _pair(folder: Path) -> AsyncIterator[Pair]:
    async with (
        server_in_process(folder / "server") as server,
        between(server) as proxy,
        devices(folder) as made,
    ):
        one = await made.found(server, proxy.url)
        two = await made.join(one, proxy.url, "two")
        yield Pair(server, proxy, made, one, two)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pair]:
    """For lies after which sync goes on."""
    async with _pair(tmp_path_factory.mktemp("pair")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with _pair(tmp_path) as found:
        yield found


pytestmark = pytest.mark.asyncio(loop_scope="module")


def renumbered(rows: tuple[LogRow, ...], first: int) -> tuple[LogRow, ...]:
    return tuple(dataclasses.replace(row, n=first + k) for k, row in enumerate(rows))


def resigned(pair: Pair, page: Page, rows: tuple[LogRow, ...], g: bytes) -> Page:
    """What a server that wants to lie consistently sends: new numbers, new G, its signature."""
    rows = renumbered(rows, page.rows[0].n)
    for row in rows:
        g = next_global_head(g, row.entry.device, row.entry.head)
    head = signed_head(pair.key, pair.vault, rows[-1].n, g)
    return Page(rows, page.checkpoints, head, head)


def changed(old: LogRow, **parts: Any) -> LogRow:
    return dataclasses.replace(old, **parts)


def _swap_bodies(page: Page) -> Page:
    first, second, *rest = page.rows
    return dataclasses.replace(
        page,
        rows=(
            changed(first, row=SealedRow(second.row.body, first.row.wrap)),
            changed(second, row=SealedRow(first.row.body, second.row.wrap)),
            *rest,
        ),
    )


def _flip(offset: int, bit: int = 1) -> Callable[[Page], Page]:
    def change(page: Page) -> Page:
        first, *rest = page.rows
        body = bytearray(first.row.body)
        body[offset] ^= bit
        return dataclasses.replace(
            page, rows=(changed(first, row=SealedRow(bytes(body), first.row.wrap)), *rest)
        )

    return change


def _entry_of_other_vault(page: Page) -> Page:
    first, *rest = page.rows
    entry = dataclasses.replace(first.entry, vault=bytes(16))
    return dataclasses.replace(page, rows=(changed(first, entry=entry), *rest))


def _entry_of_stranger(page: Page) -> Page:
    first, *rest = page.rows
    entry = dataclasses.replace(first.entry, device=b"s" * 16)
    return dataclasses.replace(page, rows=(changed(first, entry=entry), *rest))


def _drop_middle(page: Page) -> Page:
    return dataclasses.replace(page, rows=(page.rows[0], *page.rows[2:]))


def _drop_tail(page: Page) -> Page:
    return dataclasses.replace(page, rows=page.rows[:-1])


def _reorder(page: Page) -> Page:
    return dataclasses.replace(page, rows=(page.rows[1], page.rows[0], *page.rows[2:]))


def _empty(page: Page) -> Page:
    return dataclasses.replace(page, rows=(), page_head=page.tip)


def _other_key(page: Page) -> Page:
    key = SigningKey(bytes(32))
    head = signed_head(key, bytes(16), page.tip.value.n, page.tip.value.g)
    return dataclasses.replace(page, page_head=head, tip=head)


@pytest.mark.parametrize(
    ("lie", "code"),
    [
        pytest.param(_drop_middle, "TRUNCATED", id="T24 middle row dropped"),
        pytest.param(_drop_tail, "TRUNCATED", id="T24 tail dropped"),
        pytest.param(_reorder, "TRUNCATED", id="T24 reordered"),
        pytest.param(_empty, "TRUNCATED", id="T24 empty pages for ever"),
        pytest.param(_swap_bodies, "BODY_HASH", id="T26 body of another row"),
        pytest.param(_flip(24), "BODY_HASH", id="T26 under another record id"),
        pytest.param(_flip(63), "BODY_HASH", id="T26 another seq"),
        pytest.param(_flip(64), "BODY_HASH", id="T26 other parents"),
        pytest.param(_flip(5), "BODY_HASH", id="T27 policy byte"),
        pytest.param(_flip(24, 0x80), "BODY_HASH", id="T27 class bit"),
        pytest.param(_flip(6), "BODY_HASH", id="T29 flags"),
        pytest.param(_flip(200), "BODY_HASH", id="T29 ciphertext"),
        pytest.param(_entry_of_other_vault, "UNKNOWN_DEVICE", id="T30 row of another vault"),
        pytest.param(_entry_of_stranger, "UNKNOWN_DEVICE", id="T30 device not in the roster"),
        pytest.param(_other_key, "SERVER_KEY", id="T35 another server key"),
    ],
)
async def test_a_lie_on_the_way_stops_and_nothing_of_it_stays(
    shared: Pair, lie: Callable[[Page], Page], code: str, request: pytest.FixtureRequest
) -> None:
    pair = shared
    before, texts = await pair.two.verified(), await pair.two.texts()
    written = {f"{k} of {request.node.name}" for k in range(3)}
    await pair.write(*sorted(written))
    pair.proxy.rule = pages(lambda page: lie(page) if page.rows else page)
    asked = pair.proxy.count(f"GET {PULL}")
    said: Any = await pair.two.sync.sync_now()
    assert (said["state"], await pair.two.codes()) == ("stopped", [code])
    assert pair.proxy.count(f"GET {PULL}") == asked + 1
    assert (await pair.two.verified(), await pair.two.texts()) == (before, texts)
    await pair.two.close()
    await pair.two.open()
    assert (await pair.two.sync.sync_now())["state"] == "stopped"
    pair.proxy.rule = None
    said = await pair.two.sync.retry()
    assert (said["state"], said["alarms"]) == ("ok", [])
    assert await pair.two.texts() == texts | written


async def test_a_server_that_signs_its_gap_breaks_the_chain(pair: Pair) -> None:
    """T24, by the holder of the server's key."""
    g = bytes.fromhex((await pair.two.verified())[1])
    await pair.write("first", "second", "third")
    for rows in (lambda r: (r[0], r[2]), lambda r: (r[1], r[0], r[2])):
        pair.proxy.rule = pages(
            lambda page, rows=rows: resigned(pair, page, rows(page.rows), g) if page.rows else page
        )
        said = await pair.two.sync.sync_now()
        assert (said["state"], await pair.two.codes()) == ("stopped", ["CHAIN_BREAK"])
        pair.proxy.rule = _dead
        await pair.two.sync.retry()
    assert await pair.two.texts() == set()


async def _dead(_: Call) -> Answer:
    return Answer(502, "text/html", b"<html>")


async def test_a_page_that_comes_again_is_not_taken_twice(pair: Pair) -> None:
    """T24."""
    await pair.write("first", "second")
    kept: list[Answer] = []

    async def again(call: Call) -> Answer | None:
        if call.path != PULL:
            return None
        if not kept:
            kept.append(await call.forward())
        return kept[0]

    pair.proxy.rule = again
    assert (await pair.two.sync.sync_now())["state"] == "ok"
    said = await pair.two.sync.sync_now()
    assert (said["state"], await pair.two.codes()) == ("stopped", ["TRUNCATED"])
    assert await pair.two.texts() == {"first", "second"}


async def test_a_wrap_of_another_row_is_quarantined_and_the_rest_goes_on(pair: Pair) -> None:
    """T26: the row is asked for once more; an honest answer heals it."""
    await pair.write("first", "second", "third")
    wrong: list[bytes] = []

    def lie(page: Page) -> Page:
        if not page.rows:
            return page
        if len(page.rows) > 1:
            wrong.extend(row.row.wrap for row in page.rows[:2])
        rows = [
            changed(row, row=SealedRow(row.row.body, wrong[1 - wrong.index(row.row.wrap)]))
            if row.row.wrap in wrong
            else row
            for row in page.rows
        ]
        return dataclasses.replace(page, rows=tuple(rows))

    pair.proxy.rule = pages(lie)
    said: Any = await pair.two.sync.sync_now()
    assert (said["state"], said["quarantined"]) == ("ok", {"ROW_AUTH": 2})
    assert await pair.two.texts() == {"third"}
    asked = pair.proxy.count(f"GET {PULL}")
    await pair.two.sync.sync_now()
    assert pair.proxy.count(f"GET {PULL}") == asked + 1  # not again and again
    pair.proxy.rule = None
    await pair.two.close()
    await pair.two.open()
    said = await pair.two.sync.sync_now()
    assert (said["state"], said["quarantined"]) == ("ok", {})
    assert await pair.two.texts() == {"first", "second", "third"}


async def test_statements_about_another_vault_are_of_no_key(pair: Pair) -> None:
    """T59: never EQUIVOCATION."""
    await pair.write("row")
    n, g = (await pair.one.verified())[0], bytes(32)
    await pair.two.sync.sync_now()
    other = signed_head(pair.key, b"o" * 16, n, g)
    pair.proxy.rule = pages(lambda page: dataclasses.replace(page, page_head=other, tip=other))
    said = await pair.two.sync.sync_now()
    assert (said["state"], await pair.two.codes()) == ("stopped", ["SERVER_KEY"])


async def test_two_heads_of_one_position_are_proven_and_final(pair: Pair) -> None:
    """T25."""
    await pair.write("row")
    await pair.two.sync.sync_now()
    n, _ = await pair.two.verified()
    lie = signed_head(pair.key, pair.vault, n, b"g" * 32)
    pair.proxy.rule = pages(lambda page: dataclasses.replace(page, page_head=lie, tip=lie))
    said: Any = await pair.two.sync.sync_now()
    assert (said["state"], await pair.two.codes()) == ("stopped", ["EQUIVOCATION"])
    assert said["alarms"][0]["evidence"] is True
    (proof,) = await pair.two.sync.evidence()
    exported = json.loads(json.dumps(proof))
    assert verify_evidence(exported, server_key=pair.server.host.key.public)
    assert not verify_evidence(exported, server_key=bytes(32))
    pair.proxy.rule = None
    with pytest.raises(NothingToConfirm):
        await pair.two.sync.retry()
    await pair.two.close()
    await pair.two.open()
    assert (await pair.two.sync.sync_now())["state"] == "stopped"


async def test_a_push_may_be_answered_with_the_proof(pair: Pair) -> None:
    """T25: the reply speaks of a position we verified, with another G."""
    n, _ = await pair.one.verified()
    lie = signed_head(pair.key, pair.vault, n, b"g" * 32)
    await pair.one.remember("row")

    async def rule(call: Call) -> Answer | None:
        if call.path != PUSH:
            return None
        said = {"n": n, "g": lie.value.g.hex(), "signature": lie.signature.hex()}
        body = json.dumps({"head": said, "first_n": n}).encode()
        return Answer(200, "application/json", body)

    pair.proxy.rule = rule
    said = await pair.one.sync.sync_now()
    assert (said["state"], await pair.one.codes()) == ("stopped", ["EQUIVOCATION"])
    (proof,) = await pair.one.sync.evidence()
    assert verify_evidence(json.loads(json.dumps(proof)), server_key=pair.server.host.key.public)


async def test_two_histories_are_proven_by_one_checkpoint(pair: Pair) -> None:
    """T25: the two devices saw two rows in another order; the next row's checkpoint tells."""
    g = bytes.fromhex((await pair.two.verified())[1])
    await pair.two.sync.pause()  # no round but those of the test
    await pair.two.remember("by two")
    pair.proxy.rule = _lose_push
    assert (await pair.two.sync.sync_now())["outbox"] == 1
    await pair.write("by one")
    shown = await _swapped_view(pair, g)
    await pair.write("checkpointed")

    def go_on(page: Page) -> Page:
        if not page.rows:
            return page
        (last,) = page.rows
        at = next_global_head(shown, last.entry.device, last.entry.head)
        head = signed_head(pair.key, pair.vault, last.n, at)
        return Page(page.rows, page.checkpoints, head, head)

    pair.proxy.rule = pages(go_on)
    said: Any = await pair.two.sync.sync_now()
    assert (said["state"], await pair.two.codes()) == ("stopped", ["EQUIVOCATION"])
    assert said["alarms"][0]["device"] == pair.one.id.hex()
    (proof,) = await pair.two.sync.evidence()
    assert verify_evidence(
        json.loads(json.dumps(proof)),
        server_key=pair.server.host.key.public,
        device_keys=[bytes(pair.one.sync.secrets.signing_key().verify_key)],
    )


async def _lose_push(call: Call) -> Answer | None:
    if call.path != PUSH:
        return None
    await call.forward()
    return await _dead(call)


async def _swapped_view(pair: Pair, g: bytes) -> bytes:
    """Device two is shown its own row after that of device one; the G that it then holds."""

    def swap(page: Page) -> Page:
        if len(page.rows) != 2:
            return page
        first, second = page.rows
        lie = resigned(pair, page, (second, first), g)
        return dataclasses.replace(lie, checkpoints=())

    pair.proxy.rule = pages(swap)
    said = await pair.two.sync.sync_now()
    assert (said["state"], said["outbox"]) == ("paused", 0)
    return bytes.fromhex((await pair.two.verified())[1])


async def test_a_server_that_takes_rows_and_hides_them_is_found_out(pair: Pair) -> None:
    await pair.one.remember("swallowed")
    g = bytes.fromhex((await pair.one.verified())[1])
    n = (await pair.one.verified())[0]
    head = signed_head(pair.key, pair.vault, n, g)

    async def rule(call: Call) -> Answer | None:
        if call.path != PUSH:
            return None
        said = {"n": n, "g": g.hex(), "signature": head.signature.hex()}
        body = json.dumps({"head": said, "first_n": n + 1}).encode()
        return Answer(200, "application/json", body)

    pair.proxy.rule = rule
    said = await pair.one.sync.sync_now()
    assert (said["state"], said["outbox"]) == ("stopped", 1)
    assert await pair.one.codes() == ["TRUNCATED"]


async def test_bombs_and_trailing_bytes_are_no_answer(pair: Pair) -> None:
    """T29."""
    await pair.write("row")
    before = await pair.two.verified()
    bombs: list[Callable[[bytes], bytes]] = [
        lambda body: body + b"\x00",
        lambda body: body[:8] + b"\xff\xff\xff\xff" + body[12:],
        lambda body: body[: 12 + 8 + 137] + b"\xff\xff\xff\xff" + body[12 + 8 + 141 :],
    ]
    for bomb in bombs:
        pair.proxy.rule = octets(bomb)
        said = await pair.two.sync.sync_now()
        assert (said["state"], await pair.two.verified()) == ("offline", before)
    pair.proxy.rule = None
    assert (await pair.two.sync.sync_now())["state"] == "ok"


async def test_a_roster_that_lies_is_refused(pair: Pair) -> None:
    """T31: an entry nobody may sign, another order, less than before, another one in its place."""
    chain = [entry for entry in (await pair.two.sync.client.roster()).entries]
    stranger = new_keys(random.Random(1))
    document = {**decode(chain[-1].document), "idx": len(chain), "prev": chain[-1].hash.hex()}
    device = {**document["device"], "id": "77" * 16}
    forged = sign_entry({**document, "device": device}, stranger.signing)
    other = sign_entry({**decode(chain[-1].document), "device": device}, stranger.signing)
    lies: list[tuple[list[SignedEntry], str]] = [
        ([*chain, forged], "UNKNOWN_DEVICE"),
        ([chain[0], other], "ROSTER_FORK"),
        ([chain[1], chain[0]], "ROSTER_FORK"),
        (chain[:1], "ROLLBACK"),
    ]
    for shown, code in lies:
        pair.proxy.rule = _roster(shown)
        said = await pair.two.sync.sync_now()
        assert (said["state"], await pair.two.codes()) == ("stopped", [code])
        assert len(list(said["devices"])) == 2  # type: ignore[call-overload]
        pair.proxy.rule = None
        if code == "ROLLBACK":
            await pair.two.sync.confirm(code, code)
        else:
            await pair.two.sync.retry()
        assert await pair.two.codes() == []


def _roster(shown: Sequence[SignedEntry]) -> Rule:
    async def rule(call: Call) -> Answer | None:
        if call.path != ROSTER or call.method != "GET":
            return None
        listed = [
            {
                "entry": base64.urlsafe_b64encode(entry.document).rstrip(b"=").decode(),
                "signature": entry.signature.hex(),
            }
            for entry in shown[int(call.query["after"]) + 1 :]
        ]
        body = json.dumps({"entries": listed, "head": shown[-1].hash.hex()}).encode()
        return Answer(200, "application/json", body)

    return rule


async def test_a_withheld_revocation_shows_as_a_missing_row(pair: Pair) -> None:
    """T31: the mark in the log names a roster that the server does not show."""
    chain = (await pair.two.sync.client.roster()).entries
    three = await pair.made.join(pair.one, pair.proxy.url, "three")
    await pair.two.sync.sync_now()
    await pair.two.sync.confirm("ROSTER_CHANGED", "ROSTER_CHANGED")
    chain = (await pair.two.sync.client.roster()).entries
    await pair.one.membership.revoke(three.id.hex())
    await pair.one.sync.sync_now()
    pair.proxy.rule = _roster(chain)
    said = await pair.two.sync.sync_now()
    assert (said["state"], await pair.two.codes()) == ("stopped", ["UNKNOWN_DEVICE"])
    pair.proxy.rule = None
    await pair.two.sync.retry()
    assert await pair.two.codes() == ["ROSTER_CHANGED"]


async def test_a_restored_server_gets_its_rows_back(tmp_path: Path) -> None:
    """T23: ROLLBACK, nothing is deleted here, the guided re-seed gives the same G."""
    data, backup = tmp_path / "server", tmp_path / "backup"
    async with listening("") as proxy, devices(tmp_path) as made:

        @contextlib.asynccontextmanager
        async def running() -> AsyncIterator[RunningServer]:
            async with server_in_process(data) as server:
                proxy.upstream = server.url
                server.host.public_host = proxy.url.split("://", 1)[1]
                yield server

        async with running() as server:
            one = await made.found(server, proxy.url)
            two = await made.join(one, proxy.url, "two")
            await one.remember_many(4, "early")
            await one.sync.sync_now()
            await two.sync.sync_now()
        shutil.copytree(data, backup)
        async with running():
            await two.remember("late by two")
            await two.sync.sync_now()
            await one.remember_many(3, "late")
            await one.sync.sync_now()
            await two.sync.sync_now()
            three = await made.join(one, proxy.url, "three")
            held, texts = await one.verified(), await one.texts()
        shutil.rmtree(data)
        shutil.copytree(backup, data)
        async with running() as server:
            said = await one.sync.sync_now()
            assert (said["state"], await one.codes()) == ("stopped", ["ROLLBACK"])
            assert (await one.verified(), await one.texts()) == (held, texts)
            with pytest.raises(NothingToConfirm):
                await one.sync.retry()
            said = await one.sync.confirm("ROLLBACK", "ROLLBACK")
            assert (said["state"], said["alarms"], said["outbox"]) == ("ok", [], 0)
            assert await one.verified() == held
            (known,) = await server.host.storage.heads()
            assert (known.head.n, known.head.g.hex()) == held
            assert (await three.sync.sync_now())["state"] == "ok"
            assert await three.verified() == held
            await two.sync.sync_now()
            assert await two.codes() == ["ROSTER_CHANGED"]
            await two.sync.confirm("ROSTER_CHANGED", "ROSTER_CHANGED")
            assert (await two.verified(), await two.texts()) == (held, texts)
