"""The sdist and the wheel built from it: what is in them, and that the wheel works elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOTS = ("daemon", "sync")  # the source roots that have files by now

pytestmark = [pytest.mark.packaging, pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def built(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one sdist and the wheel that was built from it."""
    target = tmp_path_factory.mktemp("dist")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); sys.dont_write_bytecode = True\n"
        "import dev_build; from pathlib import Path\n"
        "dev_build.build(sys.executable, Path(sys.argv[2]), Path(sys.argv[3]))"
    )
    arguments = [str(repository / "packaging"), str(repository), str(target)]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, timeout=200)
    return target


def files_of_the_wheel(built: Path) -> set[str]:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_sdist_holds_sources_and_nothing_else(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    tops = {name.split("/")[0] for name in names}
    allowed = {*ROOTS, "tests", "packaging", "README.md", "CHANGELOG.md", "LICENSE"}
    assert tops - allowed == {"pyproject.toml", "PKG-INFO", ".gitignore"}
    assert {
        "packaging/dev.py",
        "README.md",
        "LICENSE",
        "daemon/memory_manager/cli/main.py",
    } <= names
    junk = [name for name in names if "__pycache__" in name or name.endswith((".pyc", ".key"))]
    assert junk == []


def test_wheel_holds_every_module_and_data_file_of_the_tree(built: Path, repository: Path) -> None:
    wanted = {
        path.relative_to(repository / root).as_posix()
        for root in ROOTS
        for path in (repository / root / "memory_manager").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc"
    }
    found = {name for name in files_of_the_wheel(built) if name.startswith("memory_manager/")}
    assert found == wanted
    assert "memory_manager/__init__.py" not in found
    for ending in (".sql", ".html", ".css"):
        assert any(name.endswith(ending) for name in found), ending


def test_wheel_has_licence_and_entry_point(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (entry,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
        assert "memlocket = memory_manager.cli.entry:main" in archive.read(entry).decode()
        assert any(name.endswith("licenses/LICENSE") for name in archive.namelist())


def test_installed_wheel_passes_the_self_test_from_elsewhere(built: Path, tmp_path: Path) -> None:
    """The wheel alone in a venv; its dependencies come from the environment of this run."""
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    (site,) = folder.glob("lib/python*/site-packages")
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    dependencies = tmp_path / "dependencies"
    dependencies.mkdir()
    (here,) = [Path(path) for path in sys.path if path.endswith("site-packages")][:1]
    for entry in here.iterdir():
        if "memlocket" not in entry.name.lower() and not entry.name.endswith(".pth"):
            (dependencies / entry.name).symlink_to(entry)
    (site / "dependencies.pth").write_text(f"{dependencies}\n")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
    }
    where = subprocess.run(
        [python, "-c", "import memory_manager.cli.main as m; print(m.__file__)"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert str(folder) in where
    done = subprocess.run(
        [python, "-m", "memory_manager.cli.main", "--selftest"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
