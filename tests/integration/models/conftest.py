"""A guard that notices every network attempt of the processes a test starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from network_guard import NetworkGuard


@pytest.fixture
def network_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NetworkGuard]:
    """Every Python process started in this test raises, and leaves a note, at a socket."""
    guard = NetworkGuard.install(tmp_path / "guard")
    monkeypatch.setenv("PYTHONPATH", str(guard.folder))
    yield guard
    assert guard.attempts() == []
