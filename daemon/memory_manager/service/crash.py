"""What is remembered about a crash, and the safe mode that follows several of them.

Contract: desktop.md 9. Only the exception class, a time and our version are kept, never a text.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import faulthandler
import json
import logging
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from memory_manager.base.private_files import UnsafeFile, read_private, write_private
from memory_manager.base.times import now_ms
from memory_manager.security.event_log import level_of, log_event

MARKER_NAME = "last_crash.json"
FAULT_NAME = "fault.log"
SAFE_MODE_CRASHES = 3
SAFE_MODE_WINDOW_MS = 300_000
SAFE_MODE_QUIET_MS = 600_000
LOOP_EXCEPTION_SECONDS = 10.0

_MAX_BYTES = 65_536
_KEPT_TIMES = 10
_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class CrashHistory:
    """``times_ms`` of the recent crashes, oldest first; ``unread`` until the owner was told."""

    times_ms: tuple[int, ...] = ()
    error: str | None = None
    version: str | None = None
    unread: bool = False

    def wants_safe_mode(self, now: int) -> bool:
        """Three crashes within five minutes, the last one less than ten minutes ago."""
        recent = self.times_ms[-SAFE_MODE_CRASHES:]
        return (
            len(recent) == SAFE_MODE_CRASHES
            and recent[-1] - recent[0] <= SAFE_MODE_WINDOW_MS
            and now - recent[-1] <= SAFE_MODE_QUIET_MS
        )


NO_CRASHES = CrashHistory()


def read_history(directory: Path) -> CrashHistory:
    """The marker in the log directory; an unreadable one counts as no crash."""
    try:
        loaded = json.loads(read_private(directory / MARKER_NAME, _MAX_BYTES))
        times = tuple(int(value) for value in loaded["times_ms"])
        return CrashHistory(
            times, loaded.get("error"), loaded.get("version"), bool(loaded.get("unread"))
        )
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
        UnsafeFile,
    ):
        return NO_CRASHES


def record_crash(directory: Path, error: str, version: str) -> None:
    """Add one crash; never raises, since it runs while the process is dying."""
    times = (*read_history(directory).times_ms, now_ms())[-_KEPT_TIMES:]
    _write_history(directory, CrashHistory(times, error, version, unread=True))


def mark_read(directory: Path) -> None:
    """The owner was told of the crashes so far; never raises."""
    _write_history(directory, dataclasses.replace(read_history(directory), unread=False))


def _write_history(directory: Path, history: CrashHistory) -> None:
    with contextlib.suppress(OSError, UnsafeFile):
        content = json.dumps(dataclasses.asdict(history)).encode()
        write_private(directory / MARKER_NAME, content)


def watch_fatal_signals(directory: Path, version: str) -> None:
    """Send tracebacks of fatal signals to ``fault.log``; what a former process left is recorded."""
    path = directory / FAULT_NAME
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags, 0o600)
    if os.fstat(descriptor).st_size > 0:
        record_crash(directory, "FatalSignal", version)
        os.ftruncate(descriptor, 0)
    faulthandler.enable(file=descriptor, all_threads=True)


def install_exception_hooks(directory: Path, version: str) -> None:
    """Uncaught exceptions of any thread: class and place to the log, a crash marker, no text."""

    def uncaught(
        kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if issubclass(kind, KeyboardInterrupt):
            return
        log_event(_log, "uncaught_exception", level=logging.ERROR, error=error)
        record_crash(directory, kind.__name__, version)
        print(f"memlocket: stopped by {kind.__name__}; the log says where", file=sys.stderr)

    def uncaught_in_thread(arguments: threading.ExceptHookArgs) -> None:
        if arguments.exc_value is not None:
            log_event(
                _log, "uncaught_thread_exception", level=logging.ERROR, error=arguments.exc_value
            )

    sys.excepthook = uncaught
    threading.excepthook = uncaught_in_thread


class LoopExceptions:
    """Exception handler of the event loop: the class stays, the message does not.

    One class is written once per ``LOOP_EXCEPTION_SECONDS`` with the number of those left out:
    without free descriptors the loop reports a thousand failed accepts per second, which would
    rotate everything else out of the log within a minute.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next_at: dict[str, float] = {}
        self._left_out: Counter[str] = Counter()

    def __call__(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, object]) -> None:
        error = context.get("exception")
        known = error if isinstance(error, BaseException) else None
        kind = type(known).__name__
        now = self._clock()
        if now < self._next_at.get(kind, now):
            self._left_out[kind] += 1
            return
        self._next_at[kind] = now + LOOP_EXCEPTION_SECONDS
        level = level_of(known) if known is not None else logging.WARNING
        log_event(
            _log, "loop_exception", level=level, error=known, count=self._left_out.pop(kind, 0)
        )
