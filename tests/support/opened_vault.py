"""The database of a stopped daemon, opened with the product's own code, to look or to damage."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from sandbox_daemon import SandboxDaemon

from memory_manager.vault import kdf, slots
from memory_manager.vault.connection import open_database
from memory_manager.vault.key_file import read_key_file
from memory_manager.vault.paths import VaultPaths
from memory_manager.vault.slot_files import read_slot_file
from memory_manager.vault.slots import SlotType


def vault_paths(daemon: SandboxDaemon) -> VaultPaths:
    return VaultPaths(daemon.home / "vault")


def keys_of(daemon: SandboxDaemon) -> dict[str, bytes]:
    """Every key of the hierarchy that the key file opens, by name."""
    file_key = read_key_file(daemon.key_file)
    slot_file = read_slot_file(vault_paths(daemon).slots)
    assert slot_file is not None
    slot = slot_file.find(SlotType.INSECURE_FILE)
    assert slot is not None
    luk = slots.open_slot(slot_file, slot, file_key)
    return {
        "key file": bytes(file_key),
        "vault key": bytes(luk),
        "database key": bytes(kdf.database_key(luk)),
        "anchor key": bytes(kdf.anchor_key(luk)),
        "device wrapping key": bytes(kdf.device_wrap_key(luk)),
        "backup wrapping key": bytes(kdf.backup_wrap_key(luk)),
    }


@contextlib.contextmanager
def opened(daemon: SandboxDaemon) -> Iterator[Any]:
    """A maintenance connection: it may do what the product's may not."""
    paths = vault_paths(daemon)
    salt = paths.database.read_bytes()[:16]
    connection = open_database(
        paths.database, keys_of(daemon)["database key"], salt, maintenance=True
    )
    try:
        yield connection
    finally:
        connection.close()
