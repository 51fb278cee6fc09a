"""SQLite's result codes as errors of ours: the one place where a database exception is judged."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Generator

from memory_manager.base.errors import MemlocketError
from memory_manager.vault.connection import is_write_failure
from memory_manager.vault.errors import Busy, LockReason, NeedsRepair, ReadOnly, VaultLocked

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_CONTENDED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def result_code(error: BaseException) -> int | None:
    """SQLite's primary result code, None for anything that is not a database error."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


def write_error(error: BaseException) -> MemlocketError | None:
    """What a failed write means to its caller; None when the error speaks for itself."""
    if is_write_failure(error):
        return ReadOnly()
    return _common(error)


def read_error(error: BaseException) -> MemlocketError | None:
    """What a failed read means to its caller; None when the error speaks for itself."""
    if result_code(error) == sqlite3.SQLITE_IOERR:
        return NeedsRepair("A page of the database cannot be read.")
    return _common(error)


def _common(error: BaseException) -> MemlocketError | None:
    code = result_code(error)
    if code in _DAMAGED:
        return NeedsRepair()
    if code in _CONTENDED:
        return Busy()
    if code == sqlite3.SQLITE_INTERRUPT:  # only a closing store interrupts
        return VaultLocked(LockReason.USER)
    return None


@contextlib.contextmanager
def typed_write_errors() -> Generator[None]:
    """Inside: what the disk or the database refuses is raised as an error of ours."""
    try:
        yield
    except Exception as error:
        known = write_error(error)
        if known is None:
            raise
        raise known from None
