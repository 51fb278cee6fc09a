"""What a killed setup or restore left beside the vault: finished where it was whole, else removed.

The caller holds ``vault.lock``: nobody else is building there now.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

from memory_manager.base.private_files import sync_directory
from memory_manager.vault.paths import VaultPaths

_log = logging.getLogger(__name__)


def staging_folder(vault_directory: Path) -> Path:
    """Where restore unpacks a bundle."""
    return vault_directory.with_name(f"{vault_directory.name}.restoring")


def restored_folder(vault_directory: Path) -> Path:
    """A whole restored vault, before it takes the place of the present one."""
    return vault_directory.with_name(f"{vault_directory.name}.restored")


def settle(vault_directory: Path) -> None:
    """Finish a restore that had put the former vault aside, or had none; remove all the rest.

    OSError when the disk refuses; then everything is as it was or one step further.
    """
    restored = VaultPaths(restored_folder(vault_directory))
    if not _holds_anything(vault_directory) and restored.slots.exists():
        if vault_directory.exists():
            vault_directory.rmdir()
        os.rename(restored.directory, vault_directory)
        sync_directory(vault_directory.parent)
        _log.info("restore_finished")
    discard(vault_directory)


def discard(vault_directory: Path) -> None:
    """Remove every half-made vault beside ``vault_directory``."""
    restored = restored_folder(vault_directory)
    for folder in (
        staging_folder(vault_directory),
        VaultPaths(vault_directory).building,
        VaultPaths(restored).building,
        restored,
    ):
        shutil.rmtree(folder, ignore_errors=True)


def _holds_anything(folder: Path) -> bool:
    if folder.is_dir() and not folder.is_symlink():
        return any(folder.iterdir())
    return os.path.lexists(folder)
