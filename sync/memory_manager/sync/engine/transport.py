"""One bounded HTTP exchange with the server: no redirects, no compression, no surprises in size.

Contract: sync.md 9. Whatever is not an answer of this protocol is ``SyncUnreachable`` and changes
nothing: captive portals, proxies that cut bodies, servers that never end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import ssl
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final, NoReturn

import aiohttp

from memory_manager.sync.engine.connection import base_url
from memory_manager.sync.engine.errors import CaFileRefused, SyncServerRefused, SyncUnreachable
from memory_manager.sync.wire.framing import MAX_PULL_BYTES

MAX_ANSWER_BYTES: Final = 1 << 20
MAX_PAGE_BYTES: Final = MAX_PULL_BYTES
MAX_RETRY_AFTER_SECONDS: Final = 3600.0
OCTETS: Final = "application/octet-stream"
JSON: Final = "application/json"

_CONNECTIONS: Final = 4
_READ_BYTES: Final = 1 << 16
_MAX_POKE_BYTES: Final = 1024
_MAX_REASON_CHARACTERS: Final = 40


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Seconds: until connected, between two pieces of an answer, for the whole of one answer."""

    connect_seconds: float = 20.0
    read_seconds: float = 30.0
    total_seconds: float = 180.0


class Transport:
    """One server by its address. Coroutines run on the loop that made it; ``close`` once."""

    def __init__(
        self,
        url: str,
        *,
        ca_file: str | None = None,
        proxy: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        """SyncAddressRefused for an address that is not used, CaFileRefused."""
        self._base = base_url(url)
        self._proxy = proxy
        self._limits = limits or Limits()
        self._tls: ssl.SSLContext | bool = True
        if self._base.startswith("https://"):
            self._tls = _certificates(ca_file)
            self._tls.minimum_version = ssl.TLSVersion.TLSv1_2
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self.requests = 0  # sent so far; what idling costs is measured by it

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        document: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        expects: str = JSON,
        limit: int = MAX_ANSWER_BYTES,
        seconds: float | None = None,
    ) -> bytes:
        """The body of a 2xx answer of the expected type; SyncUnreachable or SyncServerRefused."""
        sent = {"Accept": expects, **(headers or {})}
        if document is not None:
            body, sent["Content-Type"] = json.dumps(document).encode(), JSON
        elif body is not None:
            sent["Content-Type"] = OCTETS
        self.requests += 1
        try:
            async with self._open().request(
                method,
                self._base + path,
                params=query,
                data=body,
                headers=sent,
                allow_redirects=False,
                proxy=self._proxy,
                timeout=self._timeout(seconds),
            ) as answer:
                return await _body(answer, expects, limit)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _why(error) from None

    @contextlib.asynccontextmanager
    async def pokes(
        self, path: str, headers: Mapping[str, str]
    ) -> AsyncGenerator[aiohttp.ClientWebSocketResponse]:
        """An open WebSocket; SyncUnreachable or SyncServerRefused when it cannot be."""
        self.requests += 1
        try:
            async with self._open().ws_connect(
                self._base + path,
                headers=headers,
                max_msg_size=_MAX_POKE_BYTES,
                proxy=self._proxy,
            ) as socket:
                yield socket
        except aiohttp.WSServerHandshakeError as error:
            if error.status in (401, 403):
                raise SyncServerRefused("SESSION_EPOCH", error.status) from None
            raise SyncUnreachable from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _why(error) from None

    async def close(self) -> None:
        """Whatever still waits for an answer, or asks later, gets SyncUnreachable."""
        self._closed = True
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise SyncUnreachable
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=self._tls),
                headers={"Accept-Encoding": "identity", "User-Agent": "memlocket"},
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                timeout=self._timeout(None),
                trace_configs=[_no_redirects()],
            )
        return self._session

    def _timeout(self, seconds: float | None) -> aiohttp.ClientTimeout:
        limits = self._limits
        return aiohttp.ClientTimeout(
            total=seconds or limits.total_seconds,
            sock_connect=limits.connect_seconds,
            sock_read=max(seconds or 0.0, limits.read_seconds),
        )


