"""``run_daemon``: the whole life of the daemon process, from hardening to the released lock.

Contract: vault.md 12 and desktop.md 8 (order of the start), desktop.md 9 (order of the end).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import signal
import sys
from pathlib import Path
from typing import Final

from aiohttp import web

from memory_manager.api.application import build_application
from memory_manager.api.doors import Doors, remove_leftover
from memory_manager.base.directories import Directories, directories
from memory_manager.base.errors import MemlocketError
from memory_manager.base.private_files import ensure_private_directory
from memory_manager.base.times import now_ms, rfc3339
from memory_manager.security.event_log import level_of, log_event
from memory_manager.service import crash, discovery
from memory_manager.service.daemon import Daemon, DaemonSettings
from memory_manager.service.embedders import EmbeddingsMode
from memory_manager.service.events import Event, StopRequested
from memory_manager.service.hardening import harden_process
from memory_manager.service.instance_lock import InstanceLock
from memory_manager.service.logs import set_up_logs
from memory_manager.service.notify import ServiceNotifier
from memory_manager.service.owner_token import OwnerToken
from memory_manager.vault.errors import AlreadyRunning

FINISH_SECONDS: Final = 2.0
VAULT_WAIT_SECONDS: Final = 3.0
CHORE_SECONDS: Final = 60.0

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class DaemonOptions:
    """``port`` 0 takes a free one. ``service``: a service manager started this process."""

    port: int = 0
    insecure_key_file: Path | None = None
    service: bool = False
    embeddings: EmbeddingsMode = EmbeddingsMode.AUTO
    auto_approve: bool = False


def run_daemon(options: DaemonOptions) -> int:
    """Run until a signal or a stop request; returns the exit code of the process."""
    harden_process()
    places = directories()
    try:
        ensure_private_directory(places.data)
        with InstanceLock(places.data):
            ensure_private_directory(places.runtime)
            set_up_logs(places.log, journal=sys.stderr if _under_systemd() else None)
            return asyncio.run(_Run(options, places).serve())
    except AlreadyRunning as error:
        return _already_running(error, options, places)
    except MemlocketError as error:
        log_event(_log, "start_refused", level=level_of(error), error=error)
        return _refused(error)


def _under_systemd() -> bool:
    return "INVOCATION_ID" in os.environ


def _refused(error: MemlocketError) -> int:
    print(f"{error.title}: {error.message}", file=sys.stderr)
    if error.hint:
        print(error.hint, file=sys.stderr)
    return error.exit_code


def _already_running(error: AlreadyRunning, options: DaemonOptions, places: Directories) -> int:
    where = discovery.describe_running(places.runtime) or discovery.describe_running(
        places.data / "run"
    )
    print(f"already_running: {error.message}", file=sys.stderr)
    print(f"It answers at {where}." if where else "It is still starting.", file=sys.stderr)
    if options.service and sys.platform in ("darwin", "win32"):
        return 0  # the service managers of these systems would start it again for ever
    return error.exit_code


class _Run:
    """One run: what was opened is closed in the opposite order, whatever happens between."""

    def __init__(self, options: DaemonOptions, places: Directories) -> None:
        self._options = options
        self._places = places
        self._notifier = ServiceNotifier()
        self._stop = asyncio.Event()

    async def serve(self) -> int:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(crash.LoopExceptions())
        # installed by hand: a background job of a shell inherits SIGINT ignored
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        hangup = getattr(signal, "SIGHUP", None)
        if hangup is not None and signal.getsignal(hangup) is not signal.SIG_IGN:  # nohup
            loop.add_signal_handler(hangup, self._on_signal, hangup)
        history = crash.read_history(self._places.log)
        settings = DaemonSettings(
            insecure_key_file=self._options.insecure_key_file,
            embeddings=self._options.embeddings,
            has_terminal=not self._options.service and sys.stdin is not None and sys.stdin.isatty(),
            safe_mode=history.wants_safe_mode(now_ms()),
            auto_approve=self._options.auto_approve,
        )
        daemon = Daemon(self._places, settings, history)
        crash.watch_fatal_signals(self._places.log, daemon.version)
        crash.install_exception_hooks(self._places.log, daemon.version)
        daemon.events.subscribe(self._on_event)
        await self._serve(daemon)
        log_event(_log, "daemon_stopped", daemon_id=daemon.daemon_id, pid=daemon.pid)
        return 0

    async def _serve(self, daemon: Daemon) -> None:
        async with contextlib.AsyncExitStack() as closing:
            doors = Doors(self._places.runtime, self._options.port or None)
            closing.callback(doors.close)
            leftover = discovery.left_behind_socket(self._places.runtime)
            if leftover is not None:
                remove_leftover(leftover)
            doors.bind()
            token = OwnerToken(self._places.runtime)
            closing.callback(token.remove)
            closing.push_async_callback(daemon.stop)
            app = build_application(daemon, token.digest, lambda: doors.port)
            runner = web.AppRunner(
                app, access_log=None, logger=_log, shutdown_timeout=FINISH_SECONDS
            )
            await runner.setup()
            closing.push_async_callback(runner.cleanup)
            async with asyncio.TaskGroup() as group:
                opening = group.create_task(daemon.start())
                # a keyring may take its time; then the doors open on a vault that is still locked
                await asyncio.wait({opening}, timeout=VAULT_WAIT_SECONDS)
                await doors.listen(_server_of(runner))
                closing.callback(doors.stop_accepting)
                places = self._publish(daemon, doors)
                closing.callback(discovery.withdraw, daemon.daemon_id, places)
                chores = group.create_task(self._chores(daemon, doors))
                self._ready(daemon, doors)
                await self._stop.wait()
                self._notifier.stopping()
                opening.cancel()
                chores.cancel()

    def _publish(self, daemon: Daemon, doors: Doors) -> tuple[Path, ...]:
        """Write the discovery file, and a copy where clients without XDG_RUNTIME_DIR look."""
        places = [self._places.runtime]
        second = self._places.data / "run"
        if self._places.home is None and second != self._places.runtime:
            ensure_private_directory(second)
            places.append(second)
        found = discovery.Discovery(
            daemon_id=daemon.daemon_id,
            pid=daemon.pid,
            started_at=rfc3339(daemon.started_at_ms),
            version=daemon.version,
            socket=doors.path,
            url=doors.url,
            runtime_dir=self._places.runtime,
            home=self._places.home,
        )
        daemon.addresses = found
        discovery.publish(found, tuple(places))
        return tuple(places)

    def _ready(self, daemon: Daemon, doors: Doors) -> None:
        daemon.start_times.doors_are_open()
        self._notifier.ready()
        log_event(
            _log,
            "daemon_ready",
            daemon_id=daemon.daemon_id,
            pid=daemon.pid,
            port=doors.port,
            version=daemon.version,
            duration_ms=now_ms() - daemon.started_at_ms,
        )
        if not self._options.service:
            print(f"Memlocket is ready at {doors.url} and {doors.path}", flush=True)

    async def _chores(self, daemon: Daemon, doors: Doors) -> None:
        """Tell the service manager that the loop turns, and keep the socket file from aging."""
        pause = min(self._notifier.watchdog_seconds or CHORE_SECONDS, CHORE_SECONDS)
        while True:
            await asyncio.sleep(pause)
            self._notifier.alive()
            doors.touch()
            await daemon.do_chores()

    def _on_event(self, event: Event) -> None:
        if isinstance(event, StopRequested):
            self._stop.set()

    def _on_signal(self, number: signal.Signals) -> None:
        log_event(_log, "signal_received", signal=number.name)
        self._stop.set()


def _server_of(runner: web.AppRunner) -> web.Server:
    server = runner.server
    if server is None:
        raise RuntimeError("the runner is not set up")
    return server
