"""Slow, silent and many clients at the sync server; TLS; and how long anything may take."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from pathlib import Path

import aiohttp
import pytest
from certificates import make_certificate
from sync_server import create_vault, registration_token, server_in_process

from memory_manager.sync.server.errors import SettingsRefused
from memory_manager.sync.server.running import RunningServer

HEALTH = b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n"
SECONDS = 20.0


class Plain:
    """A bare connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, port: int):  # type: ignore[no-untyped-def]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            yield cls(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def ended(self) -> bytes:
        """All that still comes until the server closes."""
        async with asyncio.timeout(SECONDS):
            with contextlib.suppress(ConnectionError):
                return await self.reader.read()
        return b""


@pytest.mark.parametrize("sent", [b"", b"GET /v1/health HTTP/1.1\r\nHost: x\r\nA: "])
async def test_a_client_that_sends_no_whole_header_is_cut(tmp_path: Path, sent: bytes) -> None:
    async with server_in_process(tmp_path / "slow", limits={"header_seconds": 0.3}) as server:
        async with Plain.open(server.port) as client:
            client.writer.write(sent)
            started = time.monotonic()
            assert await client.ended() == b""
            assert time.monotonic() - started < 10


async def test_a_body_that_trickles_is_refused_and_cut(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with server_in_process(tmp_path / "slow", limits={"body_seconds": 0.3}) as server:
        world = await create_vault(http, server.url, await registration_token(server))
        async with Plain.open(server.port) as client:
            head = (
                "POST /v1/log/push HTTP/1.1\r\nHost: x\r\nContent-Length: 5000\r\n"
                "Content-Type: application/octet-stream\r\n"
                f"X-Session-Epoch: {world.caller.epoch}\r\n"
                f"Authorization: Bearer {world.caller.token}\r\n\r\nMLKP"
            )
            client.writer.write(head.encode())
            answer = await client.ended()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"TIMEOUT"' in answer
        assert b"connection: close" in answer.lower()


async def test_a_body_is_not_waited_for_without_a_session(tmp_path: Path) -> None:
    async with server_in_process(tmp_path / "early") as server:
        async with Plain.open(server.port) as client:
            client.writer.write(
                b"POST /v1/log/push HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n"
            )
            async with asyncio.timeout(SECONDS):
                assert (await client.reader.readline()).startswith(b"HTTP/1.1 401 ")


async def test_a_client_that_does_not_take_its_answer_is_cut(
    tmp_path: Path, http: aiohttp.ClientSession
) -> None:
    async with server_in_process(tmp_path / "deaf", limits={"send_seconds": 0.3}) as server:
        world = await create_vault(http, server.url, await registration_token(server))
        for _ in range(16):
            record = world.founded.source.randbytes(15).rjust(16, b"\1")
            row = world.device.write(record, "x" * 500_000)
            assert (await world.caller.push([row])).status == 200
        await http.close()
        await _until_open(server, 0)
        async with Plain.open(server.port) as client:
            transport = client.writer.transport
            assert isinstance(transport, asyncio.ReadTransport)
            transport.pause_reading()
            request = (
                "GET /v1/log/pull HTTP/1.1\r\nHost: x\r\n"
                f"X-Session-Epoch: {world.caller.epoch}\r\n"
                f"Authorization: Bearer {world.caller.token}\r\n\r\n"
            )
            client.writer.write(request.encode())
            await _until_open(server, 1)
            await _until_open(server, 0)


async def _until_open(server: RunningServer, connections: int) -> None:
    line = f"memlocket_server_connections {connections}"
    async with asyncio.timeout(SECONDS):
        while line not in server.host.metrics.text().splitlines():  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("limit", ["connections", "connections_per_address"])
async def test_more_connections_than_allowed_are_closed_unread(tmp_path: Path, limit: str) -> None:
    async with server_in_process(tmp_path / "few", limits={limit: 2}) as server:
        async with Plain.open(server.port) as first, Plain.open(server.port) as second:
            for client in (first, second):
                client.writer.write(HEALTH)
                assert (await client.reader.readline()).startswith(b"HTTP/1.1 200 ")
            async with Plain.open(server.port) as third:
                third.writer.write(HEALTH)
                assert await third.ended() == b""
        async with asyncio.timeout(SECONDS):
            while True:
                async with Plain.open(server.port) as later:
                    later.writer.write(HEALTH)
                    if (await later.reader.readline()).startswith(b"HTTP/1.1 200 "):
                        return


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03canary-7f3a",
        b"GET /v1/canary-7f3a\x00 HTTP/1.1\r\n\r\n",
        b"GET /v1/health HTTP/1.1\r\nHost: x\r\ncanary-7f3a\r\n\r\n",
        b"GET /v1/health HTTP/1.1\r\nHost: x\r\nA: " + b"canary-7f3a" * 1_000 + b"\r\n\r\n",
        b"GET /" + b"canary-7f3a" * 1_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"POST /v1/vaults HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
        b"Content-Length: 3\r\n\r\ncanary-7f3a",
    ],
    ids=["TLS", "NUL", "no colon", "long header", "long path", "two lengths"],
)
async def test_what_is_no_http_gets_a_plain_answer_without_an_echo(
    tmp_path: Path, request_bytes: bytes
) -> None:
    async with server_in_process(tmp_path / "odd") as server:
        async with Plain.open(server.port) as client:
            client.writer.write(request_bytes)
            answer = await client.ended()
    assert answer.partition(b" ")[2].startswith(b"400 ")
    assert b"application/json" in answer
    assert b"canary" not in answer


async def test_over_tls_and_with_a_renewed_certificate(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path / "first")
    async with server_in_process(tmp_path / "tls", tls_cert=cert, tls_key=key) as server:
        assert server.url.startswith("https://127.0.0.1:")
        trusted = ssl.create_default_context(cafile=cert)
        connector = aiohttp.TCPConnector(ssl=trusted)
        async with aiohttp.ClientSession(connector=connector) as http:
            world = await create_vault(http, server.url, await registration_token(server))
            assert (await world.caller.push(world.rows(2))).status == 200
        renewed, renewed_key = make_certificate(tmp_path / "second")
        cert.write_bytes(renewed.read_bytes())
        with pytest.raises(SettingsRefused):  # the key is not the new certificate's yet
            server.reload_tls()
        key.write_bytes(renewed_key.read_bytes())
        server.reload_tls()
        connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=renewed))
        async with aiohttp.ClientSession(connector=connector) as http:
            async with http.get(server.url + "/v1/health") as answer:
                assert answer.status == 200
        async with aiohttp.ClientSession() as http:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await http.get(server.url + "/v1/health")


async def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    cert, key = make_certificate(tmp_path / "pair")
    key.write_text("no key")
    with pytest.raises(SettingsRefused, match="certificate"):
        async with server_in_process(tmp_path / "tls", tls_cert=cert, tls_key=key):
            pass
