"""A TCP proxy that forwards HTTP/1.1 requests and can drop the answer: the lost-reply fault.

It rewrites ``Host`` to the upstream's address, since the daemon refuses foreign ones.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
from types import TracebackType
from urllib.parse import urlsplit


class LosingProxy:
    """``lose_next(n)``: the next n matching requests arrive, their answers get lost.

    ``answers_lost`` counts the answers that the daemon gave in full and the client never saw.
    """

    def __init__(self, upstream_url: str) -> None:
        target = urlsplit(upstream_url)
        assert target.hostname is not None
        assert target.port is not None
        self._upstream = (target.hostname, target.port)
        self._lock = threading.Lock()
        self._to_lose = 0
        self._method = "POST"
        self._first_of: set[str] = set()
        self.answers_lost = 0
        proxy = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(ConnectionError):
                    proxy._serve(self.request)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host}:{port}"

    def lose_next(self, count: int = 1, method: str = "POST") -> None:
        with self._lock:
            self._to_lose, self._method = count, method

    def lose_first_of(self, *paths: str) -> None:
        """Lose the first answer of each path; what the client sends again gets through."""
        with self._lock:
            self._first_of = set(paths)

    def __enter__(self) -> LosingProxy:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _serve(self, client: socket.socket) -> None:
        stream = client.makefile("rb")
        while (request := _read_message(stream)) is not None:
            head, body = request
            lines = head.split(b"\r\n")
            authority = f"{self._upstream[0]}:{self._upstream[1]}".encode()
            kept = [x for x in lines if not x.lower().startswith((b"host:", b"connection:"))]
            kept[1:1] = [b"Host: " + authority, b"Connection: close"]
            with socket.create_connection(self._upstream, timeout=30) as upstream:
                upstream.sendall(b"\r\n".join(kept) + b"\r\n\r\n" + body)
                answer = upstream.makefile("rb").read()
            if self._loses(lines[0]):
                with self._lock:
                    self.answers_lost += bool(answer)
                client.shutdown(socket.SHUT_RDWR)
                return
            client.sendall(answer)
            client.shutdown(socket.SHUT_RDWR)
            return

    def _loses(self, request_line: bytes) -> bool:
        path = request_line.split(b" ")[1].decode()
        with self._lock:
            if path in self._first_of:
                self._first_of.remove(path)
                return True
            if self._to_lose < 1 or not request_line.startswith(self._method.encode()):
                return False
            self._to_lose -= 1
            return True


def _read_message(stream: object) -> tuple[bytes, bytes] | None:
    lines: list[bytes] = []
    while True:
        line = stream.readline()  # type: ignore[attr-defined]
        if not line:
            return None
        if line == b"\r\n":
            break
        lines.append(line.rstrip(b"\r\n"))
    length = 0
    for line in lines:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return b"\r\n".join(lines), stream.read(length)  # type: ignore[attr-defined]
