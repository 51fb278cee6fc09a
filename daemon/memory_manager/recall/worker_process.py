"""One embedding worker process as the daemon sees it: spawn, frames in and out, kill.

Contract: recall.md 2. Three short-lived threads move bytes, so that it works with every event loop;
what they learn is handed to the loop. Never waited for: a kill is enough at any time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Protocol, cast

from memory_manager.recall.frames import Decoder, Frame, FrameError, encode
from memory_manager.recall.process_environment import child_environment

DEFAULT_COMMAND = (
    (sys.executable, "--embed-worker")
    if getattr(sys, "frozen", False)
    else (sys.executable, "-P", "-m", "memory_manager.recall.worker")
)
KILL_AFTER_SECONDS = 0.5
_READ_BYTES = 1 << 16
_MAX_LINE_BYTES = 1000
_ALLOWED_LINE = re.compile(rb"memlocket-worker event=[a-z_]{1,40}( [a-z_]{1,20}=[a-z0-9_.]{1,40})*")
_log = logging.getLogger(__name__)


class WorkerListener(Protocol):
    """Called on the event loop, in order; ``worker_exited`` exactly once and last."""

    def frame_received(self, worker: WorkerProcess, frame: Frame) -> None: ...

    def worker_exited(self, worker: WorkerProcess, returncode: int) -> None: ...


class WorkerProcess:
    """Starts at construction, in the loop's thread: the kernel ties the worker's life to it."""

    def __init__(self, command: Sequence[str], folder: Path, listener: WorkerListener) -> None:
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        arguments = [*command, "--parent", str(os.getpid()), str(folder)]
        # pipes only (close_fds is the default), a session of its own, no shell, no secret in sight
        self._process = subprocess.Popen(  # noqa: S603
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=child_environment(os.environ),
            cwd=folder.anchor,
            start_new_session=True,
        )
        for target in (self._read_frames, self._write_frames, self._read_stderr):
            threading.Thread(target=target, name="embed-worker-pipe", daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, frame: Frame) -> None:
        """Queue a frame; FrameError when it is too large. Silently lost if the worker is gone."""
        self._outgoing.put(encode(frame))

    def kill(self) -> None:
        """Terminate now, kill after KILL_AFTER_SECONDS, and return at once."""
        with contextlib.suppress(OSError):
            self._process.terminate()
        self._outgoing.put(None)
        self._loop.call_later(KILL_AFTER_SECONDS, self._kill_hard)

    def _kill_hard(self) -> None:
        with contextlib.suppress(OSError):
            self._process.kill()  # does nothing once it has been waited for

    def _write_frames(self) -> None:
        stream = cast("IO[bytes]", self._process.stdin)
        with contextlib.suppress(OSError), stream:
            while (data := self._outgoing.get()) is not None:
                view = memoryview(data)
                while view:
                    view = view[stream.write(view) :]

    def _read_frames(self) -> None:
        stream = cast("IO[bytes]", self._process.stdout)
        decoder = Decoder()
        try:
            while data := os.read(stream.fileno(), _READ_BYTES):
                for frame in decoder.feed(data):
                    self._call(self._listener.frame_received, self, frame)
        except (FrameError, OSError):
            _log.error("embed_worker_protocol_error")
            self._kill_hard()
        returncode = self._process.wait()
        self._outgoing.put(None)
        stream.close()
        self._call(self._listener.worker_exited, self, returncode)

    def _call(self, function: object, *arguments: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is interested
            self._loop.call_soon_threadsafe(function, *arguments)  # type: ignore[arg-type]

    def _read_stderr(self) -> None:
        """Only lines of our own form reach the log: anything else may quote text."""
        dropped = 0
        with cast("IO[bytes]", self._process.stderr) as stream:
            while line := stream.readline(_MAX_LINE_BYTES):
                if _ALLOWED_LINE.fullmatch(line.rstrip(b"\n")):
                    _log.info("embed_worker", extra={"what": line.decode("ascii").rstrip()})
                else:
                    dropped += len(line)
        if dropped:
            _log.info("embed_worker_stderr_dropped", extra={"size_bytes": dropped})
