"""What only the storage in PostgreSQL has: row-level security, partitions, pokes, lost lines."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from postgres_server import PostgresServer, database_of
from stored_vault import StoredVault, head_of

from memory_manager.sync.server.open_storage import open_storage
from memory_manager.sync.server.postgres.poke_line import PokeLine
from memory_manager.sync.server.postgres.vaults import VAULT_TABLES
from memory_manager.sync.server.refusals import StorageMismatch, StorageUnavailable
from memory_manager.sync.server.storage import Storage

POKE_SECONDS = 30.0
LOG_TABLES = ("entry", "blob", "wrap", "checkpoint")


@contextlib.asynccontextmanager
async def bare_line(url: str) -> AsyncIterator[asyncpg.Connection]:
    """The database as the server's role sees it, without the server."""
    line = await asyncpg.connect(url)
    try:
        yield line
    finally:
        await line.close()


async def pushed_vault(storage: Storage, seed: str) -> StoredVault:
    vault = StoredVault(seed)
    await vault.create(storage)
    await vault.push(storage, vault.batch(0, 2))
    return vault


async def test_the_database_itself_shows_only_the_vault_that_was_named(postgres_url: str) -> None:
    async with open_storage(database_url=postgres_url) as storage:
        mine, other = [await pushed_vault(storage, f"rls {number}") for number in range(2)]
    async with bare_line(postgres_url) as line:
        for table in ("vault", *VAULT_TABLES):
            assert await line.fetchval(f"SELECT count(*) FROM {table}") == 0
        for table in LOG_TABLES:  # round the parent table
            for part in range(16):
                assert await line.fetchval(f"SELECT count(*) FROM {table}_{part}") == 0
        async with line.transaction():
            await line.execute(f"SET LOCAL app.vault = '{mine.id.hex()}'")
            for table in VAULT_TABLES:
                rows = await line.fetch(f"SELECT DISTINCT vault FROM {table}")
                assert [row["vault"] for row in rows] in ([mine.id], []), table
            assert await line.fetchval("SELECT count(*) FROM entry") == 2
            changed = await line.execute("UPDATE vault SET n = 0 WHERE id = $1", other.id)
            assert changed == "UPDATE 0"
        transaction = line.transaction()
        await transaction.start()
        await line.execute(f"SET LOCAL app.vault = '{mine.id.hex()}'")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await line.execute("INSERT INTO blob VALUES ($1, $2, $2)", other.id, bytes(32))
        await transaction.rollback()
        async with line.transaction():
            await line.execute("SET LOCAL app.scope = 'server'")
            assert await line.fetchval("SELECT count(*) FROM vault") >= 2
            for table in (*LOG_TABLES, "roster"):
                assert await line.fetchval(f"SELECT count(*) FROM {table}") == 0
        assert await line.fetchval("SELECT count(*) FROM vault") == 0  # the setting has ended


async def test_logs_are_spread_over_partitions_by_vault(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    vaults: list[StoredVault] = []
    async with open_storage(database_url=postgres_url) as storage:
        for number in range(12):
            vaults.append(await pushed_vault(storage, f"part {number}"))
    ids = ", ".join(f"'\\x{vault.id.hex()}'" for vault in vaults)
    for table in LOG_TABLES:
        text = postgres_server.sql(
            f"SELECT count(DISTINCT tableoid), count(DISTINCT (tableoid, vault)) FROM {table}"
            f" WHERE vault IN ({ids})",
            database_of(postgres_url),
        )
        used, pairs = map(int, text.split("|"))
        assert 4 <= used <= 12
        assert pairs == 12  # all of a vault in one


async def test_servers_that_start_together_make_one_schema(
    postgres_server: PostgresServer,
) -> None:
    url = postgres_server.new_database()

    async def start(seed: str) -> None:
        async with open_storage(database_url=url) as storage:
            await pushed_vault(storage, seed)

    await asyncio.gather(*(start(f"together {number}") for number in range(4)))
    assert postgres_server.sql("SELECT count(*) FROM schema_migration", database_of(url)) == "2"


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE schema_migration SET checksum = 'another'",
        "INSERT INTO schema_migration VALUES (9999, 'later', 'checksum', 0)",
    ],
    ids=["changed", "newer"],
)
async def test_a_database_of_another_version_is_left_alone(
    postgres_server: PostgresServer, change: str
) -> None:
    url = postgres_server.new_database()
    async with open_storage(database_url=url):
        pass
    postgres_server.sql(change, database_of(url))
    with pytest.raises(StorageMismatch):
        async with open_storage(database_url=url):
            pass


async def test_no_database_is_a_refusal_that_passes(tmp_path: Path) -> None:
    with pytest.raises(StorageUnavailable):
        async with open_storage(database_url=f"postgresql://nobody@/none?host={tmp_path}"):
            pass


async def test_a_waiter_at_another_server_hears_of_a_push(postgres_url: str) -> None:
    async with (
        open_storage(database_url=postgres_url) as here,
        open_storage(database_url=postgres_url) as there,
    ):
        vault = await pushed_vault(here, "poke")
        for n in (2, 3, 4):
            async with asyncio.timeout(POKE_SECONDS), asyncio.TaskGroup() as group:
                waiter = group.create_task(there.wait_beyond(vault.id, n, 55.0))
                await asyncio.sleep(0)
                await vault.push(here, vault.batch(0, 1))
            assert waiter.result() == n + 1


async def test_lost_connections_are_made_again_and_nothing_acknowledged_is_lost(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    async with (
        open_storage(database_url=postgres_url) as here,
        open_storage(database_url=postgres_url) as there,
    ):
        vault = await pushed_vault(here, "lost")
        async with asyncio.timeout(POKE_SECONDS), asyncio.TaskGroup() as group:
            waiter = group.create_task(there.wait_beyond(vault.id, 2, 55.0))
            for _ in range(10):  # it has looked by then, and waits
                await there.vault(vault.id)
            await asyncio.to_thread(
                postgres_server.sql,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                f" WHERE datname = '{database_of(postgres_url)}'",
            )
            pushed = vault.batch(0, 3)
            answer = None
            while answer is None:
                with contextlib.suppress(StorageUnavailable):
                    answer = await vault.push(here, pushed)
        assert waiter.result() == 5
        page = await vault.pull(there)
        assert page.tip == head_of(page.rows) == answer.head
        assert len(page.rows) == 5


async def test_pokes_end_with_their_storage(postgres_url: str) -> None:
    async with open_storage(database_url=postgres_url):
        pass
    left = [task for task in asyncio.all_tasks() if PokeLine.__name__ in repr(task)]
    assert left == []


async def test_a_push_that_is_given_up_is_stored_wholly_or_not_at_all(postgres_url: str) -> None:
    async with open_storage(database_url=postgres_url) as storage:
        vault = StoredVault("given up")
        await vault.create(storage)
        for number in range(12):
            pushed = vault.batch(0, 3)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.0015 * number):
                    await vault.push(storage, pushed)
            assert (await storage.vault(vault.id)).head.n % 3 == 0
            assert (await vault.push(storage, pushed)).added in (0, 3)
        page = await vault.pull(storage)
        assert page.tip == head_of(page.rows)
        assert page.tip.n == 36
