"""``memlocket server`` as a process: its key, its stop, its log, and what an operator does."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shutil
import socket
import stat
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
from postgres_server import PostgresServer
from sync_server import (
    Caller,
    ServerProcess,
    World,
    create_vault,
    entry_json,
    registration_token,
    server_in_process,
)
from sync_world import Device

from memory_manager.cli.main import main
from memory_manager.sync.server.errors import (
    ServerAlreadyRunning,
    ServerKeyRefused,
    SettingsRefused,
)
from memory_manager.sync.server.settings import Address
from memory_manager.sync.wire.framing import unpack_page
from memory_manager.sync.wire.labels import server_words

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

CANARY = "canary5f1e"
SECONDS = 40.0


@pytest.fixture
def manager() -> Iterator[socket.socket]:
    """What a service manager listens on."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind("\0" + f"memlocket-{os.getpid()}-{time.monotonic_ns()}")
        listening.settimeout(SECONDS)
        yield listening


@pytest.fixture
def process(tmp_path: Path, manager: socket.socket) -> Iterator[ServerProcess]:
    environment = {
        "NOTIFY_SOCKET": "@" + manager.getsockname()[1:].decode(),
        "MEMLOCKET_SERVER_METRICS": "127.0.0.1:0",
        "MEMLOCKET_SERVER_LIMIT_FINISH_SECONDS": "2",
        "MEMLOCKET_SERVER_PUBLIC_HOST": "Sync.Example.ORG:8443",
    }
    with ServerProcess(tmp_path / "server", (), environment) as server:
        yield server


async def founded_on(http: aiohttp.ClientSession, server: ServerProcess) -> World:
    token = await asyncio.to_thread(server.registration_token)
    return await create_vault(http, server.url, token, host=server.public_host)


async def moved(caller: Caller, url: str) -> Caller:
    """The same device, logged in at a server that was started again on another port."""
    return await Caller(caller.http, url, caller.vault, caller.keys, host=caller.host).login()


def session_of(caller: Caller) -> dict[str, str]:
    return {"Authorization": f"Bearer {caller.token}", "X-Session-Epoch": str(caller.epoch)}


