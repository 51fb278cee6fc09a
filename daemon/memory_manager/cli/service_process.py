"""Starting the daemon detached and ending it for certain.

The process to signal is the one the kernel names at the other end of the socket, never a number
read from a file. Contract: desktop.md 9.
"""

from __future__ import annotations

import contextlib
import enum
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from memory_manager.base.directories import directories
from memory_manager.base.errors import MemlocketError
from memory_manager.base.private_files import ensure_private_directory
from memory_manager.cli.errors import StartFailed
from memory_manager.client.discovery import DaemonAddress, find_daemon
from memory_manager.client.errors import DaemonNotRunning, DaemonUnreachable
from memory_manager.client.http import DaemonConnection
from memory_manager.client.memory_client import MemoryClient, connect_as_owner

OUTPUT_NAME = "daemon.out"
START_SECONDS = 30.0
POLL_SECONDS = 0.05
PROBE_TIMEOUT_SECONDS = 5.0
REQUEST_GRACE_SECONDS = 10.0
TERM_GRACE_SECONDS = 5.0
KILL_GRACE_SECONDS = 5.0
SHOWN_OUTPUT_CHARACTERS = 2000
ALREADY_RUNNING_EXIT = 3


class Start(enum.Enum):
    STARTED = "started"
    ALREADY_RUNNING = "already_running"


class Stop(enum.Enum):
    NOT_RUNNING = "not_running"
    STOPPED = "stopped"
    TERMINATED = "terminated"
    KILLED = "killed"


def running_daemon(environ: Mapping[str, str]) -> DaemonAddress | None:
    """The daemon that answers now; a left-over discovery file is not one."""
    try:
        address = find_daemon(environ)
        with DaemonConnection(address, timeout_seconds=PROBE_TIMEOUT_SECONDS) as connection:
            MemoryClient(connection).health()
    except DaemonNotRunning:
        return None
    return address


def start_daemon(
    environ: Mapping[str, str], log_directory: Path, options: Sequence[str]
) -> tuple[Start, DaemonAddress]:
    """Start ``memlocket daemon`` in a session of its own and wait until it answers.

    Raises StartFailed with the end of its output when it dies or says nothing for 30 s, and
    UnsafeFile for a data folder that is open to others.
    """
    if (address := running_daemon(environ)) is not None:
        return Start.ALREADY_RUNNING, address
    ensure_private_directory(directories(environ).data)
    ensure_private_directory(log_directory)
    output = log_directory / OUTPUT_NAME
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(output, flags, 0o600)
    try:
        process = subprocess.Popen(  # noqa: S603  our own interpreter and module
            [sys.executable, "-m", "memory_manager.cli.main", "daemon", *options],
            env=dict(environ),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
    try:
        return _wait_for_answer(environ, process, output)
    except KeyboardInterrupt:  # before it told where it is: nobody else could stop it
        process.terminate()
        process.wait(TERM_GRACE_SECONDS)
        raise


def _wait_for_answer(
    environ: Mapping[str, str], process: subprocess.Popen[bytes], output: Path
) -> tuple[Start, DaemonAddress]:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        ended = process.poll()
        with contextlib.suppress(DaemonUnreachable):
            address = running_daemon(environ)
            if address is not None and address.pid == process.pid:
                return Start.STARTED, address
            if address is not None and ended == ALREADY_RUNNING_EXIT:
                return Start.ALREADY_RUNNING, address  # somebody else was faster
        if ended is not None and ended != ALREADY_RUNNING_EXIT:
            raise StartFailed(_last_words(output) or f"It ended with exit code {ended}.")
        time.sleep(POLL_SECONDS)
    raise StartFailed(f"It did not answer within {START_SECONDS:g} s.\n{_last_words(output)}")


def _last_words(output: Path) -> str:
    with contextlib.suppress(OSError):
        return output.read_text(errors="replace").strip()[-SHOWN_OUTPUT_CHARACTERS:]
    return ""


def stop_daemon(environ: Mapping[str, str]) -> Stop:
    """Ask, wait 10 s, SIGTERM, wait 5 s, SIGKILL; returns once the process is gone."""
    try:
        client = connect_as_owner(environ, timeout_seconds=PROBE_TIMEOUT_SECONDS)
        pid = client.connection.peer_pid() or client.connection.address.pid
    except DaemonNotRunning:
        return Stop.NOT_RUNNING
    with _ProcessWatch(pid) as watch:
        asked = time.monotonic()
        # a daemon that cannot answer gets signals
        with client, contextlib.suppress(MemlocketError):
            client.stop()
        if watch.gone_within(REQUEST_GRACE_SECONDS - (time.monotonic() - asked)):
            return Stop.STOPPED
        watch.send(signal.SIGTERM)
        if watch.gone_within(TERM_GRACE_SECONDS):
            return Stop.TERMINATED
        watch.send(signal.SIGKILL)
        watch.gone_within(KILL_GRACE_SECONDS)
        return Stop.KILLED


class _ProcessWatch:
    """One process, held by a descriptor where there are such, so that its pid is not reused."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._descriptor: int | None = None
        self._gone = False

    def __enter__(self) -> _ProcessWatch:
        opener: Callable[[int], int] | None = getattr(os, "pidfd_open", None)
        if opener is not None:
            try:
                self._descriptor = opener(self._pid)
            except ProcessLookupError:
                self._gone = True
            except OSError:
                self._descriptor = None  # an old kernel: poll the pid instead
        return self

    def __exit__(self, *exception: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def gone_within(self, seconds: float) -> bool:
        if self._gone:
            return True
        if self._descriptor is not None:
            readable, _, _ = select.select([self._descriptor], [], [], max(0.0, seconds))
            self._gone = bool(readable)
            return self._gone
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                os.kill(self._pid, 0)
            except ProcessLookupError:
                self._gone = True
                return True
            time.sleep(POLL_SECONDS)
        return False

    def send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self._descriptor is not None:
                signal.pidfd_send_signal(self._descriptor, number)
            else:
                os.kill(self._pid, number)
