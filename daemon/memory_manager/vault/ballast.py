"""``ballast.bin``: 2 MiB given back when the disk is full, because then even DELETE fails."""

from __future__ import annotations

import contextlib
import shutil

from memory_manager.base.private_files import write_private
from memory_manager.vault.paths import VaultPaths

BALLAST_BYTES = 2 * 1024 * 1024
_FREE_BYTES_TO_RECREATE = 2 * BALLAST_BYTES


def free(paths: VaultPaths) -> bool:
    """Give the space back; whether there was any."""
    with contextlib.suppress(FileNotFoundError, OSError):
        paths.ballast.unlink()
        return True
    return False


def ensure(paths: VaultPaths) -> bool:
    """Create the ballast when it is missing and twice its size is free; whether it is there."""
    try:
        if paths.ballast.exists():
            return True
        if shutil.disk_usage(paths.directory).free < _FREE_BYTES_TO_RECREATE:
            return False
        write_private(paths.ballast, bytes(BALLAST_BYTES))
    except OSError:
        return False
    return True


def can_write(paths: VaultPaths) -> bool:
    """Whether the vault's folder takes a small file now."""
    probe = paths.directory / "write.probe"
    try:
        write_private(probe, bytes(4096))
        probe.unlink()
    except OSError:
        return False
    return True
