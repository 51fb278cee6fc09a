"""Schemas as numbered files ``NNNN_name.sql`` beside their code, never changed, only added."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterator
from importlib.resources.abc import Traversable
from typing import Final

from memory_manager.base.errors import MemlocketError

_FILE_NAME: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


@dataclasses.dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file; ``checksum`` is the hex SHA-256 of its text with LF line ends."""

    number: int
    name: str
    checksum: str
    sql: str = dataclasses.field(repr=False)

    def statements(self, is_complete: Callable[[str], bool]) -> Iterator[str]:
        """Single statements, for SQLite: ``executescript`` would commit the transaction first.
        ``is_complete`` is the ``complete_statement`` of the library that will run them.
        """
        pending = ""
        for line in self.sql.splitlines(keepends=True):
            pending += line
            if is_complete(pending):
                yield pending
                pending = ""
        rest = (line.strip() for line in pending.splitlines())
        if any(line and not line.startswith("--") for line in rest):
            raise MemlocketError("A schema file ends inside a statement.")


def read_migrations(folder: Traversable) -> tuple[Migration, ...]:
    """All migrations in ``folder`` in order; numbers start at 1 and have no gap."""
    found: list[Migration] = []
    for entry in folder.iterdir():
        if match := _FILE_NAME.fullmatch(entry.name):
            # A checkout with CRLF line ends must not look like a changed migration.
            sql = entry.read_text(encoding="utf-8").replace("\r\n", "\n")
            checksum = hashlib.sha256(sql.encode()).hexdigest()
            found.append(Migration(int(match[1]), match[2], checksum, sql))
    found.sort(key=lambda migration: migration.number)
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise MemlocketError("The program's own schema files are incomplete.")
    return tuple(found)
