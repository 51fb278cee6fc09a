"""Brings a vault's schema up to date: numbered files ``NNNN_name.sql``, never changed, only added.

Each file runs in one transaction together with its entry in ``schema_migration`` and, since it is a
write like any other, the bump of the generation. Contract: vault.md 8.
"""

from __future__ import annotations

import functools
import importlib.resources
from typing import TYPE_CHECKING

from memory_manager.base.schema_files import Migration, read_migrations
from memory_manager.base.times import now_ms
from memory_manager.vault.errors import NewerSchema, SchemaMismatch

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

_LOG_TABLE = """CREATE TABLE IF NOT EXISTS schema_migration(
  number INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL,
  applied_at_ms INTEGER NOT NULL) STRICT"""


@functools.cache
def migrations() -> tuple[Migration, ...]:
    """All shipped migrations in order."""
    return read_migrations(importlib.resources.files(__name__))


SCHEMA_VERSION = len(migrations())
"""The schema this program writes: the number of its last migration."""


def schema_version(connection: Connection) -> int:
    """The schema of a vault; 0 for a new, empty database."""
    has_log = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_migration'"
    ).fetchone()
    if has_log is None:
        return 0
    (number,) = connection.execute(
        "SELECT coalesce(max(number), 0) FROM schema_migration"
    ).fetchone()
    return int(number)


def migrate(connection: Connection) -> int:
    """Apply what is missing and return the schema version reached.

    ``connection`` is in autocommit mode and outside a transaction. Raises NewerSchema, having
    changed nothing, for a vault of a newer program, and SchemaMismatch when a migration that was
    applied is not the one we ship. A failing migration leaves the schema before it.
    """
    current = schema_version(connection)
    if current > SCHEMA_VERSION:
        raise NewerSchema
    if current:
        _check_applied(connection)
    if current < SCHEMA_VERSION:
        # NORMAL could lose the migration, but not the anchor's generation, in a power cut.
        connection.execute("PRAGMA synchronous = FULL")
    for migration in migrations()[current:]:
        _apply(connection, migration)
    return SCHEMA_VERSION


def read_generation(connection: Connection) -> int:
    """The number of committed write batches; the anchor witnesses it (vault.md 9)."""
    (value,) = connection.execute(
        "SELECT value FROM vault_state WHERE key = 'generation'"
    ).fetchone()
    return int(value)


def bump_generation(connection: Connection) -> int:
    """Count one write batch inside its own transaction and return the new generation."""
    (value,) = connection.execute(
        "UPDATE vault_state SET value = value + 1 WHERE key = 'generation' RETURNING value"
    ).fetchone()
    return int(value)


def _check_applied(connection: Connection) -> None:
    applied = dict(connection.execute("SELECT number, checksum FROM schema_migration").fetchall())
    ours = {migration.number: migration.checksum for migration in migrations()}
    if any(ours[number] != checksum for number, checksum in applied.items()):
        raise SchemaMismatch


def _apply(connection: Connection, migration: Migration) -> None:
    from sqlcipher3.dbapi2 import complete_statement

    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(_LOG_TABLE)
        for statement in migration.statements(complete_statement):
            connection.execute(statement)
        connection.execute(
            "INSERT INTO schema_migration(number, name, checksum, applied_at_ms)"
            " VALUES(?, ?, ?, ?)",
            (migration.number, migration.name, migration.checksum, now_ms()),
        )
        bump_generation(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
