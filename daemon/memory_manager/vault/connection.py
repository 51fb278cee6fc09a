"""Opening the SQLCipher database, in the one order that is safe (vault.md 5).

A forgotten key would create a plaintext database and a wrong one looks like corruption; both are
told apart here. Each thread needs a connection of its own, which is its caller's duty: connections
are opened without SQLite's thread check because the store closes them from another thread.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from memory_manager.vault import authorizer, kdf
from memory_manager.vault.errors import (
    KeyFormat,
    NeedsRepair,
    PlaintextDatabase,
    ReadOnly,
    SlotDamaged,
    VaultError,
    WrongFile,
)
from memory_manager.vault.paths import PLAINTEXT_MAGIC, read_head

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

RECALL_CACHE_KIB = 65_536
SMALL_CACHE_KIB = 8_192
SALT_BYTES = 16
BUSY_TIMEOUT_SECONDS = 5.0
_LITERAL_BYTES = 99
_WRITE_FAILURE_TEXTS = frozenset(
    {"database or disk is full", "disk I/O error", "attempt to write a readonly database"}
)
_WRITE_FAILURE_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})
_HEX_DIGITS = b"0123456789abcdef"


def key_literal(dbk: bytes | bytearray, salt: bytes) -> bytearray:
    """``x'<96 hex>'`` written digit by digit, so that the only copy is the one the caller wipes.

    Anything but exactly 99 bytes would silently become a *passphrase* of SQLCipher's own KDF.
    """
    if len(dbk) != kdf.KEY_BYTES or len(salt) != SALT_BYTES:
        raise KeyFormat
    literal = bytearray(_LITERAL_BYTES)
    literal[0:2] = b"x'"
    position = 2
    for part in (dbk, salt):
        for byte in part:
            literal[position] = _HEX_DIGITS[byte >> 4]
            literal[position + 1] = _HEX_DIGITS[byte & 15]
            position += 2
    literal[position:] = b"'"
    if len(literal) != _LITERAL_BYTES:
        raise KeyFormat
    return literal


def verdict(
    head: bytes, salt: bytes, *, key_committed: bool, previous_salt: bytes | None = None
) -> VaultError | None:
    """What "file is not a database" means (the table of vault.md 5.2).

    None: an interrupted copy-rekey, the previous slot file is the right one.
    """
    if head == PLAINTEXT_MAGIC:
        return PlaintextDatabase()
    if head == salt:
        return NeedsRepair() if key_committed else SlotDamaged()
    if previous_salt is not None and head == previous_salt:
        return None
    return WrongFile()


def open_database(
    path: Path,
    dbk: bytes | bytearray,
    salt: bytes,
    *,
    cache_kib: int = RECALL_CACHE_KIB,
    create: bool = False,
    maintenance: bool = False,
    read_only: bool = False,
) -> Connection:
    """An open, keyed, checked connection with the settings of vault.md 5.3.

    ``dbk`` has been checked against ``db.commit`` by the caller. ``create`` is for setup, restore
    and copy-rekey only; ``maintenance`` leaves the authorizer out and is for this package only;
    ``read_only`` refuses every write, and so does a read-only disk. Raises PlaintextDatabase,
    WrongFile, NeedsRepair, ReadOnly, KeyFormat, or FileNotFoundError when the file is missing.
    """
    import sqlcipher3.dbapi2 as sqlcipher

    os.umask(0o077)
    literal = key_literal(dbk, salt)
    frozen = not create and disk_is_read_only(path)
    mode = "rwc" if create else "rw"
    if frozen:
        # without a writable folder there is no WAL index; without a WAL the file alone is whole
        mode = "ro&immutable=1"
        wal = path.with_name(f"{path.name}-wal")
        if wal.exists() and wal.stat().st_size:
            kdf.wipe(literal)
            raise ReadOnly("The disk is read-only and the last shutdown was not clean.")
    try:
        connection = sqlcipher.connect(
            f"file:{quote(str(path))}?mode={mode}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=BUSY_TIMEOUT_SECONDS,
        )
    except sqlcipher.OperationalError:
        kdf.wipe(literal)
        if not path.exists():
            raise FileNotFoundError(f"{path.name} is missing") from None
        raise ReadOnly(f"{path.name} cannot be opened.") from None
    try:
        # the default prints page errors to stderr
        connection.execute("PRAGMA cipher_log_level=NONE")
        # a bytearray can be wiped, and a trace callback never sees it (PRAGMA key it does)
        connection.set_key(literal)
        kdf.wipe(literal)
        _check_key(connection, path, salt, create=create)
        _configure(connection, cache_kib, frozen=frozen)
        if read_only or frozen:
            connection.execute("PRAGMA query_only=ON")
        if not maintenance:
            authorizer.install(connection)
    except BaseException:
        kdf.wipe(literal)
        connection.close()
        raise
    return connection


def _check_key(connection: Connection, path: Path, salt: bytes, *, create: bool) -> None:
    import sqlcipher3.dbapi2 as sqlcipher

    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlcipher.OperationalError as error:
        raise ReadOnly(f"{path.name} cannot be read.") from error
    except sqlcipher.DatabaseError:
        raise verdict(read_head(path), salt, key_committed=True) or WrongFile() from None
    if connection.execute("PRAGMA cipher_status").fetchone() != ("1",):
        raise PlaintextDatabase
    if create:
        return  # nothing is on disk before the first write; the creator checks at its end
    head = read_head(path)
    if head == PLAINTEXT_MAGIC:
        raise PlaintextDatabase
    if head != salt:
        raise WrongFile


def disk_is_read_only(path: Path) -> bool:
    """Whether the file system that holds ``path`` is mounted read-only."""
    try:
        return bool(os.statvfs(path.parent).f_flag & os.ST_RDONLY)
    except (AttributeError, OSError):  # Windows has no statvfs
        return False


def _configure(connection: Connection, cache_kib: int, *, frozen: bool) -> None:
    if not frozen:
        mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()
        if mode != ("wal",):
            raise ReadOnly("The database cannot use its write-ahead log.")
    for setting in (
        "synchronous=NORMAL",
        "temp_store=2",
        f"cache_size=-{cache_kib:d}",
        "foreign_keys=ON",
        "cell_size_check=ON",
        "secure_delete=ON",
        "trusted_schema=OFF",
    ):
        connection.execute(f"PRAGMA {setting}")


def pages_are_whole(connection: Connection) -> bool:
    """Whether every page this connection has read so far was authentic.

    A damaged page does not always raise: when it is the last of a long value, SQLCipher hands out
    **zeros** for it, once and without an error. It remembers the failure for the connection,
    though, and most of what is read on it afterwards fails. So whoever trusts what was read asks
    here, and throws the connection away when the answer is no. Takes about 20 microseconds.
    """
    import sqlcipher3.dbapi2 as sqlcipher

    try:
        return bool(connection.execute("PRAGMA cipher_status").fetchone() == ("1",))
    except sqlcipher.Error:
        return False


def is_write_failure(error: BaseException) -> bool:
    """Whether a database or OS error means the disk refuses writes: full, read-only, quota, I/O."""
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(code, int):
        return (code & 0xFF) in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR)
    if isinstance(error, OSError):  # a timeout or a missing right is one too, and says nothing
        return error.errno in _WRITE_FAILURE_ERRNOS
    # errors of the backup call carry no code
    return str(error) in _WRITE_FAILURE_TEXTS