def _certificates(ca_file: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise CaFileRefused from None
    except OSError as error:
        raise CaFileRefused(f"The certificate file cannot be read: {error.strerror}.") from None


async def _body(answer: aiohttp.ClientResponse, expects: str, limit: int) -> bytes:
    retry_after = _retry_after(answer.headers.get("Retry-After"))
    if 300 <= answer.status < 400:
        raise SyncUnreachable("The server's address redirects elsewhere; that is not followed.")
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise SyncUnreachable("The answer is compressed, which was not asked for.")
    refused = answer.status >= 400
    data = await _read(answer, MAX_ANSWER_BYTES if refused else limit)
    if refused:
        raise _refusal(answer, data, retry_after)
    is_empty = answer.status in (201, 204) and not data
    if not is_empty and answer.content_type != expects:
        raise SyncUnreachable("Something else answers in the server's place, perhaps a portal.")
    return data


async def _read(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    """At most ``limit`` bytes; more are refused before they are taken in."""
    if (answer.content_length or 0) > limit:
        raise SyncUnreachable("The answer is larger than its limit.")
    found = bytearray()
    async for piece in answer.content.iter_chunked(_READ_BYTES):
        found += piece
        if len(found) > limit:
            raise SyncUnreachable("The answer is larger than its limit.")
    return bytes(found)


def _refusal(
    answer: aiohttp.ClientResponse, data: bytes, retry_after: float | None
) -> SyncUnreachable | SyncServerRefused:
    """What an error answer says, if it is one of this protocol."""
    reason: object = None
    details: object = None
    if answer.content_type == JSON:
        with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
            said = json.loads(data)["error"]
            reason, details = said["code"], said.get("details")
    if not isinstance(reason, str) or not _is_code(reason):
        return SyncUnreachable(retry_after_seconds=retry_after)
    return SyncServerRefused(
        reason,
        answer.status,
        details if isinstance(details, dict) else None,
        retry_after_seconds=retry_after,
    )


def _is_code(reason: str) -> bool:
    """Codes are shown to people: nothing else of the server's is."""
    letters = reason.replace("_", "")
    return len(reason) <= _MAX_REASON_CHARACTERS and letters.isascii() and letters.isalnum()


def _retry_after(value: str | None) -> float | None:
    """Seconds, at most an hour; None for a date or nonsense."""
    if value is None or not value.strip().isascii() or not value.strip().isdigit():
        return None
    digits = value.strip()
    if len(digits) > len(str(int(MAX_RETRY_AFTER_SECONDS))):
        return MAX_RETRY_AFTER_SECONDS
    return min(float(digits), MAX_RETRY_AFTER_SECONDS)


def _why(error: BaseException) -> SyncUnreachable:
    """What went wrong, with the step that would help the owner while setting up."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return SyncUnreachable(
            "The server's certificate is not accepted.",
            hint="A certificate of your own: give its file with --ca-file.",
        )
    if isinstance(error, aiohttp.ClientSSLError):
        return SyncUnreachable(
            "The server does not speak TLS at this address.",
            hint="Check scheme and port; a server without TLS is used on this machine only.",
        )
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError) or (
        isinstance(error, aiohttp.ClientResponseError)
    ):
        return SyncUnreachable(
            "The server broke off; perhaps it speaks TLS where http:// was given, or is another.",
            hint="Check scheme and port.",
        )
    if isinstance(error, OSError) and not isinstance(error, TimeoutError):
        return SyncUnreachable("The sync server cannot be reached.")
    return SyncUnreachable()


def _no_redirects() -> aiohttp.TraceConfig:
    """A WebSocket handshake would follow them."""

    async def refuse(*_: object) -> NoReturn:
        raise SyncUnreachable("The server's address redirects elsewhere; that is not followed.")

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(refuse)
    return trace
