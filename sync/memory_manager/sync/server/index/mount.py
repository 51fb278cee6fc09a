"""The index as a part of the sync server: its storage opens and closes with the server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from typing import Final

from memory_manager.sync.server.background import in_background
from memory_manager.sync.server.host import Mount, MountFactory, SyncHost
from memory_manager.sync.server.index.agent_routes import agent_routes
from memory_manager.sync.server.index.routes import index_routes
from memory_manager.sync.server.index.service import FILL_ROWS, IndexService
from memory_manager.sync.server.index.sqlite import open_sqlite_index
from memory_manager.sync.server.index.storage import Comparing, IndexStorage
from memory_manager.sync.server.index.vectors import Embedder
from memory_manager.sync.server.refusals import VaultUnknown
from memory_manager.sync.wire.roster import Member

FILL_SECONDS: Final = 60.0

_log = logging.getLogger(__name__)


def index_mount(embedder: Embedder | None = None) -> MountFactory:
    """The factory for ``run.MOUNTS``; without an embedder recall goes by words and says so."""

    @contextlib.asynccontextmanager
    async def mount(host: SyncHost) -> AsyncGenerator[Mount]:
        async def find_member(vault: bytes, device: bytes) -> Member | None:
            try:
                return (await host.rosters.current(vault)).members.get(device)
            except VaultUnknown:
                return None

        storage = await _open_storage(host)
        host.metrics.gauge(
            "index_vectors_in_database",
            "1 where the database compares the vectors of opted-in rows (pgvector), 0 where this"
            " process does.",
            lambda: float(storage.comparing is Comparing.DATABASE),
        )
        service = IndexService(
            storage,
            server_key=host.key.public,
            find_member=find_member,
            clock_ms=host.clock_ms,
            embedder=embedder,
        )

        async def class_refused(vault: bytes, device: bytes) -> None:
            await storage.note(vault, device, "push.refused", "class_policy", None)

        routes = (*index_routes(service), *agent_routes(service))
        async with contextlib.AsyncExitStack() as closing:
            closing.push_async_callback(storage.close)
            if embedder is not None:
                await closing.enter_async_context(in_background(_fill(service)))
            yield Mount(routes, storage.delete_vault, class_refused)

    return mount


async def _open_storage(host: SyncHost) -> IndexStorage:
    if host.settings.database_url is None:
        return await open_sqlite_index(host.settings.data)
    from memory_manager.sync.server.index.postgres import open_postgres_index

    return await open_postgres_index(host.settings.database_url)


async def _fill(service: IndexService) -> None:
    """Embeds what came while the embedder could not."""
    while True:
        try:
            more = await service.fill() == FILL_ROWS
        except Exception as error:  # the rows stay findable by words; the next round tries again
            _log.warning("index_fill_failed", extra={"error_type": type(error).__name__})
            more = False
        await asyncio.sleep(0 if more else FILL_SECONDS)
