"""The insecure key file for tests and sandboxes (vault.md 4.2): strict, made only on request."""

from __future__ import annotations

import os
import re
from pathlib import Path

from memory_manager.base.private_files import UnsafeFile, read_private
from memory_manager.vault.errors import KeyFileRefused
from memory_manager.vault.kdf import KEY_BYTES, new_key, wipe

_HEX = re.compile(rb"[0-9a-fA-F]{64}\n?")
_MAX_BYTES = 66


def read_key_file(path: Path) -> bytearray:
    """The 32-byte key in ``path``: raw, or 64 hex digits with at most one line feed.

    KeyFileRefused for a missing file, a link, a foreign owner, group or other bits, other lengths.
    """
    try:
        data = read_private(path, _MAX_BYTES)
    except FileNotFoundError:
        raise KeyFileRefused(f"There is no key file at {path}.") from None
    except UnsafeFile as error:
        raise KeyFileRefused(error.message, hint=error.hint) from None
    if len(data) == KEY_BYTES:
        return bytearray(data)
    if _HEX.fullmatch(data):
        return bytearray.fromhex(data.decode("ascii"))
    raise KeyFileRefused("A key file holds 32 raw bytes or 64 hex digits.")


def create_key_file(path: Path) -> None:
    """Write a new random key, born 0600. KeyFileRefused when something is there already."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileExistsError:
        raise KeyFileRefused(f"{path} exists; a key file is never replaced.") from None
    except OSError as error:
        raise KeyFileRefused(f"{path} cannot be created: {error.strerror}.") from None
    key = new_key()
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(key)
            stream.flush()
            os.fsync(stream.fileno())
    finally:
        wipe(key)
