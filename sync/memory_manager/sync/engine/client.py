"""The calls of the protocol (sync.md 9.1) in values of ``wire``; login with its session epoch.

Nothing that comes back is trusted here: it is parsed, and verified elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Final

import aiohttp

from memory_manager.sync.engine import answers
from memory_manager.sync.engine.answers import Created, OpenSession, Pushed, RosterTail, StoredWrap
from memory_manager.sync.engine.connection import ServerConnection, host_of
from memory_manager.sync.engine.device_secrets import DeviceSecrets
from memory_manager.sync.engine.errors import SyncServerRefused, SyncUnreachable
from memory_manager.sync.engine.transport import (
    MAX_PAGE_BYTES,
    OCTETS,
    Limits,
    Transport,
)
from memory_manager.sync.errors import MalformedMessage, ServerKeyChanged, SyncCode, SyncRefused
from memory_manager.sync.wire.framing import (
    Page,
    Push,
    pack_push,
    unpack_page,
)
from memory_manager.sync.wire.labels import server_words
from memory_manager.sync.wire.log import LOGIN_ACTION_DELETE, LOGIN_ACTION_SESSION, login_bytes
from memory_manager.sync.wire.roster import SignedEntry
from memory_manager.sync.wire.roster_json import entry_json

PAGE_ROWS: Final = 200  # the server gives up to 500; a page holds up the vault's other writes
WRAP_ROWS: Final = 1000
EVICTIONS: Final = 3
EVICTION_SECONDS: Final = 600.0
LONG_POLL_SECONDS: Final = 55

_SILENCE_SECONDS: Final = 100.0


class SyncClient:
    """One device at one server. Without a login only the calls that need none work.

    Every call raises SyncUnreachable where nothing usable came back and SyncServerRefused with the
    server's code where it said no; SyncRefused(SERVER_KEY) when another server key shows up,
    SyncRefused(CLONED) after three evictions in ten minutes.
    """

    def __init__(
        self,
        url: str,
        *,
        server_key: bytes | None = None,
        ca_file: str | None = None,
        proxy: str | None = None,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._http = Transport(url, ca_file=ca_file, proxy=proxy, limits=limits)
        self._host = host_of(url)
        self._pin = server_key
        self._clock = clock
        self._vault: bytes | None = None
        self._secrets: DeviceSecrets | None = None
        self._session: OpenSession | None = None
        self._login = asyncio.Lock()
        self._evicted: deque[float] = deque(maxlen=EVICTIONS)
        self._was_told_more = False

    @property
    def requests(self) -> int:
        """How many were sent."""
        return self._http.requests

    def was_told_more(self) -> bool:
        """Whether an answer since the last call of this held what nobody asked (sync.md 6.5)."""
        told, self._was_told_more = self._was_told_more, False
        return told

    def identify(self, vault: bytes, secrets: DeviceSecrets, server_key: bytes) -> None:
        """Who logs in from now on, and which server key is the right one."""
        self._vault, self._secrets, self._pin = vault, secrets, server_key
        self._session = None

    async def close(self) -> None:
        self._session = None
        await self._http.close()

    # --- without a session --------------------------------------------------------------------

    async def create_vault(self, registration_token: str, genesis: SignedEntry) -> Created:
        """Register a vault by its genesis."""
        document = {"registration_token": registration_token, **entry_json(genesis)}
        return answers.created(await self._ask("POST", "/v1/vaults", document=document))

    async def server_key(self) -> bytes:
        """The key the server shows now, before one is pinned."""
        return (await self._challenge(bytes(16), bytes(16)))[1]

    async def put_mailbox(self, mailbox: bytes, side: str, octets: bytes) -> None:
        path = f"/v1/mailbox/{mailbox.hex()}"
        await self._http.request("POST", path, query={"side": side}, body=octets)

    async def take_mailbox(self, mailbox: bytes, side: str) -> bytes | None:
        """What the other side left, once; None while nothing is there."""
        path = f"/v1/mailbox/{mailbox.hex()}"
        try:
            return await self._http.request("GET", path, query={"side": side}, expects=OCTETS)
        except SyncServerRefused as error:
            if error.status == 404:
                return None
            raise

    # --- with a session -----------------------------------------------------------------------

    async def pull(self, after: int, limit: int = PAGE_ROWS) -> Page:
        """The rows after position ``after``; not verified."""
        query = {"after": str(after), "limit": str(limit)}
        data = await self._call(
            "GET", "/v1/log/pull", query=query, expects=OCTETS, limit=MAX_PAGE_BYTES
        )
        try:
            return await asyncio.to_thread(unpack_page, data)
        except MalformedMessage:
            raise SyncUnreachable from None

    async def push(self, push: Push) -> Pushed:
        """One batch; its session epoch is filled in here."""
        await self._logged_in()

        def body() -> bytes:
            return pack_push(dataclasses.replace(push, session_epoch=self._epoch()))

        return answers.pushed(await self._call("POST", "/v1/log/push", body=body))

    async def roster(self, after: int = -1) -> RosterTail:
        """The entries after position ``after`` of the chain; not verified."""
        query = {"after": str(after)}
        return answers.roster_tail(await self._call("GET", "/v1/roster", query=query))

    async def post_roster(self, entry: SignedEntry) -> None:
        """Append one entry; SyncServerRefused ROSTER_HEAD when another one was faster."""
        await self._call("POST", "/v1/roster", document=entry_json(entry))

    async def push_wraps(self, wraps: Sequence[tuple[bytes, bytes]]) -> int:
        """Pairs of BODY hash and WRAP; how many the server stored."""
        listed = [{"body_hash": key.hex(), "wrap": wrap.hex()} for key, wrap in wraps]
        document = {"wraps": listed}
        return answers.stored(await self._call("POST", "/v1/wrap/push", document=document))

    async def pull_wraps(self, after: int, limit: int = WRAP_ROWS) -> tuple[list[StoredWrap], int]:
        """Wraps after a cursor, and the next cursor."""
        query = {"after": str(after), "limit": str(limit)}
        return answers.wraps(await self._call("GET", "/v1/wrap/pull", query=query))

    async def wait_for_news(self, after: int) -> int:
        """A hint that the log went beyond ``after``, or the old number after 55 s."""
        query = {"after": str(after), "wait": str(LONG_POLL_SECONDS)}
        seconds = LONG_POLL_SECONDS + 15.0
        return answers.length(await self._call("GET", "/v1/notify", query=query, seconds=seconds))

    @contextlib.asynccontextmanager
    async def pokes(self) -> AsyncGenerator[AsyncGenerator[int]]:
        """An open WebSocket as an iterator of hints; ends when the server closes it."""
        await self._logged_in()
        used = self._session
        try:
            async with self._http.pokes("/v1/notify", self._headers()) as socket:
                yield _hints(socket)
        except SyncServerRefused as error:
            # the reason shows at the next ordinary call, which logs in anew
            if used is self._session and error.status == 401:
                raise SyncUnreachable from None
            raise

    async def delete_vault(self) -> None:
        """Remove every row of the vault from the server; signed on its own nonce."""
        nonce, _ = await self._challenge(*self._who())
        signature = self._sign(nonce, LOGIN_ACTION_DELETE)
        document = {"nonce": nonce.hex(), "signature": signature.hex()}
        await self._call("DELETE", "/v1/vaults/self", document=document)

    async def call(self, method: str, path: str, **request: Any) -> bytes:
        """Any other call with a session, for parts that have routes of their own."""
        return await self._call(method, path, **request)

    # --- inside -------------------------------------------------------------------------------

    async def _call(
        self,
        method: str,
        path: str,
        *,
        body: bytes | Callable[[], bytes] | None = None,
        **request: Any,
    ) -> bytes:
        """With token and epoch; after a 401 once more with a new login."""
        for attempt in (1, 2):
            await self._logged_in()
            used = self._session
            sent = body() if callable(body) else body
            try:
                return await self._ask(method, path, body=sent, headers=self._headers(), **request)
            except SyncServerRefused as error:
                if error.status != 401:
                    raise
                if self._session is used:
                    self._session = None
                    self._count_eviction(error)
                if attempt == 2:
                    raise
        raise AssertionError("two attempts end before this")

    async def _ask(self, method: str, path: str, **request: Any) -> bytes:
        data = await self._http.request(method, path, **request)
        self._was_told_more = self._was_told_more or answers.says_more(path, data)
        return data

    def _count_eviction(self, error: SyncServerRefused) -> None:
        if error.details.get("reason") != "superseded":
            return  # merely expired
        now = self._clock()
        self._evicted.append(now)
        if len(self._evicted) == EVICTIONS and now - self._evicted[0] <= EVICTION_SECONDS:
            self._evicted.clear()
            raise SyncRefused(SyncCode.CLONED, device=self._who()[1])

    async def _logged_in(self) -> None:
        async with self._login:
            if self._session is None:
                self._session = await self._new_session()

    async def _new_session(self) -> OpenSession:
        vault, device = self._who()
        nonce, key = await self._challenge(vault, device)
        if key != self._pin:
            if self._pin is None:
                raise RuntimeError("a login needs an identity")
            raise ServerKeyChanged(server_words(self._pin), server_words(key))
        document = {
            "vault": vault.hex(),
            "device": device.hex(),
            "nonce": nonce.hex(),
            "signature": self._sign(nonce, LOGIN_ACTION_SESSION).hex(),
        }
        return answers.session(await self._ask("POST", "/v1/auth/session", document=document))

    async def _challenge(self, vault: bytes, device: bytes) -> tuple[bytes, bytes]:
        document = {"vault": vault.hex(), "device": device.hex()}
        return answers.challenge(await self._ask("POST", "/v1/auth/challenge", document=document))

    def _sign(self, nonce: bytes, action: int) -> bytes:
        if self._secrets is None or self._pin is None:
            raise RuntimeError("a login needs an identity")
        message = login_bytes(self._pin, self._host, *self._who(), action, nonce)
        return self._secrets.signing_key().sign(message).signature

    def _who(self) -> tuple[bytes, bytes]:
        if self._vault is None or self._secrets is None:
            raise RuntimeError("a login needs an identity")
        return self._vault, self._secrets.device

    def _epoch(self) -> int:
        return 0 if self._session is None else self._session.epoch

    def _headers(self) -> dict[str, str]:
        if self._session is None:
            return {}
        return {
            "Authorization": f"Bearer {self._session.token}",
            "X-Session-Epoch": str(self._session.epoch),
        }


def client_for(
    connection: ServerConnection,
    vault: bytes,
    secrets: DeviceSecrets,
    *,
    limits: Limits | None = None,
) -> SyncClient:
    """A client of a vault that has its server. Reads the CA file: not on the event loop."""
    client = SyncClient(
        connection.url,
        server_key=connection.server_key,
        ca_file=connection.ca_file,
        proxy=connection.proxy,
        limits=limits,
    )
    client.identify(vault, secrets, connection.server_key)
    return client


async def _hints(socket: aiohttp.ClientWebSocketResponse) -> AsyncGenerator[int]:
    while True:
        # the server pings every 30 s; who is silent for longer is not there
        message = await socket.receive(timeout=_SILENCE_SECONDS)
        if message.type is not aiohttp.WSMsgType.TEXT:
            return
        yield answers.length(message.data.encode())
