"""The server's schemas: numbered files ``NNNN_name.sql``, never changed, only added."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.resources
import re
from collections.abc import Mapping
from typing import Literal

from memory_manager.sync.server.refusals import StorageMismatch

_FILE_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


@dataclasses.dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file; ``checksum`` is the hex SHA-256 of its text with LF line ends."""

    number: int
    name: str
    checksum: str
    sql: str = dataclasses.field(repr=False)


@functools.cache
def migrations(database: Literal["sqlite", "postgres"]) -> tuple[Migration, ...]:
    """All shipped migrations of one database in order, from 1 without a gap."""
    found: list[Migration] = []
    for file in importlib.resources.files(__name__).joinpath(database).iterdir():
        if match := _FILE_NAME.fullmatch(file.name):
            sql = file.read_text(encoding="utf-8").replace("\r\n", "\n")
            checksum = hashlib.sha256(sql.encode()).hexdigest()
            found.append(Migration(int(match[1]), match[2], checksum, sql))
    found.sort(key=lambda migration: migration.number)
    if [migration.number for migration in found] != list(range(1, len(found) + 1)):
        raise StorageMismatch("The program's own schema files are incomplete.")
    return tuple(found)


def missing(shipped: tuple[Migration, ...], applied: Mapping[int, str]) -> tuple[Migration, ...]:
    """What is still to apply; StorageMismatch if ``applied`` (number: checksum) is not ours."""
    ours = {migration.number: migration.checksum for migration in shipped}
    if any(ours.get(number) != checksum for number, checksum in applied.items()):
        raise StorageMismatch
    return tuple(migration for migration in shipped if migration.number not in applied)
