"""The real sync server for tests: in this process on a free port, or as a process of its own.

Both listen on 127.0.0.1 only. ``Caller`` speaks the protocol below the level of the product's
client, so that what is sent can be wrong in every way.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import os
import random
import signal
import subprocess
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import aiohttp
from multidict import CIMultiDict
from sandbox_daemon import COMMAND, PASSED_ON, START_SECONDS, _die_with_parent, wait_until
from sync_world import Device, Founded, Keys

from memory_manager.base.times import now_ms
from memory_manager.sync.server.host import MountFactory
from memory_manager.sync.server.registration import (
    VALID_MS,
    new_registration_token,
    registration_hash,
)
from memory_manager.sync.server.running import RunningServer, running_server
from memory_manager.sync.server.settings import Address, Limits, Quotas, ServerSettings
from memory_manager.sync.wire.framing import LogRow, Push, Signed, pack_push
from memory_manager.sync.wire.log import Checkpoint, login_bytes, sign_checkpoint
from memory_manager.sync.wire.roster import SignedEntry

LOOPBACK = Address("127.0.0.1", 0)
OCTETS = "application/octet-stream"


@contextlib.asynccontextmanager
async def server_in_process(
    data: Path,
    *,
    mounts: Sequence[MountFactory] = (),
    limits: Mapping[str, float] | None = None,
    quotas: Mapping[str, int] | None = None,
    **settings: Any,
) -> AsyncGenerator[RunningServer]:
    """The server on this loop; ``.url``, ``.port`` and ``.host`` (storage, key, metrics ...)."""
    chosen = ServerSettings(
        data=data,
        listen=LOOPBACK,
        limits=Limits(**(limits or {})),  # type: ignore[arg-type]
        quotas=Quotas(**(quotas or {})),
        **settings,
    )
    async with running_server(chosen, mounts=mounts) as server:
        yield server


async def registration_token(server: RunningServer) -> str:
    """A token that lets one vault be made, as ``memlocket server token`` gives it."""
    token = new_registration_token()
    await server.host.storage.add_registration(registration_hash(token), now_ms() + VALID_MS)
    return token


@dataclasses.dataclass
class ServerProcess:
    """``memlocket server`` as a process of its own; ``with`` ends it."""

    data: Path
    options: Sequence[str] = ()
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    ready: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def log_path(self) -> Path:
        return self.data.with_name(self.data.name + ".log")

    @property
    def _out_path(self) -> Path:
        return self.data.with_name(self.data.name + ".out")

    @property
    def env(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        return {**kept, "HOME": str(self.data.parent), **self.environment}

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """``memlocket server ACTION`` on this folder, to its end."""
        action, *rest = arguments
        return subprocess.run(
            [*COMMAND, "server", action, "--data", str(self.data), *rest],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the process and return at once."""
        self.ready = {}
        where = () if "--listen" in self.options else ("--listen", "127.0.0.1:0")
        with self._out_path.open("wb") as out, self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [*COMMAND, "server", "--json", "--data", str(self.data), *where, *self.options],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        return self.process

    def start(self) -> ServerProcess:
        """Start and wait until it said where it answers."""
        process = self.launch()
        wait_until(lambda: self._said(process), START_SECONDS, "the server is ready", 0.02)
        return self

    def _said(self, process: subprocess.Popen[bytes]) -> bool:
        if process.poll() is not None:
            raise AssertionError(f"exit {process.returncode}:\n{self.log()[-2000:]}")
        with contextlib.suppress(ValueError):
            self.ready = json.loads(self._out_path.read_bytes())
        return "url" in self.ready

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    @property
    def url(self) -> str:
        return str(self.ready["url"])

    @property
    def public_host(self) -> str:
        return str(self.ready["public_host"])

    @property
    def server_key(self) -> bytes:
        return bytes.fromhex(self.ready["server_key"])

    def registration_token(self) -> str:
        done = self.command("token", "--json")
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout)["token"])

    def kill(self) -> None:
        """kill -9 and reap."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)

    def stop(self, number: int = signal.SIGTERM, timeout: float = 30) -> int:
        """A signal, SIGTERM by default; the exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(timeout)

    def __enter__(self) -> ServerProcess:
        return self.start() if self.process is None else self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()


