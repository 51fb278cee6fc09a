"""Prepared models for this folder: made once per session, or taken from MEMLOCKET_TEST_MODELS."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from network_guard import NetworkGuard

from memory_manager.recall.models.installed import PreparedModel, read_model
from memory_manager.recall.models.prepare import prepare
from memory_manager.recall.models.sources import DEFAULT_MODEL, FALLBACK_MODEL


@pytest.fixture(scope="session")
def models_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this session's models are; MEMLOCKET_TEST_MODELS keeps them for the next session."""
    chosen = os.environ.get("MEMLOCKET_TEST_MODELS")
    return Path(chosen) if chosen else tmp_path_factory.mktemp("prepared") / "models"


def _prepared(folder: Path, model_id: str) -> PreparedModel:
    try:
        return read_model(folder / model_id)
    except FileNotFoundError:
        return prepare(model_id, folder)


@pytest.fixture(scope="session")
def minilm(models_folder: Path) -> PreparedModel:
    return _prepared(models_folder, FALLBACK_MODEL)


@pytest.fixture(scope="session")
def e5(models_folder: Path) -> PreparedModel:
    return _prepared(models_folder, DEFAULT_MODEL)


@pytest.fixture
def network_guard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NetworkGuard]:
    """Every Python process started in this test raises, and leaves a note, at a socket."""
    guard = NetworkGuard.install(tmp_path / "guard")
    monkeypatch.setenv("PYTHONPATH", str(guard.folder))
    yield guard
    assert guard.attempts() == []
