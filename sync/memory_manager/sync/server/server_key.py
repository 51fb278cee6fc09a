"""The Ed25519 key that clients pin: born 0600 at the first start, told to people as six words."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
from pathlib import Path
from typing import Final

from nacl.signing import SigningKey

from memory_manager.base.private_files import (
    ensure_private_directory,
    read_private,
    sync_directory,
    write_private,
)
from memory_manager.sync.server.errors import ServerKeyRefused
from memory_manager.sync.wire.labels import server_words
from memory_manager.sync.wire.log import ServerHead, sign_server_head

KEY_NAME: Final = "server.key"
SEED_BYTES: Final = 32
MAX_FILE_BYTES: Final = 65_536


@dataclasses.dataclass(frozen=True, slots=True)
class ServerKey:
    """Signs statements about heads; ``public`` is what clients pin, 32 bytes."""

    signing: SigningKey = dataclasses.field(repr=False)
    public: bytes

    @property
    def words(self) -> tuple[str, ...]:
        """Six words to compare where the server is pinned."""
        return server_words(self.public)

    def sign_head(self, vault: bytes, n: int, g: bytes) -> bytes:
        """The signature of 64 bytes over the statement that ``vault`` has ``n`` rows and head
        ``g``.
        """
        return sign_server_head(self.signing, vault, ServerHead(n, g))


def key_path(data: Path) -> Path:
    return data / KEY_NAME


def has_key(data: Path) -> bool:
    """Whether the folder has a key file, of whatever form."""
    return os.path.lexists(key_path(data))


def load_or_create_key(data: Path) -> ServerKey:
    """The key in the folder ``data``, made at the first start; UnsafeFile if others can read it,
    ServerKeyRefused if it is damaged.
    """
    ensure_private_directory(data)
    path = key_path(data)
    try:
        return load_key(data)
    except FileNotFoundError:
        _create(path)
    return load_key(data)


def _create(path: Path) -> None:
    """A new seed at ``path``, unless another process that starts beside this one was faster."""
    made = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    write_private(made, os.urandom(SEED_BYTES))
    try:
        with contextlib.suppress(FileExistsError):
            os.link(made, path)
    finally:
        made.unlink()
    sync_directory(path.parent)


def load_key(data: Path) -> ServerKey:
    """The key of a server that was started before.

    FileNotFoundError, UnsafeFile, ServerKeyRefused.
    """
    seed = read_private(key_path(data), MAX_FILE_BYTES)
    if len(seed) != SEED_BYTES:
        raise ServerKeyRefused
    signing = SigningKey(seed)
    return ServerKey(signing, bytes(signing.verify_key))
