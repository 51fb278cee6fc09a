"""One server process for a folder with a SQLite store: a lock the kernel drops with the process."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Generator
from pathlib import Path
from typing import Final

from memory_manager.base.private_files import ensure_private_directory
from memory_manager.sync.server.errors import ServerAlreadyRunning

LOCK_NAME: Final = "server.lock"


@contextlib.contextmanager
def folder_lock(data: Path) -> Generator[None]:
    """Hold the folder for the length of the block; ServerAlreadyRunning. Blocks never."""
    ensure_private_directory(data)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(data / LOCK_NAME, flags, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ServerAlreadyRunning from None
        yield
    finally:
        os.close(descriptor)
