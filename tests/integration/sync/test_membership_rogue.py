"""A member that begins an epoch whose key nobody else can read: it can be shut out all the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sync_devices import Devices, devices
from sync_pair import chain, pair, roster, signer
from sync_server import server_in_process

from memory_manager.sync.membership import epoch_keys, roster_entries
from memory_manager.sync.server.running import RunningServer
from memory_manager.sync.wire import canonical
from memory_manager.sync.wire.roster import Operation
from memory_manager.vault.kdf import new_key

pytestmark = pytest.mark.asyncio(loop_scope="module")

BOX_BYTES = 32 + 16 + 10 + 16 + 4 + 32
"""A sealed box of ``mlk-vrk-v1``, vault, epoch and key (sync.md 7.1)."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningServer]:
    async with server_in_process(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def made(tmp_path: Path) -> AsyncIterator[Devices]:
    async with devices(tmp_path) as found:
        yield found


def _nothing(_: dict[str, Any], __: str) -> None:
    pass


def _garbage(epoch: dict[str, Any], victim: str) -> None:
    epoch["sealed"] = {victim: "00" * BOX_BYTES}


def _no_box(epoch: dict[str, Any], victim: str) -> None:
    epoch["sealed"] = {victim: 5}


def _another_key(epoch: dict[str, Any], _: str) -> None:
    epoch["kid"] = "00" * 16


def _no_previous(epoch: dict[str, Any], _: str) -> None:
    epoch["prev_key"] = 5


@pytest.mark.parametrize(
    ("spoil", "reads"),
    [
        pytest.param(_nothing, True, id="honest"),
        pytest.param(_garbage, False, id="garbage"),
        pytest.param(_no_box, False, id="no box"),
        pytest.param(_another_key, False, id="another key"),
        pytest.param(_no_previous, True, id="no previous key"),
    ],
)
async def test_an_epoch_without_a_key_for_us_is_ended_by_shutting_its_author_out(
    server: RunningServer,
    made: Devices,
    spoil: Callable[[dict[str, Any], str], None],
    reads: bool,
) -> None:
    two = await pair(server, made)
    one, rogue = two.first, two.second
    early = await rogue.remember("written before")
    await two.settle()
    now = await roster(rogue)
    receiver = epoch_keys.Recipient.of(now.members[one.id])
    epoch = epoch_keys.epoch_document(2, new_key(), [receiver], now.vault, new_key())
    spoil(epoch, one.id.hex())
    by = await signer(rogue)
    common = {
        "v": 1,
        "idx": len(now.positions),
        "prev": now.head.hex(),
        "op": Operation.ROTATE.value,
        "by": by.id.hex(),
        "at_seq": 0,
        "vault": now.vault.hex(),
    }
    entry = roster_entries.sign_entry({**common, "epoch": epoch}, by.key)
    await rogue.sync.client.post_roster(entry)
    await one.remember("written after")
    said: Any = await one.sync.sync_now()
    assert (await roster(one)).epoch == 2
    assert (said["state"], said["outbox"]) == (("ok", 0) if reads else ("waiting", 1))
    await one.membership.revoke(rogue.id.hex())
    said = await one.sync.sync_now()
    assert (said["state"], said["outbox"], said["epoch"]) == ("ok", 0, 3)
    last = canonical.decode((await chain(one))[-1].document)
    assert ("prev_key" in last["epoch"]) is reads
    three = await made.join(one, two.url, "three")
    assert await three.texts() == {"written before", "written after"}
    assert early in {row.id for row in await three.rows()}
