"""The client's HTTP: typed errors for everything a daemon, a stranger or silence can answer."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from vault_harness import wait_for

from memory_manager.base.errors import InvalidInput
from memory_manager.client.discovery import DaemonAddress
from memory_manager.client.errors import (
    DaemonNotRunning,
    DaemonUnreachable,
    OddAnswer,
    RemoteError,
)
from memory_manager.client.http import DaemonConnection
from memory_manager.client.memory_client import MemoryClient

HEAVY = ("aiohttp", "nacl", "sqlcipher3", "numpy", "keyring", "platformdirs", "mcp", "tqdm")


def address_of(path: Path | None, url: str | None = None) -> DaemonAddress:
    runtime = path.parent if path else Path("/nowhere")
    return DaemonAddress("id", 1, "0.1.0", "", path, url, runtime, None)


@contextlib.contextmanager
def answering(folder: Path, *answers: bytes) -> Iterator[tuple[Path, list[bytes]]]:
    """A Unix socket that gives one prepared answer per connection and keeps what it was sent."""
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / "s.sock"
    received: list[bytes] = []
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        for answer in answers:
            stream, _ = listener.accept()
            with stream:
                received.append(_whole_request(stream))
                stream.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield path, received
    finally:
        thread.join(10)
        listener.close()


def _whole_request(stream: socket.socket) -> bytes:
    raw = b""
    while b"\r\n\r\n" not in raw:
        raw += stream.recv(65536)
    length = re.search(rb"(?i)content-length: (\d+)", raw)
    missing = int(length[1]) - len(raw.partition(b"\r\n\r\n")[2]) if length else 0
    while missing > 0:
        part = stream.recv(65536)
        raw, missing = raw + part, missing - len(part)
    return raw


def http_answer(status: int, body: bytes) -> bytes:
    head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


def test_request_carries_token_and_body(short_path: Path) -> None:
    with answering(short_path / "run", http_answer(200, b'{"ok":true}')) as (path, received):
        with DaemonConnection(address_of(path), token="made-up-token") as connection:
            answer = connection.request("POST", "/v1/x", body={"a": "ä"}, query={"q": True})
    assert answer.body == {"ok": True}
    head, _, body = received[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /v1/x?q=true HTTP/1.1")
    assert b"Authorization: Bearer made-up-token" in head
    assert body == '{"a":"ä"}'.encode()


def test_error_body_becomes_a_typed_error(short_path: Path) -> None:
    body = (
        b'{"detail":"The vault is locked.","error":{"code":"vault_locked",'
        b'"message":"The vault is locked.","hint":"Run: memlocket unlock","reason":"idle"},'
        b'"request_id":"r1"}'
    )
    with answering(short_path / "run", http_answer(503, body)) as (path, _):
        with (
            DaemonConnection(address_of(path)) as connection,
            pytest.raises(RemoteError) as caught,
        ):
            connection.request("GET", "/v1/x")
    answer = caught.value.answer
    assert (answer.code, answer.status, answer.reason) == ("vault_locked", 503, "idle")
    assert caught.value.hint == "Run: memlocket unlock"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"error":"access_denied"}', "access_denied"),
        (b'{"detail":"no"}', "http_400"),
        (b"<html>", "http_400"),
        (b"", "http_400"),
        (b'{"error":{"code":null}}', "http_400"),
    ],
)
def test_other_error_bodies_are_read_too(short_path: Path, body: bytes, code: str) -> None:
    with answering(short_path / "run", http_answer(400, body)) as (path, _):
        with (
            DaemonConnection(address_of(path)) as connection,
            pytest.raises(RemoteError) as caught,
        ):
            connection.request("GET", "/v1/x")
    assert caught.value.answer.code == code


@pytest.mark.parametrize("body", [b"hello", b"[1]", b"\xff"])
def test_success_that_is_no_object_is_odd(short_path: Path, body: bytes) -> None:
    with answering(short_path / "run", http_answer(200, body)) as (path, _):
        with DaemonConnection(address_of(path)) as connection, pytest.raises(OddAnswer):
            connection.request("GET", "/v1/x")


@contextlib.contextmanager
def refusing(folder: Path, *, over_tcp: bool) -> Iterator[DaemonAddress]:
    """Answers 413 to the first bytes of a request and closes without reading the others."""
    folder.mkdir(mode=0o700)
    path = folder / "s.sock"
    listener = socket.socket(socket.AF_INET if over_tcp else socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", 0) if over_tcp else str(path))
    listener.listen()

    def refuse() -> None:
        stream, _ = listener.accept()
        with stream:
            stream.recv(100)
            stream.sendall(http_answer(413, b'{"error":{"code":"body_too_large"}}'))

    thread = threading.Thread(target=refuse)
    thread.start()
    try:
        yield (
            address_of(None, f"http://127.0.0.1:{listener.getsockname()[1]}")
            if over_tcp
            else address_of(path)
        )
    finally:
        thread.join(10)
        listener.close()


# over TCP the kernel says that the connection was reset, over a Unix socket that the pipe broke
@pytest.mark.parametrize("over_tcp", [False, True])
def test_early_refusal_of_a_large_body_is_read(short_path: Path, over_tcp: bool) -> None:
    with (
        refusing(short_path / "run", over_tcp=over_tcp) as address,
        DaemonConnection(address) as connection,
        pytest.raises(RemoteError) as caught,
    ):
        connection.request("POST", "/v1/x", body={"a": "x" * 5_000_000})
    assert caught.value.answer.code == "body_too_large"


@pytest.mark.parametrize("over_tcp", [False, True])
def test_early_refusal_of_passed_on_bytes_is_an_answer(short_path: Path, over_tcp: bool) -> None:
    with (
        refusing(short_path / "run", over_tcp=over_tcp) as address,
        DaemonConnection(address) as connection,
    ):
        assert connection.exchange("/mcp", b"x" * 5_000_000, {}).status == 413


def test_nobody_listens(short_path: Path) -> None:
    (short_path / "run").mkdir(mode=0o700)
    path = short_path / "run" / "s.sock"
    with DaemonConnection(address_of(path)) as connection, pytest.raises(DaemonNotRunning):
        connection.request("GET", "/health")
    left_over = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    left_over.bind(str(path))
    left_over.close()
    with DaemonConnection(address_of(path)) as connection, pytest.raises(DaemonNotRunning):
        connection.request("GET", "/health")


def test_silence_is_unreachable(short_path: Path) -> None:
    (short_path / "run").mkdir(mode=0o700)
    path = short_path / "run" / "s.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()
        with (
            DaemonConnection(address_of(path), timeout_seconds=0.2) as connection,
            pytest.raises(DaemonUnreachable),
        ):
            connection.request("GET", "/health")


def test_hang_up_is_unreachable(short_path: Path) -> None:
    with answering(short_path / "run", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{") as (
        path,
        _,
    ):
        with DaemonConnection(address_of(path)) as connection, pytest.raises(DaemonUnreachable):
            connection.request("GET", "/health")


def test_stream_that_breaks_off_is_noticed(short_path: Path) -> None:
    whole = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b'{"a":1}\n{"b":2}\n{"c"'
    with answering(short_path / "run", whole) as (path, _):
        with DaemonConnection(address_of(path)) as connection:
            lines = connection.stream_lines("/v1/memories/export")
            assert [next(lines), next(lines)] == [b'{"a":1}', b'{"b":2}']
            with pytest.raises(DaemonUnreachable):
                next(lines)


@pytest.mark.parametrize(
    "url",
    ["http://192.0.2.1:80", "http://localhost:80", "https://127.0.0.1:80", "http://127.0.0.1"],
)
def test_only_loopback_is_dialled(url: str) -> None:
    with pytest.raises(OddAnswer):
        DaemonConnection(address_of(None, url))


def test_peer_is_named_by_the_kernel(short_path: Path) -> None:
    if not hasattr(socket, "SO_PEERCRED"):
        pytest.skip("needs Linux, which names the peer of a Unix socket")
    with answering(short_path / "run", http_answer(200, b"{}")) as (path, _):
        with DaemonConnection(address_of(path)) as connection:
            assert connection.peer_pid() == os.getpid()
            connection.request("GET", "/health")


def test_import_stays_light() -> None:
    code = (
        "import sys, memory_manager.client.memory_client, memory_manager.cli.main as m\n"
        "m.build_parser()\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_empty_id_is_no_listing() -> None:
    """``/v1/memories/`` would be another route."""
    client = MemoryClient(DaemonConnection(address_of(None, "http://127.0.0.1:9"), token=None))
    with pytest.raises(InvalidInput):
        client.get("")


def test_a_connection_that_the_daemon_closed_while_idle_is_opened_again(short_path: Path) -> None:
    answer = b'HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n{"fine": 12}'
    with answering(short_path / "run", answer, answer) as (path, received):
        with DaemonConnection(address_of(path)) as connection:
            assert connection.request("GET", "/v1/me").body == {"fine": 12}
            wait_for(lambda: not connection.is_fresh())
            assert connection.request("POST", "/v1/me", body={}).body == {"fine": 12}
    assert len(received) == 2
