"""The server's storage in both databases; PostgreSQL is a real one, started once a run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from postgres_server import (
    NO_PGVECTOR,
    NOT_INSTALLED,
    PostgresServer,
    find_pgvector,
    find_postgres,
    running_postgres,
)
from stored_vault import Opener, StoredVault, opener
from sync_devices import Devices, devices
from sync_proxy import SyncProxy, between
from sync_server_fixtures import http, server, world  # noqa: F401  # fixtures of these tests

from memory_manager.sync.server.running import RunningServer
from memory_manager.sync.server.storage import Storage


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    binaries = find_postgres()
    if binaries is None:
        pytest.skip(NOT_INSTALLED)
    with running_postgres(binaries) as database_server:
        yield database_server


@pytest.fixture(scope="session")
def pgvector_server() -> Iterator[PostgresServer]:
    """One that has the extension; its databases have it where a test says so."""
    binaries = find_pgvector()
    if binaries is None:
        pytest.skip(NO_PGVECTOR)
    with running_postgres(binaries) as database_server:
        yield database_server


@pytest.fixture(scope="module")
def postgres_url(postgres_server: PostgresServer) -> str:
    """An empty database of this test file."""
    return postgres_server.new_database()


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens the storage of one test; again and again it is the same place."""
    kind: str = request.param
    url = request.getfixturevalue("postgres_url") if kind == "postgres" else None
    return opener(kind, tmp_path / "server", url)


@pytest.fixture
async def storage(opened: Opener) -> AsyncIterator[Storage]:
    async with opened() as storage:
        yield storage


@pytest.fixture
async def vault(request: pytest.FixtureRequest, storage: Storage) -> StoredVault:
    """A created vault of this test with two devices."""
    vault = StoredVault(request.node.nodeid)
    await vault.create(storage)
    return vault


@pytest.fixture
async def made(tmp_path: Path) -> AsyncIterator[Devices]:
    """Devices with vaults of their own below this test's folder."""
    async with devices(tmp_path) as found:
        yield found


@pytest.fixture
async def proxy(server: RunningServer) -> AsyncIterator[SyncProxy]:  # noqa: F811  # that fixture
    """What stands between the devices of a test and its server."""
    async with between(server) as found:
        yield found
