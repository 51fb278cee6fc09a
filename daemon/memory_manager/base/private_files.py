"""Files and folders that are born private and are never written through a planted link.

Contract: desktop.md 11.3, vault.md 2. Nothing else in the product creates a file it keeps.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

from memory_manager.base.errors import MemlocketError, Outcome

_PRIVATE_FILE = 0o600
_PRIVATE_DIR = 0o700


class UnsafeFile(MemlocketError):
    """A file or folder of ours is a link, is foreign, or is open to others: refused."""

    code = "unsafe_file"
    title = "Unsafe file"
    outcome = Outcome.ASK_USER
    exit_code = 5
    default_message = "A file of the memory service is not private; it was not used."


def _check_owner_and_mode(path: Path, info: os.stat_result) -> None:
    if hasattr(os, "getuid") and info.st_uid != os.getuid():
        raise UnsafeFile(f"{path} belongs to another user.")
    if info.st_mode & 0o077:
        raise UnsafeFile(f"{path} is open to other users.", hint=f"Run: chmod go-rwx '{path}'")


def ensure_private_directory(path: Path) -> None:
    """Create ``path`` and what is missing above it, all 0700; refuse a ``path`` that is a link,
    has a foreign owner, or has group or other bits.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        # mkdir(parents=True) would give the folders above the mode of the caller's umask
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=_PRIVATE_DIR)
    check_private_directory(path)


def check_private_directory(path: Path) -> None:
    """Raise UnsafeFile unless ``path`` is a real directory of ours without group or other bits."""
    info = path.lstat()
    if not stat.S_ISDIR(info.st_mode):
        raise UnsafeFile(f"{path} is not a directory.")
    _check_owner_and_mode(path, info)


def check_private_file(path: Path) -> None:
    """Raise UnsafeFile unless ``path`` is a regular file of ours without group or other bits."""
    info = path.lstat()
    if not stat.S_ISREG(info.st_mode):
        raise UnsafeFile(f"{path} is not a regular file.")
    _check_owner_and_mode(path, info)


def open_private(path: Path, flags: int) -> int:
    """``os.open`` of an existing private regular file without following links."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise UnsafeFile(f"{path} is not a regular file.")
        _check_owner_and_mode(path, info)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_private(path: Path, max_bytes: int) -> bytes:
    """Contents of a private file of at most ``max_bytes``.

    Raises FileNotFoundError when it is absent, UnsafeFile for anything but a private regular file.
    """
    try:
        descriptor = open_private(path, os.O_RDONLY)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnsafeFile(f"{path} cannot be opened as a private file.") from error
    with os.fdopen(descriptor, "rb") as stream:
        data = stream.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise UnsafeFile(f"{path} is larger than {max_bytes} bytes.")
    return data


def sync_directory(path: Path) -> None:
    """fsync a directory, so that renames inside it survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def private_writer(path: Path, *, durable: bool = True) -> Generator[BinaryIO]:
    """A stream whose content replaces ``path`` atomically, 0600, when the block ends well.

    A crash or an exception leaves the old content; with ``durable`` the new one survives a power
    cut.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    descriptor = os.open(
        temporary,
        os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
        _PRIVATE_FILE,
    )
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    if durable:
        sync_directory(path.parent)


def write_private(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replace ``path`` atomically by a 0600 file with ``data``; see ``private_writer``."""
    with private_writer(path, durable=durable) as stream:
        stream.write(data)
