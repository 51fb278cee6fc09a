"""Copies of the server's SQLite files while it runs, and the heads that recognise one."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from memory_manager.base.private_files import check_private_file
from memory_manager.sync.server.sqlite.database import FILE_NAME, connect, outside_errors
from memory_manager.sync.server.sqlite.vaults import heads
from memory_manager.sync.server.storage import VaultHead


def back_up(folder: Path, target: Path) -> tuple[VaultHead, ...]:
    """Copy the database of ``folder`` to the new file ``target``; (n, G) of every vault in the
    copy. The server's key is not in it. Raises what ``copy_file`` raises.
    """
    copy_file(folder / FILE_NAME, target)
    with outside_errors(), contextlib.closing(sqlite3.connect(target)) as copy:
        return heads(copy)


def copy_file(path: Path, target: Path) -> None:
    """Copy a SQLite file to the new file ``target``, 0600 and one snapshot, durable. A running
    server may go on writing. Blocks. FileExistsError, StorageUnavailable, UnsafeFile.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    os.close(os.open(target, flags, 0o600))
    try:
        with outside_errors():
            check_private_file(path)
            with (
                contextlib.closing(connect(path)) as source,
                contextlib.closing(connect(target)) as copy,
            ):
                source.backup(copy)
                # one file, nothing beside it
                copy.execute("PRAGMA journal_mode = DELETE")
            _sync(target)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
