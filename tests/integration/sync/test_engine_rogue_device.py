"""A member of the vault that writes what no product writes: quarantined, named, and no hindrance.

The rogue is simulated with real keys in a real roster; the reader is a real device.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from sync_devices import Devices, SyncDevice, adopt, devices
from sync_proxy import SyncProxy, between
from sync_server import World, create_vault, registration_token, server_in_process

from memory_manager.sync.ledger import keybag
from memory_manager.sync.server.running import RunningServer
from memory_manager.sync.wire import labels
from memory_manager.sync.wire.envelope import Dot, EpochKey, Policy, SealedRow, body_hash, seal_row
from memory_manager.sync.wire.framing import LogRow, unpack_push
from memory_manager.sync.wire.log import Entry
from memory_manager.sync.wire.payload import HybridTime, Kind, encode_payload
from memory_manager.vault.transaction import Transaction


@dataclasses.dataclass
class Stage:
    """The rogue's world, and the real device that reads it."""

    server: RunningServer
    world: World
    proxy: SyncProxy
    made: Devices
    real: SyncDevice

    async def push(self, *rows: LogRow) -> None:
        """Into the server's storage: an honest server would look at the header of a row first."""
        said = unpack_push(self.world.caller.push_body(rows))
        vault = self.world.founded.vault
        await self.server.host.storage.append(vault, said.rows, said.checkpoint)

    def row(self, **lies: Any) -> LogRow:
        """The rogue's next row; ``lies`` replace what goes into the envelope."""
        founded, device = self.world.founded, self.world.device
        source, seq = founded.source, len(device.own) + 1
        time = HybridTime(1_764_500_000_000 + seq, 0, device.keys.id.hex())
        honest: dict[str, Any] = {
            "payload": encode_payload(Kind.ROSTER_MARK, time, (), {}),
            "policy": Policy.VAULT,
            "vault": founded.vault,
            "record": b"\x01" + source.randbytes(15),
            "dot": Dot(device.keys.id, seq),
            "parents": (),
            "under": founded.key(founded.roster.epoch),
        }
        given = honest | {name: value for name, value in lies.items() if name in honest}
        sealed = seal_row(
            given.pop("payload"),
            **given,
            cek=source.randbytes(32),
            body_nonce=source.randbytes(24),
            wrap_nonce=source.randbytes(24),
        )
        body, wrap = sealed.body, sealed.wrap
        if "body" in lies:
            body = lies["body"](body)
        if "wrap" in lies:
            wrap = lies["wrap"](wrap)
        previous = device.own[-1].entry.head if device.own else bytes(32)
        entry = Entry(
            founded.vault,
            device.keys.id,
            seq,
            previous,
            body_hash(body),
            founded.roster.head,
        )
        made = LogRow(entry, SealedRow(body, wrap))
        device.own.append(made)
        return made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    folder: Path = tmp_path_factory.mktemp("rogue")
    async with (
        server_in_process(folder / "server") as server,
        between(server) as proxy,
        devices(folder) as made,
        aiohttp.ClientSession(auto_decompress=False) as http,
    ):
        world = await create_vault(http, proxy.url, await registration_token(server))
        real = await adopt(made, world, proxy.url)
        yield Stage(server, world, proxy, made, real)


pytestmark = pytest.mark.asyncio(loop_scope="module")


def _set(offset: int, value: int) -> Callable[[bytes], bytes]:
    return lambda raw: raw[:offset] + bytes([value]) + raw[offset + 1 :]


def _flip(offset: int) -> Callable[[bytes], bytes]:
    """For octets that are random, which might be any value already."""
    return lambda raw: _set(offset, raw[offset] ^ 1)(raw)


def _padding(body: bytes) -> bytes:
    return body[:128] + (300).to_bytes(4, "big") + body[132:]


def _huge(body: bytes) -> bytes:
    return body[:128] + (0xFFFFFFFF).to_bytes(4, "big") + body[132:]


