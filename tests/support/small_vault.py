"""A keyed, migrated database in a folder, with the product's store and write path around it.

No key slots and no daemon: for tests of what stands inside the vault.
"""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from memory_manager.auth.agent_identity import AgentIdentity, agent_instance_id_hash
from memory_manager.base.identifiers import CredentialId
from memory_manager.base.times import now_ms
from memory_manager.vault import queries
from memory_manager.vault.connection import SMALL_CACHE_KIB, open_database
from memory_manager.vault.filters import RowFilter
from memory_manager.vault.memories import Memories
from memory_manager.vault.migrations import migrate
from memory_manager.vault.rows import (
    Attribution,
    MemoryDraft,
    MemoryRow,
    MemoryVersion,
    WriteOutcome,
)
from memory_manager.vault.store import Store
from memory_manager.vault.transaction import RowIndexer, Transaction

T = TypeVar("T")

KEY = bytes(range(32))
SALT = b"\x5a" * 16


def create_database(path: Path) -> None:
    connection = open_database(path, KEY, SALT, create=True)
    migrate(connection)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


@functools.cache
def empty_database() -> bytes:
    """A migrated database without a row, made once per process: migrating costs most of a test."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vault.db"
        create_database(path)
        return path.read_bytes()


def connect(path: Path, *, maintenance: bool = False) -> Any:
    return open_database(path, KEY, SALT, cache_kib=SMALL_CACHE_KIB, maintenance=maintenance)


def writer(agent: str | None = "hermes", instance: str = "laptop") -> Attribution:
    identity = AgentIdentity(agent, agent_instance_id_hash(instance))
    return Attribution(identity, CredentialId("credential-1"), "laptop client")


class SmallVault:
    def __init__(self, folder: Path, indexers: Sequence[RowIndexer] = (), **store: Any) -> None:
        self.path = folder / "vault.db"
        if not self.path.exists():
            self.path.write_bytes(empty_database())
        self.memories = Memories(indexers)
        self.store = Store(lambda: connect(self.path), **store)

    def write(self, work: Callable[[Transaction], T]) -> T:
        return self.store.submit(work).result(timeout=30)

    def write_at(self, unix_ms: int, work: Callable[[Transaction], T]) -> T:
        """As if the clock of that unit of work stood at ``unix_ms``."""

        def shifted(transaction: Transaction) -> T:
            transaction.now_ms = unix_ms
            return work(transaction)

        return self.write(shifted)

    def read(self, work: Callable[[Any], T]) -> T:
        return self.store.read_now(work)

    def remember(self, content: str, path: str = "notes", **draft: Any) -> WriteOutcome:
        who = draft.pop("writer", writer())
        proposed = MemoryDraft(content, path, **draft)
        return self.write(lambda tx: self.memories.remember(tx, proposed, who))

    def row(self, memory_id: str, *, include_deleted: bool = False) -> MemoryRow | None:
        return self.read(lambda c: queries.get_row(c, memory_id, include_deleted=include_deleted))

    def versions(self, memory_id: str) -> list[MemoryVersion]:
        return self.read(lambda c: queries.versions(c, memory_id))

    def listed(self, row_filter: RowFilter | None = None) -> list[MemoryRow]:
        chosen = row_filter or RowFilter()
        return self.read(lambda c: queries.list_rows(c, chosen, now_ms(), limit=10_000))

    def dump(self) -> bytes:
        """Every value of every table of the decrypted database, shadow tables included."""
        connection = connect(self.path, maintenance=True)
        try:
            found = bytearray()
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for (table,) in tables.fetchall():
                with contextlib.suppress(Exception):
                    for row in connection.execute(f'SELECT * FROM "{table}"'):
                        for value in row:
                            found += value if isinstance(value, bytes) else str(value).encode()
                            found += b"\n"
            return bytes(found)
        finally:
            connection.close()

    def close(self) -> None:
        self.store.close()


@contextlib.contextmanager
def small_vault(
    folder: Path, indexers: Sequence[RowIndexer] = (), **store: Any
) -> Iterator[SmallVault]:
    os.umask(0o077)
    vault = SmallVault(folder, indexers, **store)
    try:
        yield vault
    finally:
        vault.close()
