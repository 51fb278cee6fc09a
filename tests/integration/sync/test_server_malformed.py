"""Bodies that are no message of the protocol: a typed 4xx, never a 5xx, and nothing stored."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
from sync_server import (
    OCTETS,
    Caller,
    World,
    create_vault,
    registration_token,
    server_in_process,
)

from memory_manager.sync.server.running import RunningServer
from memory_manager.sync.wire.envelope import WRAP_BYTES

JSON_ROUTES = [
    ("POST", "/v1/vaults", False),
    ("POST", "/v1/auth/challenge", False),
    ("POST", "/v1/auth/session", False),
    ("POST", "/v1/roster", True),
    ("POST", "/v1/wrap/push", True),
    ("DELETE", "/v1/vaults/self", True),
]
ODD_JSON = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"[" * 60_000,
    b'{"a":' * 10_000,
    b"\xff\xfe{}",
    b'{"vault":1,"device":[]}',
    b'{"vault":"' + b"0" * 31 + b'","device":"' + b"0" * 32 + b'"}',
    b'{"vault":"' + b"A" * 32 + b'","device":"' + b"0" * 32 + b'"}',
    b'{"vault":"' + b"\xc2\xb2" * 16 + b'","device":"x"}',
    b'{"entry":"","signature":""}',
    b'{"entry":"e30","signature":"' + b"0" * 128 + b'"}',
    b'{"entry":"e30=","signature":"' + b"0" * 128 + b'"}',
    b'{"entry":"\\ud800","signature":"' + b"0" * 128 + b'","registration_token":"\\ud800"}',
    b'{"wraps":{}}',
    b'{"wraps":[1]}',
    b'{"wraps":[{"body_hash":"00","wrap":"00"}]}',
    b'{"wraps":NaN}',
    b'{"nonce":"00","signature":"00"}',
    b'{"a":1,"a":1}',
]


def faulty_pushes(good: bytes, count: int) -> Iterator[bytes]:
    """Cut, lengthened, and with bytes, counts and lengths changed."""
    source = random.Random(11)
    yield from (b"", good[:1], good[:-1], good + b"\0", good + good, good[1:])
    count_at = 8 + 8 + 112 + 64
    yield good[:count_at] + b"\xff\xff\xff\xff" + good[count_at + 4 :]
    yield good[:count_at] + b"\0\0\0\0" + good[count_at + 4 :]
    length_at = count_at + 4 + 137
    yield good[:length_at] + b"\xff\xff\xff\xff" + good[length_at + 4 :]
    yield good[:length_at] + b"\0\0\0\0" + good[length_at + 4 :]
    rows_at, row_bytes = count_at + 4, (len(good) - count_at - 4) // 3
    signed = [
        at
        for at in range(len(good))
        if at < rows_at or (at - rows_at) % row_bytes < row_bytes - WRAP_BYTES
    ]
    for _ in range(count):
        changed = bytearray(good)
        kind = source.randrange(3)
        if kind == 0:
            del changed[source.randrange(len(changed)) :]
        elif kind == 1:
            at = source.randrange(len(changed))
            changed[at:at] = source.randbytes(source.randrange(1, 40))
        else:
            changed[source.choice(signed)] ^= 1 << source.randrange(8)  # a WRAP is the reader's
        yield bytes(changed)


@pytest.mark.timeout(900)  # 5 000 bodies when thorough
async def test_no_faulty_push_is_taken_or_breaks_the_server(
    tmp_path: Path, http: aiohttp.ClientSession, thorough: bool
) -> None:
    count = 5_000 if thorough else 300
    quotas = {"requests_per_minute": 2 * count}  # all of them reach the reader of pushes
    async with server_in_process(tmp_path / "faulty", quotas=quotas) as server:
        world = await create_vault(http, server.url, await registration_token(server))
        good = world.caller.push_body(world.rows(3))
        epoch_bytes = slice(8, 16)
        for body in faulty_pushes(good, count):
            said = await world.caller.call("POST", "/v1/log/push", body=body)
            assert 400 <= said.status < 500, (said.status, said.body)
            fenced = body[epoch_bytes] != good[epoch_bytes]
            allowed = {"MALFORMED", "CLASS_POLICY", "UNKNOWN_DEVICE", "GAP"}
            assert said.code in allowed or (fenced and said.code == "SESSION_EPOCH")
        assert (await server.host.storage.vault(world.founded.vault)).head.n == 0
        assert (await world.caller.call("POST", "/v1/log/push", body=good)).status == 200


@pytest.mark.parametrize(("method", "path", "session"), JSON_ROUTES)
async def test_odd_json_is_refused_everywhere(
    world: World, server: RunningServer, method: str, path: str, session: bool
) -> None:
    for body in ODD_JSON:
        headers = {"Content-Type": "application/json"}
        said = await world.caller.call(method, path, body=body, headers=headers, session=session)
        limit_passed = len(body) > 40_000 and said.code == "TOO_LARGE"
        assert said.code == "MALFORMED" or limit_passed, (body[:60], said.status, said.body)
    assert (await server.host.storage.usage(0)).vaults == 1


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/log/push", b"{}"),
        ("POST", "/v1/roster", b"{}"),
        ("POST", "/v1/wrap/push", b"{}"),
        ("POST", "/v1/auth/challenge", b"{}"),
        ("POST", "/v1/mailbox/" + "0" * 32 + "?side=offer", b"x"),
    ],
)
async def test_a_body_of_another_type_is_refused(
    world: World, method: str, path: str, body: bytes
) -> None:
    for kind in ("text/plain", "multipart/form-data; boundary=x", "application/cbor"):
        said = await world.caller.call(method, path, body=body, headers={"Content-Type": kind})
        assert (said.status, said.code) == (415, "MEDIA_TYPE")


async def test_a_compressed_body_is_not_unpacked(world: World) -> None:
    body = world.caller.push_body(world.rows(1))
    for coding in ("gzip", "deflate", "br", "zstd"):
        said = await world.caller.call(
            "POST", "/v1/log/push", body=body, headers={"Content-Encoding": coding}
        )
        assert (said.status, said.code) == (415, "MEDIA_TYPE")


async def test_nothing_is_ever_compressed_on_the_way_back(world: World) -> None:
    for path in ("/v1/roster", "/v1/log/pull", "/v1/health"):
        said = await world.caller.call("GET", path, headers={"Accept-Encoding": "gzip, br, zstd"})
        assert said.status == 200
        assert "Content-Encoding" not in said.headers


async def test_odd_numbers_in_the_query_are_refused(world: World) -> None:
    odd = ("-1", "x", "", "1.0", "0x1", "%C2%B2", "9" * 30, "--1")
    for query in (*(f"after={value}" for value in odd), "limit=0", "limit=-5"):
        said = await world.caller.call("GET", f"/v1/log/pull?{query}")
        assert (said.status, said.code) == (422, "MALFORMED"), query


@pytest.mark.parametrize(
    ("method", "path", "size"),
    [
        ("POST", "/v1/log/push", (1 << 20) + 1),
        ("POST", "/v1/wrap/push", (1 << 20) + 1),
        ("POST", "/v1/roster", (1 << 17) + 1),
        ("POST", "/v1/auth/session", 65_537),
        ("POST", "/v1/vaults", (1 << 17) + 1),
        ("POST", "/v1/mailbox/" + "0" * 32, 65_537),
        ("GET", "/v1/log/pull", 1),
    ],
)
async def test_a_body_over_its_routes_limit_is_refused_unread(
    world: World, method: str, path: str, size: int
) -> None:
    """By its announced length, and in pieces without one."""

    async def pieces():  # type: ignore[no-untyped-def]
        for _ in range(0, size, 1 << 16):
            yield bytes(1 << 16)

    for body in (io.BytesIO(bytes(size)), pieces()):
        said = await world.caller.call(method, path, body=body, headers={"Content-Type": OCTETS})
        assert (said.status, said.code) == (413, "TOO_LARGE")


@pytest.mark.parametrize(
    ("method", "path", "answer"),
    [
        ("GET", "/", (404, "NOT_FOUND")),
        ("GET", "/v1/log", (404, "NOT_FOUND")),
        ("GET", "/v1/%2e%2e/etc", (404, "NOT_FOUND")),
        ("GET", "/metrics", (404, "NOT_FOUND")),
        ("GET", "/v1/log/push", (405, "METHOD")),
        ("PUT", "/v1/roster", (405, "METHOD")),
        ("HEAD", "/v1/health", (405, None)),
        ("OPTIONS", "/v1/roster", (405, "METHOD")),
        ("GET", "/v1/mailbox/xyz?side=offer", (422, "MALFORMED")),
        ("GET", "/v1/mailbox/" + "0" * 32 + "?side=other", (422, "MALFORMED")),
        ("GET", "/v1/mailbox/" + "A" * 32 + "?side=offer", (422, "MALFORMED")),
    ],
)
async def test_odd_paths_and_methods_have_typed_answers(
    world: World, method: str, path: str, answer: tuple[int, str | None]
) -> None:
    said = await world.caller.call(method, path)
    assert said.status == answer[0]
    assert said.headers["Content-Type"].startswith("application/json")
    if answer[1] is not None:
        assert said.code == answer[1]
        assert set(json.loads(said.body)["error"]) == {"code", "message", "details"}


async def test_health_tells_the_version_and_nothing_else(world: World) -> None:
    said = await world.caller.call("GET", "/v1/health", session=False)
    assert isinstance(world.caller, Caller)
    assert set(said.json) == {"status", "version"}
    assert said.json["status"] == "ok"
