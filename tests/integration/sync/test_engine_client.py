"""The client of the sync engine against the real server, portals, cut bodies and slow answers."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gzip
import json
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web
from certificates import make_certificate
from sync_proxy import PULL, Answer, Call, SyncProxy, between, octets, pages, refusal
from sync_server import registration_token, server_in_process
from sync_world import Founded, Keys

from memory_manager.sync.engine.client import EVICTIONS, SyncClient
from memory_manager.sync.engine.connection import base_url
from memory_manager.sync.engine.device_secrets import DeviceSecrets
from memory_manager.sync.engine.errors import (
    SyncAddressRefused,
    SyncServerRefused,
    SyncUnreachable,
)
from memory_manager.sync.engine.transport import Limits
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.server.running import RunningServer
from memory_manager.sync.wire.framing import MAX_PULL_BYTES
from memory_manager.vault.device_key import DeviceKey

QUICK = Limits(connect_seconds=4.0, read_seconds=1.5, total_seconds=3.0)
"""Long enough for an honest answer on a machine that is busy."""


def secrets_of(keys: Keys) -> DeviceSecrets:
    return DeviceSecrets(DeviceKey(keys.id, bytearray(keys.signing.encode() + keys.box.encode())))


class Stand:
    """A server with a vault, a proxy in front of it and a client that goes through the proxy."""

    def __init__(self, server: RunningServer, proxy: SyncProxy, founded: Founded) -> None:
        self.server, self.proxy, self.founded = server, proxy, founded
        self.clients: list[SyncClient] = []

    @property
    def key(self) -> bytes:
        return self.server.host.key.public

    def client(self, limits: Limits | None = None, **options: object) -> SyncClient:
        made = SyncClient(self.proxy.url, limits=limits, **options)  # type: ignore[arg-type]
        made.identify(self.founded.vault, secrets_of(self.founded.first), self.key)
        self.clients.append(made)
        return made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stand(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stand]:
    folder: Path = tmp_path_factory.mktemp("stand")
    async with server_in_process(folder / "server") as server, between(server) as proxy:
        founded = Founded(random.Random(5))
        found = Stand(server, proxy, founded)
        client = found.client()
        created = await client.create_vault(await registration_token(server), founded.chain[0])
        assert (created.vault, created.server_key) == (founded.vault, found.key)
        yield found
        for each in found.clients:
            await each.close()


@pytest.fixture(autouse=True)
def _honest(stand: Stand) -> None:
    stand.proxy.rule = None


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_login_is_bound_to_the_server_key_and_the_host(stand: Stand) -> None:
    client = stand.client()
    page = await client.pull(0)
    assert page.tip.value.n == 0
    strange = SyncClient(stand.proxy.url)
    strange.identify(stand.founded.vault, secrets_of(stand.founded.first), bytes(32))
    stand.clients.append(strange)
    with pytest.raises(SyncRefused) as refused:
        await strange.pull(0)
    assert refused.value.reason is SyncCode.SERVER_KEY
    elsewhere = SyncClient(stand.proxy.url.replace("127.0.0.1", "localhost"))
    elsewhere.identify(stand.founded.vault, secrets_of(stand.founded.first), stand.key)
    stand.clients.append(elsewhere)
    with pytest.raises((SyncServerRefused, SyncUnreachable)):
        await elsewhere.pull(0)


async def test_an_expired_session_logs_in_once_more(stand: Stand) -> None:
    client = stand.client()
    await client.pull(0)
    turns = 0

    async def once(call: Call) -> Answer | None:
        nonlocal turns
        if call.path == PULL:
            turns += 1
            if turns == 1:
                return refusal(401, "SESSION_EPOCH", {"reason": "expired"})
        return None

    stand.proxy.rule = once
    await client.pull(0)
    assert turns == 2

    async def always(call: Call) -> Answer | None:
        return refusal(401, "SESSION_EPOCH", {"reason": "expired"}) if call.path == PULL else None

    stand.proxy.rule = always
    before = stand.proxy.count(f"GET {PULL}")
    with pytest.raises(SyncServerRefused):
        await client.pull(0)
    assert stand.proxy.count(f"GET {PULL}") == before + 2


async def test_two_copies_of_a_device_notice_each_other(stand: Stand) -> None:
    now = 0.0
    one, two = (stand.client(clock=lambda: now) for _ in range(2))
    for turn in range(EVICTIONS):
        now = turn * 400.0  # three evictions, but never within ten minutes
        await one.pull(0)
        await two.pull(0)
    turns = 0

    async def alternate() -> None:
        nonlocal now, turns
        now = 2000.0
        while turns <= EVICTIONS:
            now, turns = now + 100.0, turns + 1
            await one.pull(0)
            await two.pull(0)

    with pytest.raises(SyncRefused) as refused:
        await alternate()
    assert (refused.value.reason, turns) == (SyncCode.CLONED, EVICTIONS)
    assert refused.value.device == stand.founded.first.id


async def _portal(_: Call) -> web.Response:
    return web.Response(text="<html>Welcome to the hotel</html>", content_type="text/html")


async def _cut_short(call: Call) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
    response.content_length = 1000
    await response.prepare(call.request)
    await response.write(b"MLKQ")
    if call.request.transport is not None:
        call.request.transport.close()
    return response


async def _redirect(call: Call) -> web.Response | Answer:
    """T35: the true page, for whoever follows."""
    if call.path == PULL and "detour" not in call.query:
        detour = f"{call.proxy.url}{PULL}?after=0&limit=500&detour=1"
        return web.Response(status=307, headers={"Location": detour})
    return await call.forward({"after": "0", "limit": "500"} if call.path == PULL else None)


async def _too_long(call: Call) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
    await response.prepare(call.request)
    with contextlib.suppress(ConnectionError):
        for _ in range(MAX_PULL_BYTES // (1 << 18) + 8):
            await response.write(bytes(1 << 18))
    return response


async def _announced_too_long(call: Call) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
    response.content_length = 4 << 30
    await response.prepare(call.request)
    await asyncio.sleep(0.5)
    return response


async def _compressed(call: Call) -> Answer:
    """T29: nothing is unpacked, not even the true page."""
    answer = await call.forward()
    packed = gzip.compress(answer.body)
    return dataclasses.replace(answer, body=packed, headers={"Content-Encoding": "gzip"})


async def _json_of_another(_: Call) -> web.Response:
    return web.json_response({"error": "nope"}, status=502)


async def _slow_loris(call: Call) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/octet-stream"})
    response.content_length = 10_000
    await response.prepare(call.request)
    with contextlib.suppress(ConnectionError):
        for _ in range(400):
            await response.write(b"M")
            await asyncio.sleep(0.05)
    return response


@pytest.mark.parametrize(
    "rule",
    [
        _portal,
        _cut_short,
        _redirect,
        _too_long,
        _announced_too_long,
        _compressed,
        _json_of_another,
        _slow_loris,
    ],
    ids=lambda rule: rule.__name__.strip("_"),
)
async def test_what_is_no_answer_is_no_answer(
    stand: Stand, rule: object, request: pytest.FixtureRequest
) -> None:
    client = stand.client(QUICK)
    await client.pull(0)
    stand.proxy.rule = rule  # type: ignore[assignment]
    begun = time.monotonic()
    with pytest.raises(SyncUnreachable):
        await client.pull(0)
    assert time.monotonic() - begun < 10.0
    stand.proxy.rule = None
    assert (await client.pull(0)).tip.value.n == 0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7.0), ("315360000", 3600.0), ("9" * 300, 3600.0), ("soon", None), ("-5", None)],
)
async def test_retry_after_is_obeyed_up_to_an_hour(
    stand: Stand, value: str, seconds: float | None
) -> None:
    async def busy(call: Call) -> Answer | None:
        return refusal(429, "RATE", **{"Retry-After": value}) if call.path == PULL else None

    client = stand.client()
    await client.pull(0)
    stand.proxy.rule = busy
    with pytest.raises(SyncServerRefused) as refused:
        await client.pull(0)
    assert (refused.value.reason, refused.value.retry_after_seconds) == ("RATE", seconds)


async def test_pages_that_are_not_pages_are_refused(stand: Stand) -> None:
    client = stand.client()
    changes = [
        lambda body: body + b"\x00",
        lambda body: body[:-1],
        lambda body: body[:8] + b"\xff\xff\xff\xff" + body[12:],
        lambda body: b"MLKQ\x02" + body[5:],
        lambda body: b"",
    ]
    for change in changes:
        stand.proxy.rule = octets(change)
        with pytest.raises(SyncUnreachable):
            await client.pull(0)
    stand.proxy.rule = pages(lambda page: page)
    await client.pull(0)


async def test_codes_of_the_server_are_shown_only_as_codes(stand: Stand) -> None:
    async def chatty(call: Call) -> Answer | None:
        said = {"error": {"code": "<b>your password?</b>", "message": "x", "details": {}}}
        body = json.dumps(said).encode()
        return Answer(400, "application/json", body) if call.path == PULL else None

    client = stand.client()
    await client.pull(0)
    stand.proxy.rule = chatty
    with pytest.raises(SyncUnreachable) as refused:
        await client.pull(0)
    assert "password" not in refused.value.message


async def test_pokes_and_long_polls_tell_that_the_log_went_on(stand: Stand) -> None:
    stand.server.host.public_host = stand.server.url.split("://")[1]
    client = SyncClient(stand.server.url)
    client.identify(stand.founded.vault, secrets_of(stand.founded.first), stand.key)
    stand.clients.append(client)
    try:
        async with client.pokes() as hints, asyncio.timeout(20):
            async for n in hints:
                assert n == 0
                break
    finally:
        stand.server.host.public_host = stand.proxy.url.split("://")[1]


@pytest.mark.parametrize(
    "address",
    [
        "http://sync.example.org",
        "http://192.168.1.2:8443",
        "ftp://localhost",
        "https://user:secret@sync.example.org",
        "https://sync.example.org/path",
        "https://",
        "sync.example.org",
        "https://sync.example.org:99999",
    ],
)
async def test_addresses_that_are_not_used(address: str) -> None:
    with pytest.raises(SyncAddressRefused):
        base_url(address)


async def test_addresses_that_are_used() -> None:
    assert base_url("https://Sync.Example.org/") == "https://sync.example.org:443"
    assert base_url("http://[::1]:8443") == "http://[::1]:8443"
    assert base_url("http://localhost:1") == "http://localhost:1"


async def test_a_long_poll_tells_of_news_where_pokes_do_not_get_through(stand: Stand) -> None:
    client = stand.client()
    asked: list[str] = []

    async def answer(call: Call) -> Answer | None:
        if call.path != "/v1/notify":
            return None
        asked.append(call.query.get("after", ""))
        return Answer(200, "application/json", b'{"n":12}')

    stand.proxy.rule, stand.proxy.notifies = answer, True
    try:
        assert await client.wait_for_news(7) == 12
    finally:
        stand.proxy.notifies = False
    assert asked == ["7"]


async def test_a_handshake_for_pokes_follows_no_redirect(stand: Stand) -> None:
    elsewhere: list[str] = []

    async def redirect(call: Call) -> web.Response | None:
        if call.path == "/v1/notify":
            location = f"{stand.proxy.url}/v1/elsewhere"
            return web.Response(status=302, headers={"Location": location})
        if call.path == "/v1/elsewhere":
            elsewhere.append(call.path)
        return None

    client = stand.client()
    stand.proxy.rule, stand.proxy.notifies = redirect, True
    try:
        with pytest.raises(SyncUnreachable):
            await _open_pokes(client)
    finally:
        stand.proxy.notifies = False
    assert elsewhere == []


async def _open_pokes(client: SyncClient) -> None:
    async with client.pokes():
        pass


async def test_environment_proxies_are_not_used(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    assert (await stand.client().pull(0)).tip.value.n == 0


async def test_a_certificate_is_trusted_only_by_the_owners_word(tmp_path: Path) -> None:
    """T35: a wrong certificate is refused; the owner may name the one that signs."""
    cert, key = make_certificate(tmp_path)
    async with server_in_process(tmp_path / "server", tls_cert=cert, tls_key=key) as server:
        for ca_file, works in ((None, False), (str(cert), True)):
            client = SyncClient(server.url, ca_file=ca_file)
            try:
                if works:
                    assert await client.server_key()
                else:
                    with pytest.raises(SyncUnreachable, match="certificate"):
                        await client.server_key()
            finally:
                await client.close()
