"""Environments of the public clients, and one daemon that they all speak to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from foreign_clients import INSTALL_SECONDS, hermes_python, node_folder
from sandbox_daemon import SandboxDaemon, running

TEST_SECONDS = 180.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of them in one process: their environments are made once, and that takes a while."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.clients)
            item.add_marker(pytest.mark.timeout(INSTALL_SECONDS + TEST_SECONDS))


@pytest.fixture(scope="session")
def hermes() -> Path:
    return hermes_python()


@pytest.fixture(scope="session")
def node() -> Path:
    return node_folder()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxDaemon]:
    with running(tmp_path_factory.mktemp("clients") / "home") as started:
        yield started


@pytest.fixture(scope="module")
def key(daemon: SandboxDaemon) -> str:
    return daemon.add_agent("public-client")
