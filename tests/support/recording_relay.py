"""A TCP relay in front of a sync server that keeps every octet of both directions.

``calls`` reads what was kept as HTTP/1.1, with the payloads of WebSocket frames taken out of their
masks: a scan of the octets alone would not see through those.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
import socket
import threading
from types import TracebackType
from urllib.parse import urlsplit

_HEAD_END = b"\r\n\r\n"
_BLOCK = 65_536


@dataclasses.dataclass
class Line:
    """One connection: what the client sent and what it got."""

    sent: bytearray = dataclasses.field(default_factory=bytearray)
    answered: bytearray = dataclasses.field(default_factory=bytearray)


@dataclasses.dataclass(frozen=True)
class Message:
    """A request or an answer; of a socket the body holds the payloads of all frames."""

    head: bytes
    body: bytes

    @property
    def first_line(self) -> list[str]:
        return self.head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")

    def header(self, name: str) -> str:
        found = re.search(rb"(?im)^" + name.encode() + rb":[ \t]*([^\r\n]*)", self.head)
        return found[1].decode("latin-1") if found else ""


@dataclasses.dataclass(frozen=True)
class RecordedCall:
    """A request with its answer; ``answer`` is None where the connection ended first."""

    request: Message
    answer: Message | None

    @property
    def name(self) -> str:
        """Method and path, such as ``POST /v1/log/push``."""
        method, target, *_ = self.request.first_line
        return f"{method} {urlsplit(target).path}"

    @property
    def status(self) -> int:
        return int(self.answer.first_line[1]) if self.answer else 0

    def octets(self) -> bytes:
        parts = [self.request.head, self.request.body]
        if self.answer is not None:
            parts += [self.answer.head, self.answer.body]
        return b"\n".join(parts)


class RecordingRelay:
    """``upstream`` is the server's URL, set once it runs; ``with`` opens and closes the port."""

    def __init__(self) -> None:
        self.upstream = ""
        self.lines: list[Line] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def __enter__(self) -> RecordingRelay:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in [self._listener, *self._open]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def octets(self) -> bytes:
        """Everything that passed, as it passed."""
        return b"\n".join(bytes(each) for line in self.lines for each in (line.sent, line.answered))

    def calls(self) -> list[RecordedCall]:
        found: list[RecordedCall] = []
        for line in list(self.lines):
            answers = _messages(bytes(line.answered), set())
            switched = {at for at, each in enumerate(answers) if each.first_line[1] == "101"}
            requests = _messages(bytes(line.sent), switched)
            found += itertools.starmap(
                RecordedCall, itertools.zip_longest(requests, answers[: len(requests)])
            )
        return found

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            target = urlsplit(self.upstream)
            try:
                server = socket.create_connection((target.hostname or "", target.port or 0))
            except OSError:
                client.close()
                continue
            line = Line()
            self.lines.append(line)
            self._open += [client, server]
            for source, sink, kept in (
                (client, server, line.sent),
                (server, client, line.answered),
            ):
                threading.Thread(target=_pump, args=(source, sink, kept), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
    with contextlib.suppress(OSError):
        while block := source.recv(_BLOCK):
            kept += block
            sink.sendall(block)
    for each in (source, sink):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


def _messages(data: bytes, switched: set[int]) -> list[Message]:
    """The messages of one direction; ``switched`` are those after which frames follow."""
    found: list[Message] = []
    at = 0
    while (end := data.find(_HEAD_END, at)) >= 0:
        message = Message(data[at : end + len(_HEAD_END)], b"")
        start = end + len(_HEAD_END)
        if message.first_line[1] == "101" or len(found) in switched:
            return [*found, dataclasses.replace(message, body=frames(data[start:]))]
        if "chunked" in message.header("Transfer-Encoding").lower():
            body, at = _chunks(data, start)
        else:
            at = start + int(message.header("Content-Length") or 0)
            body = data[start:at]
        found.append(dataclasses.replace(message, body=body))
    return found


def _chunks(data: bytes, at: int) -> tuple[bytes, int]:
    body = b""
    while (end := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:end].split(b";")[0], 16)
        body += data[end + 2 : end + 2 + size]
        at = end + 2 + size + 2
        if not size:
            break
    return body, at


def frames(data: bytes) -> bytes:
    """The payloads of WebSocket frames one after the other, unmasked."""
    out, at = b"", 0
    while at + 2 <= len(data):
        short = data[at + 1] & 0x7F
        extended = {126: 2, 127: 8}.get(short, 0)
        size = int.from_bytes(data[at + 2 : at + 2 + extended], "big") if extended else short
        at += 2 + extended
        mask = b""
        if data[at - extended - 1] & 0x80:
            mask, at = data[at : at + 4], at + 4
        payload = data[at : at + size]
        if mask:
            payload = bytes(b ^ m for b, m in zip(payload, itertools.cycle(mask), strict=False))
        out, at = out + payload + b"\n", at + size
    return out