OTHER = EpochKey(1, labels.wrapping_key(bytes(range(32))))
UNKNOWN_EPOCH = EpochKey(7, labels.wrapping_key(bytes(range(32))))


@pytest.mark.parametrize(
    ("lies", "code", "alarms"),
    [
        pytest.param({"body": _set(5, 1)}, "CLASS_POLICY", True, id="T27 policy byte"),
        pytest.param({"body": _set(24, 0x81)}, "CLASS_POLICY", True, id="T27 class bit"),
        pytest.param({"body": _set(6, 1)}, "ROW_FORMAT", True, id="T29 flags"),
        pytest.param({"body": _set(0, 0)}, "ROW_FORMAT", True, id="T29 magic"),
        pytest.param({"body": _set(4, 2)}, "ROW_FORMAT", True, id="T29 suite"),
        pytest.param({"body": _padding}, "ROW_FORMAT", True, id="T29 padded length"),
        pytest.param({"body": _huge}, "ROW_FORMAT", True, id="T29 length bomb"),
        pytest.param({"vault": b"v" * 16}, "ROW_FORMAT", True, id="T30 row of another vault"),
        pytest.param({"dot": Dot(b"d" * 16, 1)}, "ROW_FORMAT", True, id="T26 dot of another"),
        pytest.param({"body": _flip(300)}, "ROW_AUTH", False, id="T29 ciphertext"),
        pytest.param({"body": _flip(96)}, "ROW_AUTH", False, id="T26 commitment"),
        pytest.param({"payload": b'{"kind":"tombstone"}'}, "ROW_AUTH", False, id="payload"),
        pytest.param({"payload": b"\xff" * 10}, "ROW_AUTH", False, id="payload is no JSON"),
        pytest.param({"under": OTHER}, "WRONG_KEY", False, id="T28 wrong key id"),
        pytest.param({"under": UNKNOWN_EPOCH}, "WAITING_KEY", False, id="T28 unknown epoch"),
        pytest.param({"wrap": _set(3, 9)}, "WAITING_KEY", False, id="T28 epoch number changed"),
        pytest.param({"wrap": _flip(60)}, "ROW_AUTH", False, id="T26 wrap changed"),
    ],
)
async def test_a_row_that_cannot_be_is_quarantined_and_the_next_goes_on(
    stage: Stage, lies: dict[str, Any], code: str, alarms: bool
) -> None:
    real = stage.real
    before: Any = await real.sync.sync_now()
    await stage.push(stage.row(**lies))
    await stage.push(stage.row())
    said: Any = await real.sync.sync_now()
    assert said["state"] == "ok"
    assert said["verified"]["n"] == before["verified"]["n"] + 2
    counts = {**before["quarantined"]}
    counts[code] = counts.get(code, 0) + 1
    assert said["quarantined"] == counts
    place = (code, stage.world.device.keys.id.hex(), said["verified"]["n"] - 1)
    named = [(alarm["code"], alarm["device"], alarm["n"]) for alarm in said["alarms"]]
    assert (place in named) == alarms


async def test_a_wrong_key_never_leaves_the_device(stage: Stage) -> None:
    """T60: the gate refuses the first push; what others read is not touched."""
    real, world = stage.real, stage.world
    await real.sync.sync_now()
    n, _ = await real.verified()

    def spoil(transaction: Transaction) -> None:
        transaction.connection.execute("UPDATE keybag SET vrk = ?", (bytes(32),))

    def mend(transaction: Transaction) -> None:
        keybag.put(transaction, 1, world.founded.vrk[1])

    await real.store.write(spoil)
    pushes = stage.proxy.count("POST /v1/log/push")
    memory = await real.remember("sealed under a wrong key")
    said = await real.sync.sync_now()
    assert (said["state"], said["outbox"]) == ("stopped", 1)
    assert "WRONG_KEY" in await real.codes()
    assert stage.proxy.count("POST /v1/log/push") == pushes
    await real.store.write(mend)
    await real.sync.retry()
    assert (await real.verified())[0] == n + 1
    assert memory in {row.id for row in await real.rows()}
