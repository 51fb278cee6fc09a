"""The parts of sqlcipher3.dbapi2 that are used, as the standard library's sqlite3 declares them."""

import sqlite3
from sqlite3 import (
    Blob as Blob,
    Cursor as Cursor,
    DatabaseError as DatabaseError,
    Error as Error,
    IntegrityError as IntegrityError,
    OperationalError as OperationalError,
    complete_statement as complete_statement,
    sqlite_version as sqlite_version,
)

class Connection(sqlite3.Connection):
    def set_key(self, key: bytes | bytearray) -> None: ...

def connect(
    database: str,
    timeout: float = ...,
    detect_types: int = ...,
    isolation_level: str | None = ...,
    check_same_thread: bool = ...,
    cached_statements: int = ...,
    uri: bool = ...,
) -> Connection: ...
