"""``dev.py build``: the sdist, then the wheel from the unpacked sdist, both into ``dist/``."""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from pathlib import Path

from dev_environment import ROOT, Failure, ensure_packages, quietly, venv_python

DIST = ROOT / "dist"


def build_wheel() -> int:
    ensure_packages("base")
    ensure_packages("build")
    build(str(venv_python()), ROOT, DIST)
    for made in sorted(DIST.iterdir()):
        print(made)
    return 0


def build(python: str, source: Path, target: Path) -> None:
    """Build both with the hatchling of ``python``; what was in ``target`` is removed."""
    shutil.rmtree(str(target), ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="memlocket-build-") as folder:
        _hatchling(python, source, "sdist", target)
        (archive,) = target.glob("*.tar.gz")
        with tarfile.open(str(archive)) as stream:
            stream.extractall(folder)  # noqa: S202  we made this archive a moment ago
        (unpacked,) = Path(folder).iterdir()
        _hatchling(python, unpacked, "wheel", target)


def _hatchling(python: str, source: Path, kind: str, target: Path) -> None:
    command = [python, "-m", "hatchling", "build", "-t", kind, "-d", str(target)]
    if not quietly(command, "hatchling", cwd=source):
        raise Failure(f"The {kind} could not be built.")
