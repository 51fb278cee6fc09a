"""``memlocket mcp``: the stdio server that clients start, a relay to the running daemon.

One JSON-RPC message a line; nothing else on standard output. It must start fast and may need no
more than HOME and the user id. Contract: xmemo.md 11.3, desktop.md 12.1.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from io import FileIO
from typing import BinaryIO, Final, cast

from memory_manager.base.errors import MemlocketError
from memory_manager.client.device_login import DeviceLogin
from memory_manager.client.mcp_relay import McpRelay, busy_line, error_line, protocol_error_line

DEFAULT_CLIENT: Final = "generic"
MAX_LINE_BYTES: Final = 4 << 20
MAX_IN_FLIGHT: Final = 64
LAST_ANSWERS_SECONDS: Final = 1.5  # after the client closed our input; it ends within two
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600


@dataclasses.dataclass(frozen=True, slots=True)
class ShimArguments:
    """Whose credential to present, and whether the user lets the shim start the daemon.

    Without a client the shim is DEFAULT_CLIENT, and asks the owner for access if it has none.
    """

    client: str | None = None
    may_start: bool = False


def shim_arguments(words: Sequence[str]) -> ShimArguments | None:
    """What stands after ``mcp``; None for anything that the full command line must explain."""
    client: str | None = None
    may_start, waiting = False, list(words)
    while waiting:
        word = waiting.pop(0)
        name, joined, value = word.partition("=")
        if word == "--start":
            may_start = True
        elif name == "--client" and (joined or waiting):
            client = value if joined else waiting.pop(0)
        else:
            return None
    return ShimArguments(client, may_start)


def run_shim(asked: ShimArguments, environ: Mapping[str, str] = os.environ) -> int:
    """Serve until the client closes our standard input; 0."""
    if sys.stdin is None or sys.stdout is None:
        return 0  # nobody to serve
    start = _starter(environ) if asked.may_start else None
    if asked.client is None:
        login = DeviceLogin(DEFAULT_CLIENT, environ, tell=_tell)
        relay = McpRelay(DEFAULT_CLIENT, environ, start, login)
    else:
        relay = McpRelay(asked.client, environ, start)
    source, sink = sys.stdin.buffer, FileIO(sys.stdout.fileno(), "wb", closefd=False)
    sys.stdout = sys.stderr  # nothing but messages may reach the client
    _Shim(relay, source, sink).serve()
    relay.end()
    return 0


def _tell(line: str) -> None:
    """To the terminal or the client's log; a client that closed it misses it."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(f"memlocket: {line}", file=sys.stderr, flush=True)


def _starter(environ: Mapping[str, str]) -> Callable[[], object]:
    def start() -> object:
        from memory_manager.base.directories import directories
        from memory_manager.cli.service_process import start_daemon

        return start_daemon(environ, directories(environ).log, [])

    return start


class _Shim:
    """Reads lines on this thread and answers each request on one of its own."""

    def __init__(self, relay: McpRelay, source: BinaryIO, sink: FileIO) -> None:
        self._relay = relay
        self._source = source
        self._sink = sink
        self._writing = threading.Lock()
        self._places = threading.BoundedSemaphore(MAX_IN_FLIGHT)
        self._busy: set[threading.Thread] = set()

    def serve(self) -> None:
        while line := self._source.readline(MAX_LINE_BYTES + 1):
            if len(line) > MAX_LINE_BYTES:
                while line and not line.endswith(b"\n"):
                    line = self._source.readline(MAX_LINE_BYTES)
                self._write(protocol_error_line(INVALID_REQUEST, "The message is too long."))
            elif line.strip():
                self._take(line.strip())
        deadline = time.monotonic() + LAST_ANSWERS_SECONDS
        for thread in list(self._busy):
            thread.join(max(0.0, deadline - time.monotonic()))

    def _take(self, line: bytes) -> None:
        try:
            loaded: object = json.loads(line)
        except (ValueError, RecursionError):
            self._write(protocol_error_line(PARSE_ERROR, "The line is not valid JSON."))
            return
        if not isinstance(loaded, dict):
            self._write(protocol_error_line(INVALID_REQUEST, "One message a line is expected."))
            return
        message = cast("dict[str, object]", loaded)
        if "id" not in message or "method" not in message:
            return  # a notification, or an answer to nothing we asked: the daemon keeps no session
        if not self._places.acquire(blocking=False):
            self._write(busy_line(message["id"]))
            return
        # no thread of ours may keep the process alive when its client is gone
        thread = threading.Thread(target=self._answer, args=(message, line), daemon=True)
        self._busy.add(thread)
        thread.start()

    def _answer(self, message: dict[str, object], line: bytes) -> None:
        try:
            self._write(self._relay.answer(message, line))
        except Exception:  # a bug must not leave the client waiting
            self._write(error_line(message["id"], MemlocketError()))
        finally:
            self._places.release()
            self._busy.discard(threading.current_thread())

    def _write(self, line: bytes) -> None:
        # no buffer: what a client that is gone did not take must not turn up again at exit
        left = memoryview(line + b"\n")
        with self._writing, contextlib.suppress(OSError):
            while left:
                left = left[self._sink.write(left) or 0 :]
