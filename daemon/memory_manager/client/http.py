"""HTTP over the daemon's Unix socket or its loopback port, with the standard library only.

One request at a time per connection. Errors of the daemon become RemoteError, silence becomes
DaemonNotRunning or DaemonUnreachable; nothing else leaves this module.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import select
import socket
import urllib.parse
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import cast

from memory_manager.auth.errors import PeerUnknown
from memory_manager.auth.local_peer import peer_uid_pid
from memory_manager.base.private_files import check_private_directory
from memory_manager.client.discovery import DaemonAddress
from memory_manager.client.errors import (
    DaemonNotRunning,
    DaemonUnreachable,
    ErrorAnswer,
    OddAnswer,
    RemoteError,
)

DEFAULT_TIMEOUT_SECONDS = 30.0
MAX_ANSWER_BYTES = 64 * 1024 * 1024
# a refusal may come before the whole body went; a Unix socket says the first, TCP the second
_CLOSED_WHILE_SENDING = (BrokenPipeError, ConnectionResetError)
Json = object


class _UnixConnection(http.client.HTTPConnection):
    """HTTP/1.1 over an AF_UNIX stream socket."""

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            stream.settimeout(self.timeout)
            stream.connect(os.fspath(self._path))
        except BaseException:
            stream.close()
            raise
        self.sock = stream


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """A 2xx answer: its status and its parsed JSON object (``{}`` for an empty body)."""

    status: int
    body: Mapping[str, Json] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class RawAnswer:
    """Any answer, refusals too, as it came; for those who only pass it on."""

    status: int
    body: bytes = dataclasses.field(repr=False)


class DaemonConnection:
    """A connection to one daemon. Use as a context manager; not safe for several threads."""

    def __init__(
        self,
        address: DaemonAddress,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        self._headers = {"Accept": "application/json", **(headers or {})}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._timeout_seconds = timeout_seconds
        self.address = address
        self._connection = _open(address, timeout_seconds)

    def __enter__(self) -> DaemonConnection:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def open(self) -> None:
        """Connect now; otherwise the first request does."""
        with _translated_errors():
            self._connected_socket()

    def close(self) -> None:
        self._connection.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: Json = None,
        headers: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> Answer:
        """Send one request and read the whole answer; ``body`` None sends no body."""
        response = self._send(method, _target(path, query), body, headers, timeout_seconds)
        document = _json_object(self._whole_body(response))
        if not 200 <= response.status < 300:
            raise RemoteError(_error_answer(response.status, document))
        if document is None:
            raise OddAnswer()
        return Answer(response.status, document)

    def exchange(self, path: str, body: bytes, headers: Mapping[str, str]) -> RawAnswer:
        """Post ready JSON bytes; whatever status comes back is an answer here."""
        everything = {**self._headers, **headers, "Content-Type": "application/json"}
        with _translated_errors():
            self._connected_socket()
            with contextlib.suppress(*_CLOSED_WHILE_SENDING):
                self._connection.request("POST", path, body=body, headers=everything)
            response = self._connection.getresponse()
        return RawAnswer(response.status, self._whole_body(response))

    def is_fresh(self) -> bool:
        """Whether nothing came in since the last answer: an idle daemon only says that it ends."""
        stream = cast("socket.socket | None", self._connection.sock)
        return stream is not None and not select.select([stream], [], [], 0)[0]

    def stream_lines(
        self, path: str, *, query: Mapping[str, object] | None = None
    ) -> Iterator[bytes]:
        """Lines of a streamed answer, without their line ends."""
        response = self._send("GET", _target(path, query), None, None, None)
        if not 200 <= response.status < 300:
            document = _json_object(self._whole_body(response))
            raise RemoteError(_error_answer(response.status, document))
        while True:
            with _translated_errors():
                line = response.readline()
            if not line:
                return
            if not line.endswith(b"\n"):
                raise DaemonUnreachable("The memory service stopped in the middle of its answer.")
            yield line.rstrip(b"\r\n")

    def peer_pid(self) -> int | None:
        """The pid that the kernel names for the other end; None where it cannot tell."""
        with _translated_errors():
            stream = self._connected_socket()
        try:
            return peer_uid_pid(stream).pid
        except PeerUnknown:
            return None

    def _whole_body(self, response: http.client.HTTPResponse) -> bytes:
        announced = response.length  # None for a chunked answer
        raw = b""
        with _translated_errors():
            if announced is None:
                raw = response.read(MAX_ANSWER_BYTES + 1)
            elif announced <= MAX_ANSWER_BYTES:
                raw = response.read()  # without a size it notices an answer that is cut short
        if len(raw) > MAX_ANSWER_BYTES or (announced or 0) > MAX_ANSWER_BYTES:
            self.close()
            raise OddAnswer("The answer is larger than this client accepts.")
        return raw

    def _connected_socket(self) -> socket.socket:
        # http.client closes its socket after "Connection: close"; then a new one is opened here.
        # A daemon closes a connection that stays idle, as while its owner looks for the paper.
        if not self.is_fresh():
            self._connection.close()
        if not isinstance(cast("socket.socket | None", self._connection.sock), socket.socket):
            self._connection.connect()
        return cast("socket.socket", self._connection.sock)

    def _send(
        self,
        method: str,
        target: str,
        body: Json,
        headers: Mapping[str, str] | None,
        timeout_seconds: float | None,
    ) -> http.client.HTTPResponse:
        everything = {**self._headers, **(headers or {})}
        payload = None
        if body is not None:
            payload = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
            everything["Content-Type"] = "application/json"
        with _translated_errors():
            self._connected_socket().settimeout(timeout_seconds or self._timeout_seconds)
            with contextlib.suppress(*_CLOSED_WHILE_SENDING):
                self._connection.request(method, target, body=payload, headers=everything)
            return self._connection.getresponse()


def _open(address: DaemonAddress, timeout: float) -> http.client.HTTPConnection:
    if address.socket is not None and hasattr(socket, "AF_UNIX"):
        try:
            check_private_directory(address.socket.parent)
        except FileNotFoundError:
            raise DaemonNotRunning() from None
        return _UnixConnection(address.socket, timeout)
    if address.url is None:
        raise DaemonNotRunning("The memory service offers no address that this client can use.")
    parts = urllib.parse.urlsplit(address.url)
    if parts.scheme != "http" or parts.hostname != "127.0.0.1" or parts.port is None:
        raise OddAnswer("The discovery file names an address that is not on this machine.")
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)


def _target(path: str, query: Mapping[str, object] | None) -> str:
    given = {name: _query_text(value) for name, value in (query or {}).items() if value is not None}
    return f"{path}?{urllib.parse.urlencode(given)}" if given else path


def _query_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _json_object(raw: bytes) -> Mapping[str, Json] | None:
    if not raw.strip():
        return {}
    try:
        loaded: object = json.loads(raw)
    except ValueError:
        return None
    return cast("dict[str, Json]", loaded) if isinstance(loaded, dict) else None


def _error_answer(status: int, document: Mapping[str, Json] | None) -> ErrorAnswer:
    """Read the error body of xmemo.md 4.9; anything missing gets a plain default."""
    body = document or {}
    error = body.get("error")
    details = cast("dict[str, Json]", error) if isinstance(error, dict) else {}
    detail = body.get("detail")
    message = details.get("message") or (detail if isinstance(detail, str) else None)
    return ErrorAnswer(
        status=status,
        code=str(details.get("code") or (error if isinstance(error, str) else f"http_{status}")),
        message=str(message or f"The memory service answered with status {status}."),
        hint=_optional_text(details.get("hint") or body.get("hint")),
        reason=_optional_text(details.get("reason") or body.get("reason")),
        request_id=_optional_text(body.get("request_id")),
    )


def _optional_text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None


@contextlib.contextmanager
def _translated_errors() -> Generator[None]:
    try:
        yield
    except (FileNotFoundError, ConnectionRefusedError):
        raise DaemonNotRunning() from None
    except TimeoutError:
        raise DaemonUnreachable() from None
    except (http.client.HTTPException, OSError) as error:
        raise DaemonUnreachable(
            f"The connection to the memory service broke ({type(error).__name__})."
        ) from None
