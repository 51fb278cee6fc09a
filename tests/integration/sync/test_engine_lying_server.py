"""A server, or somebody on the way to it, that lies about rows: each lie stops with its code."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from nacl.signing import SigningKey
from proxied_pair import ProxiedPair, changed, dead, paired, resigned
from sync_proxy import (
    PULL,
    PUSH,
    Answer,
    Call,
    octets,
    pages,
    signed_head,
)

from memory_manager.sync.wire.envelope import SealedRow
from memory_manager.sync.wire.framing import Page


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ProxiedPair]:
    """For lies after which sync goes on."""
    async with paired(tmp_path_factory.mktemp("pair")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def pair(tmp_path: Path) -> AsyncIterator[ProxiedPair]:
    async with paired(tmp_path) as found:
        yield found


pytestmark = pytest.mark.asyncio(loop_scope="module")


pytestmark = pytest.mark.asyncio(loop_scope="module")


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
    shared: ProxiedPair, lie: Callable[[Page], Page], code: str, request: pytest.FixtureRequest
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


async def test_g06_a_server_that_signs_its_gap_breaks_the_chain(pair: ProxiedPair) -> None:
    """T24, by the holder of the server's key."""
    g = bytes.fromhex((await pair.two.verified())[1])
    await pair.write("first", "second", "third")
    for rows in (lambda r: (r[0], r[2]), lambda r: (r[1], r[0], r[2])):
        pair.proxy.rule = pages(
            lambda page, rows=rows: resigned(pair, page, rows(page.rows), g) if page.rows else page
        )
        said = await pair.two.sync.sync_now()
        assert (said["state"], await pair.two.codes()) == ("stopped", ["CHAIN_BREAK"])
        pair.proxy.rule = dead
        await pair.two.sync.retry()
    assert await pair.two.texts() == set()


async def test_a_page_that_comes_again_is_not_taken_twice(pair: ProxiedPair) -> None:
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


async def test_a_wrap_of_another_row_is_quarantined_and_the_rest_goes_on(pair: ProxiedPair) -> None:
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


async def test_statements_about_another_vault_are_of_no_key(pair: ProxiedPair) -> None:
    """T59: never EQUIVOCATION."""
    await pair.write("row")
    n, g = (await pair.one.verified())[0], bytes(32)
    await pair.two.sync.sync_now()
    other = signed_head(pair.key, b"o" * 16, n, g)
    pair.proxy.rule = pages(lambda page: dataclasses.replace(page, page_head=other, tip=other))
    said = await pair.two.sync.sync_now()
    assert (said["state"], await pair.two.codes()) == ("stopped", ["SERVER_KEY"])


async def test_a_server_that_takes_rows_and_hides_them_is_found_out(pair: ProxiedPair) -> None:
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


async def test_bombs_and_trailing_bytes_are_no_answer(pair: ProxiedPair) -> None:
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
