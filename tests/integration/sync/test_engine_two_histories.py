"""A server that shows two histories, another roster, or less than before."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from proxied_pair import ProxiedPair, dead, paired, resigned
from sync_devices import devices
from sync_proxy import (
    PUSH,
    ROSTER,
    Answer,
    Call,
    Rule,
    listening,
    pages,
    signed_head,
)
from sync_server import server_in_process
from sync_world import new_keys

from memory_manager.cli.main import main
from memory_manager.sync.engine.errors import NothingToConfirm
from memory_manager.sync.engine.evidence import verify_evidence
from memory_manager.sync.server.running import RunningServer
from memory_manager.sync.wire.canonical import decode
from memory_manager.sync.wire.framing import Page
from memory_manager.sync.wire.labels import server_words
from memory_manager.sync.wire.log import next_global_head
from memory_manager.sync.wire.roster import SignedEntry, sign_entry
from memory_manager.sync.wire.roster_json import entry_json


@pytest_asyncio.fixture(loop_scope="module")
async def pair(tmp_path: Path) -> AsyncIterator[ProxiedPair]:
    async with paired(tmp_path) as found:
        yield found


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_two_heads_of_one_position_are_proven_and_final(pair: ProxiedPair) -> None:
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


def _check(capsys: pytest.CaptureFixture[str], file: Path, *options: str) -> tuple[int, str]:
    """``memlocket sync evidence --check``: its exit code and what it shows."""
    capsys.readouterr()
    code = main(["sync", "evidence", "--check", str(file), *options])
    return code, capsys.readouterr().out


async def test_exported_proofs_are_checked_without_a_service(
    pair: ProxiedPair, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await pair.write("row")
    await pair.two.sync.sync_now()
    n, _ = await pair.two.verified()
    lie = signed_head(pair.key, pair.vault, n, b"g" * 32)
    pair.proxy.rule = pages(lambda page: dataclasses.replace(page, page_head=lie, tip=lie))
    await pair.two.sync.sync_now()
    proofs = await pair.two.sync.evidence()
    words = list(server_words(pair.server.host.key.public))
    file = tmp_path / "proofs.json"
    for written in (proofs, proofs[0], {"evidence": proofs}):
        file.write_text(json.dumps(written))
        code, shown = _check(capsys, file)
        assert (code, " ".join(words) in shown) == (0, True)
    (said,) = json.loads(_check(capsys, file, "--json")[1])["proofs"]
    assert (said["holds"], said["n"], said["server_words"]) == (True, n, words)
    altered = {**proofs[0], "n": n + 1}
    for written, told in (([], "no proof"), ([*proofs, altered], "proves nothing"), (3, "nothing")):
        file.write_text(json.dumps(written))
        code, shown = _check(capsys, file)
        assert (code, told in shown) == (16, True), shown
    file.write_text("[" * 100_000)
    assert _check(capsys, file)[0] == 4
    assert _check(capsys, tmp_path / "none")[0] == 4


async def test_a_push_may_be_answered_with_the_proof(pair: ProxiedPair) -> None:
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


async def test_two_histories_are_proven_by_one_checkpoint(pair: ProxiedPair) -> None:
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
    return await dead(call)


async def _swapped_view(pair: ProxiedPair, g: bytes) -> bytes:
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


async def test_a_roster_that_lies_is_refused(pair: ProxiedPair) -> None:
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
        listed = [entry_json(entry) for entry in shown[int(call.query["after"]) + 1 :]]
        body = json.dumps({"entries": listed, "head": shown[-1].hash.hex()}).encode()
        return Answer(200, "application/json", body)

    return rule


async def test_a_withheld_revocation_shows_as_a_missing_row(pair: ProxiedPair) -> None:
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
