"""Reading connections, one per thread of a small pool, so that no reader waits for the writer."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sqlite3
import threading
from pathlib import Path
from typing import Final, TypeVar

from memory_manager.sync.server.sqlite.database import Work, connect, outside_errors, snapshot

T = TypeVar("T")

READERS: Final = 4


class Readers:
    """Closed by ``close``, which waits for reads that are under way."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pool = concurrent.futures.ThreadPoolExecutor(READERS, "sync-storage-reader")
        self._local = threading.local()
        self._guard = threading.Lock()
        self._connections: list[sqlite3.Connection] = []

    async def read(self, work: Work[T]) -> T:
        """``work`` on one snapshot."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._read, work)

    def close(self) -> None:
        self._pool.shutdown(wait=True)
        for connection in self._connections:
            connection.close()

    def _read(self, work: Work[T]) -> T:
        with outside_errors(), snapshot(self._connection()) as connection:
            return work(connection)

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = connect(self._path)
            connection.execute("PRAGMA query_only = ON")
            self._local.connection = connection
            with self._guard:
                self._connections.append(connection)
        return connection
