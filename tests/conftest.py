"""What every test run says about itself and the paths that several folders share."""

from __future__ import annotations

import importlib.util
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings
from short_folder import short_folder

if TYPE_CHECKING:
    from memory_manager.recall.models.installed import PreparedModel

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = REPOSITORY.parent / "shared"
_UMASK = os.umask(0o022)
os.umask(_UMASK)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough",
        action="store_true",
        help="crash, growth, property and recall tests with their full counts: half an hour more",
    )


def pytest_report_header() -> list[str]:
    """Versions that decide results: SQLCipher and the embedding stack."""
    from sqlcipher3 import dbapi2

    connection = dbapi2.connect(":memory:")
    (cipher,) = connection.execute("PRAGMA cipher_version").fetchone()
    connection.close()
    embed = "installed" if importlib.util.find_spec("sentence_transformers") else "absent"
    return [f"sqlite {dbapi2.sqlite_version}, sqlcipher {cipher}, embeddings {embed}"]


def pytest_configure(config: pytest.Config) -> None:
    """Interrupts work, also in a run that a shell put into the background or under nohup.

    Properties are tried on the same examples in every run, however slow the machine is just then;
    ``--thorough`` draws others each time.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None:
        signal.signal(hangup, signal.SIG_DFL)
    settings.register_profile(
        "memlocket",
        deadline=None,
        derandomize=not config.getoption("--thorough"),
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("memlocket")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """The long files first, whatever order was drawn; model tests without their libraries skip."""
    yield
    needed = ("torch", "sentence_transformers", "onnxruntime", "tokenizers")
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    skip = pytest.mark.skip(reason=f"needs {', '.join(missing)}: packaging/dev.py test --full")
    long_files = {item.path for item in items if item.get_closest_marker("slow")}
    for item in items:
        if missing and item.get_closest_marker("embed"):
            item.add_marker(skip)
    items.sort(key=lambda item: item.path not in long_files)


@pytest.fixture(autouse=True)
def own_umask() -> Iterator[None]:
    """Opening a vault makes the umask of its whole process private: not that of the next test."""
    yield
    os.umask(_UMASK)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """In place of ``tmp_path`` where a test puts a Unix socket."""
    with short_folder() as folder:
        yield folder


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
        pytest.skip(f"needs the folder {SHARED} (contracts, labelled sets), which no checkout has")
    return SHARED


@pytest.fixture(scope="session")
def models_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where this session's models are; MEMLOCKET_TEST_MODELS keeps them for the next session."""
    chosen = os.environ.get("MEMLOCKET_TEST_MODELS")
    if chosen:
        return Path(chosen)
    if "PYTEST_XDIST_WORKER" in os.environ:  # the processes of one run share them
        return tmp_path_factory.getbasetemp().parent / "prepared"
    return tmp_path_factory.mktemp("prepared") / "models"


def _prepared(folder: Path, model_id: str) -> PreparedModel:
    import filelock  # comes with torch

    from memory_manager.recall.models.installed import read_model
    from memory_manager.recall.models.prepare import prepare

    folder.mkdir(mode=0o700, exist_ok=True)
    with filelock.FileLock(f"{folder}.lock"):
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
