"""Fixtures around ``sync_server``: the server in this process, a client, and a vault on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from sync_server import World, create_vault, registration_token, server_in_process

from memory_manager.sync.server.running import RunningServer


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with server_in_process(tmp_path / "server") as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        yield session


@pytest.fixture
async def world(server: RunningServer, http: aiohttp.ClientSession) -> World:
    """A vault on ``server`` whose first device is logged in."""
    return await create_vault(http, server.url, await registration_token(server))
