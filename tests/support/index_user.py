"""A device and a hosted agent of a real server, on plain HTTP; deliberately not the product's."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
from index_world import IndexWorld
from sync_world import Keys

from memory_manager.sync.server.index.mount import index_mount
from memory_manager.sync.server.index.storage import Matrix
from memory_manager.sync.server.index.vectors import Embedder, EmbedderFailed
from memory_manager.sync.server.running import RunningServer, running_server
from memory_manager.sync.server.settings import ServerSettings, parse_address
from memory_manager.sync.wire.log import LOGIN_ACTION_SESSION, login_bytes
from memory_manager.sync.wire.roster_json import entry_json


@dataclasses.dataclass(frozen=True)
class Reply:
    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else {}

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])

    @property
    def reason(self) -> str:
        return str(self.json["error"]["details"].get("reason"))


class IndexUser:
    """``call`` sends with the session of ``keys``; ``agent`` with a hosted agent's token."""

    def __init__(self, http: aiohttp.ClientSession, server: RunningServer) -> None:
        self._http = http
        self.server = server
        self._headers: dict[str, str] = {}
        self.world: IndexWorld | None = None

    async def register(self, world: IndexWorld) -> None:
        entry = world.vault.chain[0]
        body = {
            "registration_token": "",
            **entry_json(entry),
        }
        reply = await self.send("POST", "/v1/vaults", body)
        assert reply.status == 201, reply.body

    async def login(self, world: IndexWorld, keys: Keys | None = None) -> None:
        keys = keys or world.device
        who = {"vault": world.vault.vault.hex(), "device": keys.id.hex()}
        challenge = (await self.send("POST", "/v1/auth/challenge", who)).json
        nonce = bytes.fromhex(challenge["nonce"])
        message = login_bytes(
            bytes.fromhex(challenge["server_key"]),
            self.server.host.public_host,
            world.vault.vault,
            keys.id,
            LOGIN_ACTION_SESSION,
            nonce,
        )
        signature = keys.signing.sign(message).signature
        body = {**who, "nonce": nonce.hex(), "signature": signature.hex()}
        reply = await self.send("POST", "/v1/auth/session", body)
        assert reply.status == 200, reply.body
        said = reply.json
        self._headers = {
            "Authorization": f"Bearer {said['token']}",
            "X-Session-Epoch": str(said["epoch"]),
        }

    async def post_roster(self, world: IndexWorld) -> None:
        """The newest entry of the simulated roster."""
        entry = world.vault.chain[-1]
        reply = await self.call("POST", "/v1/roster", entry_json(entry))
        assert reply.status == 201, reply.body

    async def call(self, method: str, path: str, body: Any = None, **query: str) -> Reply:
        return await self.send(method, path, body, self._headers, query)

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
    ) -> Reply:
        data = None if body is None else json.dumps(body).encode()
        sent = {**(headers or {}), **({"Content-Type": "application/json"} if data else {})}
        async with self._http.request(
            method, self.server.url + path, data=data, headers=sent, params=query
        ) as response:
            return Reply(response.status, await response.read(), dict(response.headers))

    async def token(self, name: str = "hosted", **extra: Any) -> str:
        reply = await self.call("POST", "/v1/index/tokens", {"name": name, **extra})
        assert reply.status == 201, reply.body
        return str(reply.json["token"])

    async def search(self, token: str, query: str, **params: str) -> list[dict[str, Any]]:
        headers = {"Authorization": f"Bearer {token}"}
        path = "/v1/memories/search"
        reply = await self.send("GET", path, None, headers, {"query": query, **params})
        assert reply.status == 200, reply.body
        return list(reply.json["results"])

    async def found(self, query: str) -> list[str]:
        """Record ids that a device gets for a query."""
        reply = await self.call("GET", "/v1/index/search", None, q=query)
        assert reply.status == 200, reply.body
        return [hit["record"] for hit in reply.json["results"]]


class Topics:
    """Meaning for tests: a text's vector is that of the topics it names."""

    topics = (("car", "automobile"), ("lunch", "meal"), ("database", "postgres"))

    def __init__(self) -> None:
        self.model: str | None = "topics/1"
        self.down = False

    def _vector(self, text: str) -> Matrix:
        words = set(text.lower().split())
        found = np.array([float(bool(words & set(topic))) for topic in self.topics], np.float32)
        length = float(np.linalg.norm(found))
        return found / length if length else found

    async def query(self, text: str) -> Matrix:
        if self.down:
            raise EmbedderFailed
        return self._vector(text)

    async def documents(self, texts: Sequence[str]) -> list[Matrix | None]:
        if self.down:
            raise EmbedderFailed
        return [self._vector(text)[np.newaxis] for text in texts]


@contextlib.asynccontextmanager
async def index_server(
    data: Path, embedder: Embedder | None = None, **settings: Any
) -> AsyncGenerator[IndexUser]:
    """A server with the index in this process, and a client of it."""
    chosen = ServerSettings(
        data=data, listen=parse_address("127.0.0.1:0"), open_registration=True, **settings
    )
    async with (
        running_server(chosen, mounts=(index_mount(embedder),)) as server,
        aiohttp.ClientSession() as http,
    ):
        yield IndexUser(http, server)