async def test_an_operators_day(
    process: ServerProcess, manager: socket.socket, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """Key, token, status and backup beside the running server; nothing private in log or metrics;
    the backup is a server again.
    """
    assert process.public_host == "sync.example.org:8443"
    path = process.data / "server.key"
    assert (stat.S_IMODE(path.stat().st_mode), path.stat().st_size) == (0o600, 32)
    assert process.ready["server_words"] == list(server_words(process.server_key))
    world = await founded_on(http, process)
    assert (await world.caller.push(world.rows(3))).status == 200

    folder = tmp_path / "copy"
    done = await asyncio.to_thread(process.command, "backup", str(folder), "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said.keys() == {"folder", "server_words", "heads"}
    (head,) = said["heads"]
    tip = unpack_page((await world.caller.call("GET", "/v1/log/pull?after=3")).body).tip.value
    assert head == {"vault": world.founded.vault.hex(), "n": 3, "g": tip.g.hex()}
    assert json.loads((folder / "heads.json").read_bytes()) == [head]
    for kept in [folder, *folder.iterdir()]:
        assert stat.S_IMODE(kept.stat().st_mode) & 0o077 == 0

    secrets = await misuse(world, http)
    refused = await world.caller.call("GET", "/v1/nothing")
    status = await asyncio.to_thread(process.command, "status", "--json")
    state = json.loads(status.stdout)
    assert [vault["n"] for vault in state["heads"]] == [5]
    assert (state["usage"]["vaults"], state["usage"]["rows"]) == (1, 5)
    assert state["usage"]["devices"] > 0
    metrics_url = f"http://127.0.0.1:{process.ready['metrics_port']}/metrics"
    async with http.get(metrics_url) as answer:
        metrics = await answer.text()
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert await asyncio.to_thread(process.stop) == 0
    assert [manager.recv(64) for _ in range(2)] == [b"READY=1", b"STOPPING=1"]
    check_log(process.log())
    assert f'"request_id": "{refused.headers["X-Request-Id"]}"' in process.log()
    for text in (process.log(), metrics):
        assert "M-SEARCH" not in text
        said = text.lower().encode()
        assert [secret for secret in secrets if secret.lower() in said] == []
    assert "memlocket_server_rows_pushed_total 5\n" in metrics
    assert 'route="/v1/log/push",status="200"} 2\n' in metrics

    restored = tmp_path / "restored"
    shutil.copytree(folder, restored)
    restored.chmod(0o700)
    async with server_in_process(restored, public_host=process.public_host) as second:
        assert second.host.key.public == process.server_key
        caller = await moved(world.caller, second.url)
        page = unpack_page((await caller.call("GET", "/v1/log/pull")).body)
        assert (page.tip.value.n, page.tip.value.g) == (3, tip.g)


async def misuse(world: World, http: aiohttp.ClientSession) -> list[bytes]:
    """Requests with secrets in every place of them; what must not be found anywhere."""
    caller = world.caller
    other = await world.join(http)
    rows = world.rows(2)
    assert (await caller.push(rows)).status == 200
    box = "c0ffee00" * 4
    for _ in range(2):
        await caller.call("POST", f"/v1/mailbox/{box}?side=offer", body=CANARY.encode())
    await caller.call("GET", f"/v1/{CANARY}/{CANARY}?{CANARY}={CANARY}")
    await caller.call("GET", f"/v1/log/pull?after={CANARY}")
    await caller.call("M-SEARCH", "/v1/roster")
    await caller.call("GET", "/v1/roster", headers={"Authorization": f"Bearer {CANARY}"})
    await caller.call("GET", "/v1/roster", headers={"User-Agent": CANARY, CANARY: CANARY})
    await caller.call("POST", "/v1/vaults", document={CANARY: CANARY}, session=False)
    await caller.call("POST", "/v1/roster", document=entry_json(world.founded.chain[0]))
    lie = await caller.signed(2)
    await caller.call("POST", "/v1/auth/session", document=lie, session=False)
    await caller.call("POST", "/v1/log/push", body=caller.push_body(rows)[:-1])
    secrets = [text.encode() for text in (CANARY, box, "127.0.0.1", lie["nonce"])]
    for raw in (
        world.founded.vault, caller.keys.id, other.keys.id, rows[0].entry.body_hash,
        rows[0].entry.head, bytes.fromhex(caller.token), bytes.fromhex(other.token),
        rows[0].row.body[:40],
    ):  # fmt: skip
        secrets += [raw.hex().encode(), repr(raw).encode()[2:-1]]
        secrets += [base64.b64encode(raw)[:-4], base64.urlsafe_b64encode(raw)[:-4]]
    return secrets


def check_log(log: str) -> None:
    events = [json.loads(line) for line in log.splitlines()]
    requests = [event for event in events if event["event"] == "request"]
    assert {event["route"] for event in requests} >= {"/v1/mailbox/{mailbox}", "none"}
    assert all({"status", "request_id", "duration_ms"} <= event.keys() for event in requests)
    sizes = {event["received"] for event in requests} - {None, 0}
    assert all(size & (size - 1) == 0 for size in sizes)
    names = [event["event"] for event in events]
    assert (names[0], names[-1]) == ("server_ready", "server_stopped")


async def test_a_stop_in_the_middle_of_pushes_leaves_no_half_batch(
    process: ServerProcess, http: aiohttp.ClientSession
) -> None:
    """Every acknowledged batch is there, every other one whole or not at all; those who wait are
    told; a body that does not come to its end is not waited for.
    """
    world = await founded_on(http, process)
    callers = [world.caller, await world.join(http), await world.join(http)]
    trickling = await world.join(http)
    acknowledged: list[int] = []
    begun, half = asyncio.Event(), asyncio.Event()

    async def push_on(caller: Caller) -> None:
        device = Device(world.founded, caller.keys, process.server_key)
        with contextlib.suppress(aiohttp.ClientError):
            while True:
                rows = [device.write(bytes([1] * 16), "text") for _ in range(20)]
                said = await caller.push(rows)
                if said.status != 200:
                    return
                acknowledged.append(said.json["head"]["n"])
                if len(acknowledged) > 10:
                    begun.set()

    async def pieces() -> AsyncIterator[bytes]:
        device = Device(world.founded, trickling.keys, process.server_key)
        rows = [device.write(bytes([1] * 16), "text") for _ in range(19)]
        body = trickling.push_body(rows)
        yield body[: len(body) // 2]
        half.set()
        await asyncio.sleep(2 * SECONDS)
        yield body[len(body) // 2 :]

    async def trickle() -> None:
        with contextlib.suppress(aiohttp.ClientError):
            said = await trickling.call("POST", "/v1/log/push", body=pieces())
            assert said.status != 200

    waiting = await http.ws_connect(process.url + "/v1/notify", headers=session_of(callers[1]))
    async with asyncio.timeout(2 * SECONDS), asyncio.TaskGroup() as group:
        tasks = [group.create_task(push_on(caller)) for caller in callers]
        tasks.append(group.create_task(trickle()))
        await begun.wait()
        await half.wait()
        started = time.monotonic()
        assert await asyncio.to_thread(process.stop) == 0
        assert time.monotonic() - started < SECONDS / 2
        for task in tasks:
            task.cancel()
    while (message := await waiting.receive(timeout=SECONDS)).type is aiohttp.WSMsgType.TEXT:
        pass
    assert message.data == aiohttp.WSCloseCode.GOING_AWAY
    assert not (process.data / "sync.db-wal").exists()  # checkpointed and closed
    key = process.server_key
    process.start()
    assert process.server_key == key
    caller = await moved(world.caller, process.url)
    tip = unpack_page((await caller.call("GET", "/v1/log/pull?limit=1")).body).tip.value.n
    assert tip >= max(acknowledged)
    assert tip % 20 == 0


async def test_a_vault_gets_limits_of_its_own_beside_the_running_server(
    process: ServerProcess, http: aiohttp.ClientSession
) -> None:
    world = await founded_on(http, process)
    vault, rows = world.founded.vault.hex(), world.rows(3)
    done = await asyncio.to_thread(process.command, "quota", vault, "--rows", "2", "--json")
    limits = {"vault": vault, "rows": 2, "bytes": None, "devices": None}
    assert json.loads(done.stdout) == limits, done.stderr
    refused = await world.caller.push(rows)
    assert (refused.status, refused.code) == (507, "QUOTA")
    done = await asyncio.to_thread(process.command, "quota", vault)
    assert done.stdout.count("as the server has it") == 3
    assert (await world.caller.push(rows)).status == 200
    for other, said in (("ff" * 16, "no such vault"), (vault.upper(), "not the id of a vault")):
        done = await asyncio.to_thread(process.command, "quota", other)
        assert done.returncode != 0
        assert said in done.stderr


async def test_two_servers_share_one_postgresql(
    postgres_server: PostgresServer, tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    """Sessions, nonces, registration, order and pokes are common to both processes."""
    environment = {
        "MEMLOCKET_SERVER_DATABASE_URL": postgres_server.new_database(),
        "MEMLOCKET_SERVER_PUBLIC_HOST": "sync.example.org:443",
    }
    data = tmp_path / "shared"
    first = ServerProcess(data, (), environment)
    second = ServerProcess(data, (), environment)
    with first, second:
        assert second.server_key == first.server_key
        with pytest.raises(ServerKeyRefused):  # a key of its own would be another server
            async with server_in_process(
                tmp_path / "stranger", database_url=environment["MEMLOCKET_SERVER_DATABASE_URL"]
            ):
                pass
        world = await founded_on(http, first)
        caller = world.caller
        beside = Caller(http, second.url, caller.vault, caller.keys, host=caller.host)
        document = await beside.signed(1)  # the nonce of one process, answered at the other
        said = await caller.call("POST", "/v1/auth/session", document=document, session=False)
        assert said.status == 200
        replayed = await beside.call("POST", "/v1/auth/session", document=document, session=False)
        assert replayed.status == 401
        for one in (caller, beside):
            one.token, one.epoch = said.json["token"], said.json["epoch"]
        waiting = asyncio.ensure_future(beside.call("GET", "/v1/notify?after=0&wait=30"))
        assert (await caller.push(world.rows(2))).status == 200
        assert (await waiting).json == {"n": 2}
        rows = world.rows(2)
        answers = await asyncio.gather(caller.push(rows), beside.push(rows))
        assert [answer.json["head"]["n"] for answer in answers] == [4, 4]


async def test_a_server_without_its_key_does_not_start_as_another(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with server_in_process(tmp_path / "server") as server:
        await create_vault(http, server.url, await registration_token(server))
    (tmp_path / "server" / "server.key").unlink()
    with pytest.raises(ServerKeyRefused, match="has no server key"):
        async with server_in_process(tmp_path / "server"):
            pass
    assert not (tmp_path / "server" / "server.key").exists()


async def test_a_server_with_the_key_of_another_does_not_start(tmp_path: Path) -> None:
    for name in ("server", "other"):
        async with server_in_process(tmp_path / name):
            pass
    shutil.copyfile(tmp_path / "other" / "server.key", tmp_path / "server" / "server.key")
    with pytest.raises(ServerKeyRefused, match="is not the one"):
        async with server_in_process(tmp_path / "server"):
            pass


async def test_a_folder_and_a_port_have_one_server(tmp_path: Path) -> None:
    async with server_in_process(tmp_path / "server") as server:
        with pytest.raises(ServerAlreadyRunning):
            async with server_in_process(tmp_path / "server"):
                pass
        taken = Address("127.0.0.1", server.port)
        with pytest.raises(SettingsRefused, match="cannot be used"):
            async with server_in_process(tmp_path / "beside", metrics=taken):
                pass
    async with server_in_process(tmp_path / "beside"):
        pass


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Give --data DIR"),
        (("--data", "x", "--listen", "0.0.0.0:8443"), "--behind-proxy"),
        (("--data", "x", "--listen", "[::]:8443"), "--behind-proxy"),
        (("--data", "x", "--listen", "nonsense"), "is not HOST:PORT"),
        (("--data", "x", "--tls-cert", "cert.pem"), "go together"),
        (("--data", "x", "--public-host", "name:0"), "needs the port"),
        (("token", "--data", "x"), "No server was started in x"),
        (("status", "--data", "x"), "No server was started in x"),
        (("backup", "--data", "x", "copy"), "No server was started in x"),
        (("--data", "x", "token"), "No server was started in x"),
    ],
    ids=[
        "no folder", "open", "open IPv6", "address", "half TLS", "no port", "token", "status",
        "backup", "folder first",
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_told_and_exits_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["server", *arguments]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []
