"""Names of the vault's files (vault.md 2) and the first look at them."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import stat
from pathlib import Path

from memory_manager.base.private_files import (
    UnsafeFile,
    check_private_directory,
    check_private_file,
)

HEAD_BYTES = 16
PLAINTEXT_MAGIC = b"SQLite format 3\0"
REKEY_SUFFIX = ".rekey"
PREVIOUS_SUFFIX = ".prev"
SQLITE_SUFFIXES = ("", "-journal", "-wal", "-shm")
"""A database file and what SQLite keeps beside it; a process killed early leaves a journal."""


@dataclasses.dataclass(frozen=True, slots=True)
class VaultPaths:
    """All files of the vault in ``directory``."""

    directory: Path

    @property
    def database(self) -> Path:
        return self.directory / "vault.db"

    @property
    def wal(self) -> Path:
        return self.directory / "vault.db-wal"

    @property
    def shm(self) -> Path:
        return self.directory / "vault.db-shm"

    @property
    def rekey_copy(self) -> Path:
        return self.directory / f"vault.db{REKEY_SUFFIX}"

    @property
    def slots(self) -> Path:
        return self.directory / "vault.slots"

    @property
    def slots_previous(self) -> Path:
        return self.directory / f"vault.slots{PREVIOUS_SUFFIX}"

    @property
    def device_key(self) -> Path:
        return self.directory / "device.key"

    @property
    def device_key_previous(self) -> Path:
        return self.directory / f"device.key{PREVIOUS_SUFFIX}"

    @property
    def anchor(self) -> Path:
        return self.directory / "anchor.bin"

    @property
    def anchor_previous(self) -> Path:
        return self.directory / f"anchor.bin{PREVIOUS_SUFFIX}"

    @property
    def images(self) -> Path:
        return self.directory / "images"

    @property
    def ballast(self) -> Path:
        return self.directory / "ballast.bin"

    @property
    def building(self) -> Path:
        """Where setup and restore build a whole vault before the final rename."""
        return self.directory.with_name(f"{self.directory.name}.new")


def check_private(paths: VaultPaths) -> None:
    """Raise UnsafeFile unless the folder and every file that is there are ours and closed to
    others; the hint is the command that closes it.
    """
    check_private_directory(paths.directory)
    for path in (
        paths.database,
        paths.wal,
        paths.shm,
        paths.slots,
        paths.slots_previous,
        paths.device_key,
        paths.anchor,
    ):
        with contextlib.suppress(FileNotFoundError):
            check_private_file(path)


def read_head(database: Path) -> bytes:
    """The first 16 bytes of a database file, fewer when it is shorter.

    UnsafeFile for anything but a regular file: opening a pipe would wait for ever, and behind a
    link SQLite looks for the write-ahead log beside the target and loses the one that is here.
    """
    try:
        descriptor = os.open(database, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise UnsafeFile(f"{database} is not a regular file.") from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnsafeFile(f"{database} is not a regular file.")
        return os.pread(descriptor, HEAD_BYTES, 0)
    finally:
        os.close(descriptor)