@dataclasses.dataclass
class Reply:
    """One answer, read whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])

    @property
    def details(self) -> dict[str, Any]:
        return dict(self.json["error"]["details"])


class Caller:
    """One device at a server, on the wire as the protocol has it and with any lie a test wants."""

    def __init__(
        self, http: aiohttp.ClientSession, url: str, vault: bytes, keys: Keys, *, host: str = ""
    ) -> None:
        self.http = http
        self.url = url
        self.host = host or url.split("://", 1)[1]
        self.vault = vault
        self.keys = keys
        self.token = ""
        self.epoch = 0

    async def call(
        self,
        method: str,
        path: str,
        *,
        document: Any = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        session: bool = True,
        **request: Any,
    ) -> Reply:
        sent: CIMultiDict[str] = CIMultiDict()
        if session:
            sent["Authorization"] = f"Bearer {self.token}"
            sent["X-Session-Epoch"] = str(self.epoch)
        if document is not None:
            body = json.dumps(document).encode()
            sent["Content-Type"] = "application/json"
        elif body is not None:
            sent["Content-Type"] = OCTETS
        for name in headers or ():
            sent.popall(name, None)
        sent.extend(headers or {})
        async with self.http.request(
            method, self.url + path, data=body, headers=sent, allow_redirects=False, **request
        ) as answer:
            return Reply(answer.status, answer.headers, await answer.read())

    async def challenge(self) -> tuple[bytes, bytes]:
        """A nonce and the server's key."""
        asked = {"vault": self.vault.hex(), "device": self.keys.id.hex()}
        said = await self.call("POST", "/v1/auth/challenge", document=asked, session=False)
        assert said.status == 200, said.body
        return bytes.fromhex(said.json["nonce"]), bytes.fromhex(said.json["server_key"])

    async def signed(self, action: int, /, **lies: Any) -> dict[str, str]:
        """The members of a login or a deletion, with other values where a test lies."""
        nonce, server_key = await self.challenge()
        facts = {
            "server_key": server_key,
            "host": self.host,
            "vault": self.vault,
            "device": self.keys.id,
            "action": action,
            "nonce": nonce,
        } | lies
        signature = self.keys.signing.sign(login_bytes(**facts)).signature
        return {
            "vault": self.vault.hex(),
            "device": self.keys.id.hex(),
            "nonce": facts["nonce"].hex(),
            "signature": signature.hex(),
        }

    async def open_session(self, **lies: Any) -> Reply:
        """Ask for a session; kept for later calls when it is given."""
        document = await self.signed(1, **lies)
        said = await self.call("POST", "/v1/auth/session", document=document, session=False)
        if said.status == 200:
            self.token, self.epoch = said.json["token"], said.json["epoch"]
        return said

    async def login(self) -> Caller:
        said = await self.open_session()
        assert said.status == 200, (said.status, said.body)
        return self

    async def post_roster(self, entry: SignedEntry) -> Reply:
        return await self.call("POST", "/v1/roster", document=entry_json(entry))

    def push_body(
        self, rows: Sequence[LogRow], *, by: Keys | None = None, epoch: int | None = None
    ) -> bytes:
        """A push of ``rows`` with the checkpoint of their author."""
        author = by or self.keys
        last = rows[-1].entry
        said = Checkpoint(self.vault, author.id, last.seq, last.head, 0, bytes(32))
        checkpoint = Signed(said, sign_checkpoint(author.signing, said))
        return pack_push(Push(self.epoch if epoch is None else epoch, checkpoint, tuple(rows)))

    async def push(self, rows: Sequence[LogRow], **options: Any) -> Reply:
        return await self.call("POST", "/v1/log/push", body=self.push_body(rows, **options))


@dataclasses.dataclass
class World:
    """A vault that the server knows, its first device logged in, and what that device writes."""

    founded: Founded
    caller: Caller
    device: Device

    def rows(self, count: int) -> list[LogRow]:
        """The device's next rows."""
        source = self.founded.source
        return [
            self.device.write(bytes([source.randrange(128)]) + source.randbytes(15), "text")
            for _ in range(count)
        ]

    async def join(self, http: aiohttp.ClientSession) -> Caller:
        """One more device, in the roster and logged in."""
        keys = self.founded.add()
        said = await self.caller.post_roster(self.founded.chain[-1])
        assert said.status == 201, said.body
        return await Caller(
            http, self.caller.url, self.founded.vault, keys, host=self.caller.host
        ).login()


def entry_json(entry: SignedEntry) -> dict[str, str]:
    document = base64.urlsafe_b64encode(entry.document).rstrip(b"=").decode()
    return {"entry": document, "signature": entry.signature.hex()}


async def create_vault(
    http: aiohttp.ClientSession, url: str, token: str, *, seed: int = 1, host: str = ""
) -> World:
    """Found a vault of its own, register it and log its first device in."""
    founded = Founded(random.Random(seed))
    caller = Caller(http, url, founded.vault, founded.first, host=host)
    document = {"registration_token": token, **entry_json(founded.chain[0])}
    said = await caller.call("POST", "/v1/vaults", document=document, session=False)
    assert said.status == 201, (said.status, said.body)
    server_key = bytes.fromhex(said.json["server_key"])
    await caller.login()
    return World(founded, caller, Device(founded, founded.first, server_key))
