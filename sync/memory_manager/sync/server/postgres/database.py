"""Connections of the server's storage: the pool, the schema, and transactions of one vault."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Final

import asyncpg

from memory_manager.base.times import now_ms
from memory_manager.sync.server.migrations import migrations, missing
from memory_manager.sync.server.refusals import StorageUnavailable

if TYPE_CHECKING:
    from asyncpg import Connection, Pool
    from asyncpg.pool import PoolConnectionProxy

    Line = Connection | PoolConnectionProxy

POOL_CONNECTIONS: Final = 10
CONNECT_SECONDS: Final = 10.0
STATEMENT_SECONDS: Final = 60.0
_ACQUIRE_SECONDS: Final = 30.0
_MIGRATION_LOCK: Final = 0x6D6C6B31  # any number that all our servers know
_LOG_TABLE: Final = """CREATE TABLE IF NOT EXISTS schema_migration(
  number integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL,
  applied_at_ms bigint NOT NULL)"""
# a planner that knows no figures of a young table would read all of it
_BY_KEY: Final = """SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off;
  SET LOCAL enable_mergejoin = off"""
# what the database or the way to it does, not a mistake of our own
OUTSIDE: Final = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.OperatorInterventionError,
    asyncpg.ObjectNotInPrerequisiteStateError,
    asyncpg.TransactionRollbackError,
    asyncpg.PostgresSystemError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.ReadOnlySQLTransactionError,
)

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def outside_errors() -> Generator[None]:
    """What the database refuses becomes StorageUnavailable; its message may name a host."""
    try:
        yield
    except OUTSIDE as error:
        _log.error("server_storage_unavailable", extra={"error_type": type(error).__name__})
        raise StorageUnavailable from error


class Database:
    """A pool of connections to one migrated database."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def of_vault(self, vault: bytes) -> AbstractAsyncContextManager[Line]:
        """A transaction that sees this vault alone."""
        return self._transaction(f"BEGIN; SET LOCAL app.vault = '{vault.hex()}'")

    def snapshot(self, vault: bytes) -> AbstractAsyncContextManager[Line]:
        """Several reads of one state of this vault."""
        return self._transaction(
            "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY;"
            f" SET LOCAL app.vault = '{vault.hex()}'"
        )

    def of_server(self) -> AbstractAsyncContextManager[Line]:
        """A transaction over vaults, devices and sessions of all; it sees no log."""
        return self._transaction("BEGIN; SET LOCAL app.scope = 'server'")

    @contextlib.asynccontextmanager
    async def _transaction(self, begin: str) -> AsyncGenerator[Line]:
        with outside_errors():
            async with self._pool.acquire(timeout=_ACQUIRE_SECONDS) as line:
                try:
                    await line.execute(f"{begin}; {_BY_KEY}")
                    yield line
                    await line.execute("COMMIT")
                except BaseException:
                    await _roll_back(line)
                    raise


async def _roll_back(line: Line) -> None:
    """Leave the transaction; a line that cannot do even that is no good to anybody."""
    left = False
    try:
        await line.execute("ROLLBACK")
        left = True
    except (*OUTSIDE, asyncpg.PostgresError) as error:
        _log.info("server_storage_line_left", extra={"error_type": type(error).__name__})
    finally:
        if not left:
            line.terminate()


@contextlib.asynccontextmanager
async def open_database(url: str) -> AsyncGenerator[Database]:
    """The migrated database at ``url``; StorageUnavailable, StorageMismatch."""
    with outside_errors():
        pool = await asyncpg.create_pool(
            url,
            min_size=1,
            max_size=POOL_CONNECTIONS,
            timeout=CONNECT_SECONDS,
            command_timeout=STATEMENT_SECONDS,
            reset=_leave,
        )
    try:
        with outside_errors():
            async with pool.acquire() as line, line.transaction():
                await _migrate(line)
            await _warn_of_bypass(pool)
        yield Database(pool)
    finally:
        await _close(pool)


async def _leave(_line: object) -> None:
    """Settings are local to their transactions, so a connection is as good as new."""


async def _migrate(line: Line) -> None:
    # servers that start together wait for the first one
    await line.execute("SELECT pg_advisory_xact_lock($1)", _MIGRATION_LOCK)
    await line.execute(_LOG_TABLE)
    applied = await line.fetch("SELECT number, checksum FROM schema_migration")
    shipped = migrations("postgres")
    for migration in missing(shipped, {row["number"]: row["checksum"] for row in applied}):
        await line.execute(migration.sql)
        await line.execute(
            "INSERT INTO schema_migration VALUES ($1, $2, $3, $4)",
            migration.number,
            migration.name,
            migration.checksum,
            now_ms(),
        )


async def _warn_of_bypass(pool: Pool) -> None:
    """A superuser is above row-level security: the second wall between vaults is not there."""
    above = await pool.fetchval(
        "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
    )
    if above:
        _log.warning("server_storage_role_bypasses_row_security")


async def _close(pool: Pool) -> None:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await pool.close()
    except OUTSIDE as error:
        _log.warning("server_storage_close", extra={"error_type": type(error).__name__})
        pool.terminate()
