"""Members of one vault for the ledger's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ledger_world import LedgerDevice, LedgerWorld, Pair


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LedgerWorld]:
    made = LedgerWorld(tmp_path)
    yield made
    made.close()


@pytest.fixture
def one(world: LedgerWorld) -> LedgerDevice:
    """The first member, with sync on."""
    return world.device()


@pytest.fixture
def pair(world: LedgerWorld) -> Pair:
    return world.device(), world.device()
