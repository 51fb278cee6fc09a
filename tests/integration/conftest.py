"""One real daemon per test module, and small tools to speak to it below the level of a client."""

from __future__ import annotations

import dataclasses
import json
import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sandbox_daemon import SandboxDaemon, Wire, running
from vault_harness import FakeClocks, ProcessKeyring, VaultHome, accepted

RAW_SECONDS = 20.0


@dataclasses.dataclass(frozen=True)
class RawAnswer:
    """One answer read from a bare socket."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def read_answer(stream: socket.socket) -> RawAnswer:
    """The first answer on a connection; status 0 when it was closed without one."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = stream.recv(65_536)
        if not chunk:
            return RawAnswer(0, {}, data)
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    while len(body) < int(headers.get("content-length", "0")):
        chunk = stream.recv(65_536)
        if not chunk:
            break
        body += chunk
    return RawAnswer(int(first.split(" ")[1]), headers, body)


def raw_tcp(port: int, request: bytes) -> RawAnswer:
    """Send bytes as they are to door 2."""
    with socket.create_connection(("127.0.0.1", port), timeout=RAW_SECONDS) as stream:
        stream.sendall(request)
        return read_answer(stream)


def raw_unix(path: str, request: bytes) -> RawAnswer:
    """Send bytes as they are to door 1."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stream:
        stream.settimeout(RAW_SECONDS)
        stream.connect(path)
        stream.sendall(request)
        return read_answer(stream)


@pytest.fixture(scope="session")
def tcp() -> Callable[[int, bytes], RawAnswer]:
    return raw_tcp


@pytest.fixture(scope="session")
def unix() -> Callable[[str, bytes], RawAnswer]:
    return raw_unix


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxDaemon]:
    """A running daemon on a fresh vault that its key file opens; words only."""
    with running(tmp_path_factory.mktemp("d") / "home") as daemon:
        yield daemon


@pytest.fixture(scope="module")
def agent_token(served: SandboxDaemon) -> str:
    return served.add_agent("first")


@pytest.fixture
def agent(served: SandboxDaemon, agent_token: str) -> Iterator[Wire]:
    """An agent with both rights over TCP."""
    with served.wire(agent_token, agent="tester", instance="tester-installation") as wire:
        yield wire


@pytest.fixture
def owner(served: SandboxDaemon) -> Iterator[Wire]:
    with served.owner() as wire:
        yield wire


@pytest.fixture
def bucket() -> str:
    """A bucket of its own for each test: the daemon is shared by the module."""
    return f"b-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def backend() -> ProcessKeyring:
    return ProcessKeyring()


@pytest.fixture
def clocks() -> FakeClocks:
    return FakeClocks()


@pytest.fixture
def plain(tmp_path: Path) -> VaultHome:
    """A vault with a passphrase and recovery words, no keyring."""
    return VaultHome(tmp_path / "data").create()


@pytest.fixture
def with_keyring(tmp_path: Path, backend: ProcessKeyring) -> VaultHome:
    return VaultHome(tmp_path / "data", accepted(backend)).create(with_recovery=False)
