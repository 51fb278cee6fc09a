"""The owner's token: new at each start, readable by the owner alone (desktop.md 11.2)."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from memory_manager.auth.tokens import TOKEN_RANDOM_BYTES, new_token, token_digest
from memory_manager.base.private_files import write_private

TOKEN_NAME = "token"  # noqa: S105 - a file name


class OwnerToken:
    """Writes ``<runtime>/token`` and keeps only its digest."""

    def __init__(self, runtime_directory: Path) -> None:
        self._path = runtime_directory / TOKEN_NAME
        token = new_token(os.urandom(TOKEN_RANDOM_BYTES))
        self.digest = token_digest(token)
        write_private(self._path, token.encode("ascii") + b"\n", durable=False)

    def remove(self) -> None:
        """Take the file away; the token ends with this process anyway."""
        with contextlib.suppress(OSError):
            self._path.unlink()
