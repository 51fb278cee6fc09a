"""One daemon per data directory: a kernel lock on ``vault.lock`` that dies with its process.

Contract: desktop.md 8, vault.md 2. Never judged by pid text, never deleted, never inherited.
"""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path
from types import TracebackType

from memory_manager.base.private_files import UnsafeFile
from memory_manager.vault.errors import AlreadyRunning

LOCK_NAME = "vault.lock"
_FILE_MODE = 0o600


class InstanceLock:
    """Held from ``acquire`` to ``release``; the kernel drops it when the process ends."""

    def __init__(self, data_directory: Path) -> None:
        self._path = data_directory / LOCK_NAME
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock or raise AlreadyRunning; the data directory must exist and be private.

        Nothing happens when this object holds it already.
        """
        if self._descriptor is not None:
            return
        descriptor = _open_lock_file(self._path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise AlreadyRunning from None
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        """Let the next daemon in; harmless when the lock is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> InstanceLock:
        self.acquire()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


def _open_lock_file(path: Path) -> int:
    # O_NONBLOCK: a FIFO planted under this name must not hang the start. CLOEXEC: children such as
    # the embedder worker must not keep the lock alive after us.
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, _FILE_MODE)
    except OSError as error:
        raise UnsafeFile(f"{path} cannot be opened as a private file.") from error
    info = os.fstat(descriptor)
    if not stat.S_ISREG(info.st_mode) or info.st_uid != os.getuid():
        os.close(descriptor)
        raise UnsafeFile(f"{path} is not a file of ours.")
    if stat.S_IMODE(info.st_mode) != _FILE_MODE:
        os.fchmod(descriptor, _FILE_MODE)
    return descriptor
