"""``memlocket server`` as a process: a log, signals, the service manager, and a running server."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from memory_manager.security.event_log import level_of, log_event
from memory_manager.sync.server.errors import SettingsRefused
from memory_manager.sync.server.host import MountFactory
from memory_manager.sync.server.logs import set_up_logs
from memory_manager.sync.server.running import RunningServer, running_server
from memory_manager.sync.server.settings import ServerSettings

ALIVE_SECONDS: Final = 60.0

_log = logging.getLogger(__name__)


class Notifier(Protocol):
    """The service manager that started this process, if one did."""

    @property
    def watchdog_seconds(self) -> float | None: ...

    def ready(self) -> None: ...

    def alive(self) -> None: ...

    def stopping(self) -> None: ...


def run_server(
    settings: ServerSettings,
    notifier: Notifier,
    on_ready: Callable[[RunningServer], None],
    mounts: Sequence[MountFactory] = (),
) -> None:
    """Serve until SIGTERM or SIGINT; SIGHUP reads the certificate again. The log goes to standard
    error. ``mounts`` are the parts beside the protocol of the log. Raises what ``running_server``
    raises before it is ready.
    """
    set_up_logs(sys.stderr)
    asyncio.run(_serve(settings, notifier, on_ready, mounts))


async def _serve(
    settings: ServerSettings,
    notifier: Notifier,
    on_ready: Callable[[RunningServer], None],
    mounts: Sequence[MountFactory],
) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def asked_to_stop(number: signal.Signals) -> None:
        log_event(_log, "signal_received", signal=number.name)
        stop.set()

    # installed by hand: a background job of a shell inherits SIGINT ignored
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, asked_to_stop, number)
    async with running_server(settings, mounts=mounts) as server:
        loop.add_signal_handler(signal.SIGHUP, _reload, server)
        log_event(
            _log,
            "server_ready",
            pid=os.getpid(),
            port=server.port,
            version=server.host.version,
            backend="postgres" if settings.database_url else "sqlite",
            tls=server.tls is not None,
        )
        on_ready(server)
        notifier.ready()
        await _until(stop, notifier)
        notifier.stopping()
    log_event(_log, "server_stopped", pid=os.getpid())


async def _until(stop: asyncio.Event, notifier: Notifier) -> None:
    """Wait for ``stop``, and tell the service manager meanwhile that the loop turns."""
    pause = min(notifier.watchdog_seconds or ALIVE_SECONDS, ALIVE_SECONDS)
    while not stop.is_set():
        try:
            async with asyncio.timeout(pause):
                await stop.wait()
        except TimeoutError:
            notifier.alive()


def _reload(server: RunningServer) -> None:
    try:
        server.reload_tls()
    except SettingsRefused as error:
        log_event(_log, "certificate_refused", level=level_of(error), code=error.code)
    else:
        log_event(_log, "certificate_read", tls=server.tls is not None)
