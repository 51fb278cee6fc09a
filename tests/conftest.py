"""What every test run says about itself and the paths that several folders share."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from memory_manager.recall.models.installed import PreparedModel

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = REPOSITORY.parent / "shared"
MODELS = "models"
MODEL_FIXTURES = frozenset({"models_folder", "minilm", "e5"})  # prepared once a process, minutes


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough",
        action="store_true",
        help="crash, growth and property tests with their full counts: half an hour more",
    )


def pytest_report_header() -> list[str]:
    """Versions that decide results: SQLCipher and the embedding stack."""
    from sqlcipher3 import dbapi2

    connection = dbapi2.connect(":memory:")
    (cipher,) = connection.execute("PRAGMA cipher_version").fetchone()
    connection.close()
    embed = "installed" if importlib.util.find_spec("sentence_transformers") else "absent"
    return [f"sqlite {dbapi2.sqlite_version}, sqlcipher {cipher}, embeddings {embed}"]


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """One process a file, the long ones first; model tests without their libraries skip."""
    needed = ("torch", "sentence_transformers", "onnxruntime", "tokenizers")
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    skip = pytest.mark.skip(reason=f"embedding stack absent: {', '.join(missing)}")
    rank: dict[str, int] = {}
    for item in items:
        group = _group(item)
        # before xdist reads it
        item.add_marker(pytest.mark.xdist_group(group))
        if group == MODELS:
            rank[group] = 0
        elif item.get_closest_marker("slow"):
            rank[group] = 1
        if missing and item.get_closest_marker("embed"):
            item.add_marker(skip)
    yield
    # after the order was drawn at random
    items.sort(key=lambda item: rank.get(_group(item), 2))


def _group(item: pytest.Item) -> str:
    fixtures = item.fixturenames if isinstance(item, pytest.Function) else []
    return MODELS if MODEL_FIXTURES.intersection(fixtures) else item.nodeid.partition("::")[0]


@pytest.fixture(scope="session")
def thorough(pytestconfig: pytest.Config) -> bool:
    """Whether counts are those of the contracts, or a share of them that every change runs."""
    return bool(pytestconfig.getoption("--thorough"))


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """Contracts and labelled data beside the checkout; tests that need them skip without."""
    if not SHARED.is_dir():
        pytest.skip("the folder with labelled sets and vectors is not beside this checkout")
    return SHARED


@pytest.fixture(scope="session")
def models_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this session's models are; MEMLOCKET_TEST_MODELS keeps them for the next session."""
    chosen = os.environ.get("MEMLOCKET_TEST_MODELS")
    return Path(chosen) if chosen else tmp_path_factory.mktemp("prepared") / "models"


def _prepared(folder: Path, model_id: str) -> PreparedModel:
    from memory_manager.recall.models.installed import read_model
    from memory_manager.recall.models.prepare import prepare

    try:
        return read_model(folder / model_id)
    except FileNotFoundError:
        return prepare(model_id, folder)


@pytest.fixture(scope="session")
def minilm(models_folder: Path) -> PreparedModel:
    from memory_manager.recall.models.sources import FALLBACK_MODEL

    return _prepared(models_folder, FALLBACK_MODEL)


@pytest.fixture(scope="session")
def e5(models_folder: Path) -> PreparedModel:
    from memory_manager.recall.models.sources import DEFAULT_MODEL

    return _prepared(models_folder, DEFAULT_MODEL)
