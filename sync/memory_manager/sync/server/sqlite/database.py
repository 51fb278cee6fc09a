"""The file of the server's storage: born private, its pragmas, its schema."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final, TypeVar

from memory_manager.base.private_files import check_private_file, ensure_private_directory
from memory_manager.base.schema_files import Migration
from memory_manager.base.times import now_ms
from memory_manager.sync.server.migrations import migrations, missing
from memory_manager.sync.server.refusals import StorageUnavailable

T = TypeVar("T")

FILE_NAME: Final = "sync.db"
_BUSY_MS: Final = 5_000
_LOG_TABLE: Final = """CREATE TABLE IF NOT EXISTS schema_migration(
  number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL,
  applied_at_ms INTEGER NOT NULL) STRICT"""
# what the disk or another process does to us, not a mistake of our own
_OUTSIDE: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
    }
)

_log = logging.getLogger(__name__)


def connect(path: Path) -> sqlite3.Connection:
    """A connection in autocommit mode; the thread that uses it may be another one later."""
    connection = sqlite3.connect(
        path, isolation_level=None, check_same_thread=False, timeout=_BUSY_MS / 1000
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA trusted_schema = OFF")
    except BaseException:
        connection.close()
        raise
    return connection


def open_file(folder: Path) -> Path:
    """The migrated database in ``folder``, which is made private like the file in it."""
    path = folder / FILE_NAME
    with outside_errors():
        ensure_private_directory(folder)
        with contextlib.suppress(FileExistsError):
            # SQLite gives its journals the mode of the database
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            os.close(os.open(path, flags, 0o600))
        check_private_file(path)
        with contextlib.closing(connect(path)) as connection:
            _migrate(connection)
    return path


def _migrate(connection: sqlite3.Connection) -> None:
    # one transaction: of two processes that start together the second one finds all done
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(_LOG_TABLE)
        applied = dict(connection.execute("SELECT number, checksum FROM schema_migration"))
        for migration in missing(migrations("sqlite"), applied):
            _apply(connection, migration)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _apply(connection: sqlite3.Connection, migration: Migration) -> None:
    for statement in migration.statements(sqlite3.complete_statement):
        connection.execute(statement)
    connection.execute(
        "INSERT INTO schema_migration(number, name, checksum, applied_at_ms) VALUES (?, ?, ?, ?)",
        (migration.number, migration.name, migration.checksum, now_ms()),
    )


@contextlib.contextmanager
def outside_errors() -> Generator[None]:
    """What the system refuses becomes StorageUnavailable."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if not is_outside_error(error):
            raise
        _log.error("server_storage_unavailable", extra={"error_type": type(error).__name__})
        raise StorageUnavailable from error


def is_outside_error(error: BaseException) -> bool:
    """Whether a full, slow, read-only or damaged disk is the reason."""
    if isinstance(error, sqlite3.Error):
        return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF in _OUTSIDE
    return isinstance(error, OSError)


@contextlib.contextmanager
def snapshot(connection: sqlite3.Connection) -> Generator[sqlite3.Connection]:
    """Several reads of one state of the database."""
    connection.execute("BEGIN")
    try:
        yield connection
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


Work = Callable[[sqlite3.Connection], T]
