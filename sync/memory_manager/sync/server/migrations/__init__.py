"""The server's schemas: numbered files ``NNNN_name.sql``, never changed, only added."""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Mapping
from typing import Literal

from memory_manager.base.schema_files import Migration, read_migrations
from memory_manager.sync.server.refusals import StorageMismatch


@functools.cache
def migrations(database: Literal["sqlite", "postgres"]) -> tuple[Migration, ...]:
    """All shipped migrations of one database in order."""
    return read_migrations(importlib.resources.files(__name__).joinpath(database))


def missing(shipped: tuple[Migration, ...], applied: Mapping[int, str]) -> tuple[Migration, ...]:
    """What is still to apply; StorageMismatch if ``applied`` (number: checksum) is not ours."""
    ours = {migration.number: migration.checksum for migration in shipped}
    if any(ours.get(number) != checksum for number, checksum in applied.items()):
        raise StorageMismatch
    return tuple(migration for migration in shipped if migration.number not in applied)
