"""A server in this process: opened in order, closed in the opposite one.

Tests use ``running_server`` as it stands; the command adds signals and a log around it.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import ssl
from collections.abc import AsyncGenerator, Callable, Sequence
from importlib.metadata import version as installed_version
from typing import Final

from aiohttp import web

from memory_manager.base.errors import MemlocketError
from memory_manager.base.times import now_ms
from memory_manager.security.event_log import level_of, log_event
from memory_manager.sync.server.app import ROUTES, build_app
from memory_manager.sync.server.background import in_background
from memory_manager.sync.server.connection import Connections, SyncConnection
from memory_manager.sync.server.errors import ServerKeyRefused, SettingsRefused
from memory_manager.sync.server.folder_lock import folder_lock
from memory_manager.sync.server.host import MountFactory, SyncHost
from memory_manager.sync.server.metrics import CONTENT_TYPE
from memory_manager.sync.server.open_storage import open_storage
from memory_manager.sync.server.server_key import ServerKey, has_key, load_or_create_key
from memory_manager.sync.server.settings import Address, ServerSettings
from memory_manager.sync.server.storage import Quota, Storage, Usage

DISTRIBUTION: Final = "memlocket"
BACKLOG: Final = 512
CHORE_SECONDS: Final = 60.0
NO_USAGE: Final = Usage(vaults=0, devices=0, rows=0, bytes=0, sessions=0, mails=0)

_log = logging.getLogger(__name__)


@dataclasses.dataclass(slots=True)
class RunningServer:
    """A server that answers at ``url``; ``reload_tls`` reads its certificate files again."""

    host: SyncHost
    port: int
    metrics_port: int | None
    tls: ssl.SSLContext | None
    usage: Usage = NO_USAGE

    @property
    def url(self) -> str:
        """Where clients of this machine reach it."""
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://{Address(self.host.settings.listen.host, self.port)}"

    def reload_tls(self) -> None:
        """Take a renewed certificate for later connections; SettingsRefused keeps the old."""
        if self.tls is not None:
            _load_certificate(self.tls, self.host.settings)


@contextlib.asynccontextmanager
async def running_server(
    settings: ServerSettings,
    *,
    mounts: Sequence[MountFactory] = (),
    clock_ms: Callable[[], int] = now_ms,
) -> AsyncGenerator[RunningServer]:
    """A server for the length of the block. At its end requests that have arrived are finished,
    those that wait are answered, and the storage is checkpointed and closed.

    Raises SettingsRefused, ServerKeyRefused, ServerAlreadyRunning, UnsafeFile, StorageUnavailable
    and StorageMismatch; then nothing is left open.
    """
    async with contextlib.AsyncExitStack() as closing:
        tls = await asyncio.to_thread(tls_context, settings)
        if settings.database_url is None:
            closing.enter_context(folder_lock(settings.data))
        storage = await closing.enter_async_context(storage_of(settings))
        key = await load_own_key(settings, storage)
        version = installed_version(DISTRIBUTION)
        host = SyncHost(settings, storage, key, version=version, clock_ms=clock_ms)
        for factory in mounts:
            host.mounts.append(await closing.enter_async_context(factory(host)))
        routes = [*ROUTES, *(route for mount in host.mounts for route in mount.routes)]
        connections = Connections(
            settings.limits.connections,
            None if settings.behind_proxy else settings.limits.connections_per_address,
        )
        port = await _listen(
            closing, build_app(host, routes), settings.listen, settings, connections, tls
        )
        host.public_host = settings.public_name(port)
        running = RunningServer(host, port, None, tls)
        _register_gauges(running, connections)
        if settings.metrics is not None:
            app = _metrics_app(host)
            running.metrics_port = await _listen(
                closing, app, settings.metrics, settings, Connections(8), tls
            )
        closing.callback(host.waiters.end_all)
        await _chore(running)
        await closing.enter_async_context(in_background(_every_minute(running)))
        yield running


def storage_of(settings: ServerSettings) -> contextlib.AbstractAsyncContextManager[Storage]:
    """The storage that these settings name."""
    quotas = settings.quotas
    quota = Quota(rows=quotas.rows, bytes=quotas.bytes, devices=quotas.devices)
    if settings.database_url is not None:
        return open_storage(database_url=settings.database_url, quota=quota)
    return open_storage(data=settings.data, quota=quota)


async def load_own_key(settings: ServerSettings, storage: Storage) -> ServerKey:
    """The server's key. A database keeps the key it was first opened with: its clients would all
    take a server with another one for a stranger.
    """
    has_own = await asyncio.to_thread(has_key, settings.data)
    if not has_own and await storage.owner() is not None:
        raise ServerKeyRefused(
            f"{settings.data} has no server key, but the database belongs to a server with one."
        )
    key = await asyncio.to_thread(load_or_create_key, settings.data)
    if await storage.claim(key.public) != key.public:
        raise ServerKeyRefused(
            f"The server key in {settings.data} is not the one that the database belongs to."
        )
    return key


def tls_context(settings: ServerSettings) -> ssl.SSLContext | None:
    """TLS 1.2 or newer with the given files; SettingsRefused when they are not usable."""
    if settings.tls_cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION
    _load_certificate(context, settings)
    return context


def _load_certificate(context: ssl.SSLContext, settings: ServerSettings) -> None:
    if settings.tls_cert is None or settings.tls_key is None:
        return
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key, password=_no_password)
    except (OSError, ValueError) as error:
        raise SettingsRefused(
            f"The certificate {settings.tls_cert} and its key cannot be used:"
            f" {getattr(error, 'strerror', None) or type(error).__name__}."
        ) from None


def _no_password() -> str:
    raise ValueError("an encrypted key file cannot be opened unattended")


async def _listen(
    closing: contextlib.AsyncExitStack,
    app: web.Application,
    address: Address,
    settings: ServerSettings,
    connections: Connections,
    tls: ssl.SSLContext | None,
) -> int:
    """Serve ``app`` at an address until ``closing``; its port. SettingsRefused if it is taken."""
    limits = settings.limits
    runner = web.AppRunner(
        app, access_log=None, logger=_log, shutdown_timeout=limits.finish_seconds
    )
    await runner.setup()
    closing.push_async_callback(runner.cleanup)
    manager = runner.server
    if manager is None:
        raise RuntimeError("the runner is not set up")
    loop = asyncio.get_running_loop()

    def connection() -> SyncConnection:
        return SyncConnection(manager, loop=loop, limits=limits, connections=connections)

    try:
        server = await loop.create_server(
            connection,
            address.host,
            address.port,
            ssl=tls,
            backlog=BACKLOG,
            ssl_handshake_timeout=None if tls is None else limits.header_seconds,
        )
    except OSError as error:
        raise SettingsRefused(
            f"{address} cannot be used: {error.strerror}.",
            hint="Another program may use it; choose one with --listen HOST:PORT.",
        ) from None
    closing.callback(server.close)
    return int(server.sockets[0].getsockname()[1])


def _metrics_app(host: SyncHost) -> web.Application:
    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(text=host.metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    return app


def _register_gauges(running: RunningServer, connections: Connections) -> None:
    metrics = running.host.metrics
    for field in dataclasses.fields(Usage):
        what = f"{field.name.capitalize()} in the storage, as of the last minute."
        metrics.gauge(f"stored_{field.name}", what, _figure(running, field.name))
    metrics.gauge("connections", "Open connections.", lambda: connections.open)
    metrics.gauge("waiting", "Devices that wait for news.", lambda: running.host.waiters.count)


def _figure(running: RunningServer, name: str) -> Callable[[], float]:
    return lambda: float(getattr(running.usage, name))


async def _every_minute(running: RunningServer) -> None:
    while True:
        await asyncio.sleep(CHORE_SECONDS)
        await _chore(running)


async def _chore(running: RunningServer) -> None:
    """What is over is dropped, and figures are taken."""
    storage, now = running.host.storage, running.host.clock_ms()
    try:
        await storage.expire(now)
        running.usage = await storage.usage(now)
    except MemlocketError as error:  # the next minute is another try
        log_event(_log, "chore_failed", level=level_of(error), error=error, code=error.code)
