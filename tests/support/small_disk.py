"""A real disk of a few MiB, to be filled: a tmpfs."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def small_disk(folder: Path, size_mib: int) -> Iterator[Path]:
    """A tmpfs of a few MiB at ``folder``; skips without root or without the right to mount."""
    if os.geteuid() != 0:
        pytest.skip("run as root: mounts a tmpfs")
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_mib}m,mode=0700", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("may not mount a tmpfs: run outside a container, or in one with CAP_SYS_ADMIN")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
