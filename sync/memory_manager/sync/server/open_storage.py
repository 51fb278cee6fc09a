"""Chooses the storage: SQLite in a folder, or PostgreSQL at a URL."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from memory_manager.sync.server.storage import Quota, Storage


@asynccontextmanager
async def open_storage(
    *, data: Path | None = None, database_url: str | None = None, quota: Quota | None = None
) -> AsyncGenerator[Storage]:
    """The storage, migrated, for the length of the block; exactly one of the places is given.

    ``data`` is a private folder, made when it is missing; the database in it is ``sync.db``.
    ``database_url`` is ``postgresql://...`` and needs the extra ``server-postgres``. ``quota`` is
    that of vaults without one of their own. Raises StorageUnavailable, StorageMismatch, UnsafeFile.
    """
    if (data is None) == (database_url is None):
        raise ValueError("a storage is either a folder or a database URL")
    if data is not None:
        from memory_manager.sync.server.sqlite.storage import sqlite_storage

        async with sqlite_storage(data, quota or Quota()) as storage:
            yield storage
        return
    from memory_manager.sync.server.postgres.storage import postgres_storage

    async with postgres_storage(database_url or "", quota or Quota()) as storage:
        yield storage
