"""Is the database whole? Page MACs, structure, row counts, and the rows a damaged page took along.

Contract: vault.md 10. None of this sees a rollback; the anchor does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from memory_manager.vault.connection import pages_are_whole
from memory_manager.vault.row_codec import version_slot

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

CHECK_PERIOD_MS = 7 * 24 * 3600 * 1000
_MAX_FINDINGS = 100


Connect = Callable[[], "AbstractContextManager[Connection]"]
"""Gives a new connection for the time of a block."""


@dataclasses.dataclass(frozen=True, slots=True)
class LostRow:
    """A row whose page is damaged; ``id`` is None when even its index entry is gone."""

    rowid: int
    id: bytes | None


@dataclasses.dataclass(frozen=True, slots=True)
class IntegrityReport:
    """At most 100 findings of each kind; they name pages and tables, never content.

    ``lost`` are the memories that cannot be read; looked for only when something is wrong.
    """

    cipher: tuple[str, ...]
    structure: tuple[str, ...]
    lost: tuple[LostRow, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.cipher and not self.structure


def check(connection: Connection) -> IntegrityReport:
    """Both checks, without looking for lost memories. Reads every page: seconds per gigabyte.

    ``connection`` is the caller's own, outside a transaction, and of no further use when something
    was found: a check that meets a damaged page leaves it unable to read the good ones.
    """
    import sqlcipher3.dbapi2 as sqlcipher

    cipher = _texts(connection, "PRAGMA cipher_integrity_check")
    try:
        structure = _texts(connection, f"PRAGMA integrity_check({_MAX_FINDINGS})")
    except sqlcipher.DatabaseError:
        # a damaged page on the way down stops the check itself
        structure = ("integrity_check could not finish",)
    return IntegrityReport(cipher, () if structure == ("ok",) else structure)


def check_and_list(connect: Connect) -> IntegrityReport:
    """Both checks and, when they find something, the memories that are lost."""
    with connect() as connection:
        report = check(connection)
    if report.ok:
        return report
    return dataclasses.replace(report, lost=unreadable_records(connect))


def _texts(connection: Connection, pragma: str) -> tuple[str, ...]:
    rows = connection.execute(pragma).fetchmany(_MAX_FINDINGS)
    return tuple(str(row[0]) for row in rows)


def table_names(connection: Connection) -> tuple[str, ...]:
    """All ordinary tables, shadow tables of the full-text index included; no virtual ones."""
    rows = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table'"
        " AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
    ).fetchall()
    return tuple(row[0] for row in rows)


def row_counts(connection: Connection) -> Mapping[str, int]:
    """Rows per table, for comparing a copy with its source."""
    counts: dict[str, int] = {}
    for name in table_names(connection):
        quoted = name.replace('"', '""')
        (counts[name],) = connection.execute(f'SELECT count(*) FROM "{quoted}"').fetchone()
    return counts


def unreadable_records(connect: Connect) -> tuple[LostRow, ...]:
    """The memories a damaged page took along, found by reading each one by its rowid.

    The ids come from the unique index on ``record.id``, which lies on other pages than the rows.
    After each lost one a new connection is taken, since the old one is of no further use.
    """
    import sqlcipher3.dbapi2 as sqlcipher

    with connect() as connection:
        known = _known_records(connection)
    lost: list[LostRow] = []
    position = 0
    while position < len(known):
        with connect() as connection:
            while position < len(known):
                rowid, record_id = known[position]
                position += 1
                try:
                    _read_whole(connection, rowid)
                except sqlcipher.DatabaseError:
                    lost.append(LostRow(rowid, record_id))
                    break
                if not pages_are_whole(connection):
                    lost.append(LostRow(rowid, record_id))
                    break
    return tuple(lost)


def _read_whole(connection: Connection, rowid: int) -> None:
    """The row and each of its versions, by their exact keys: neighbours are not touched."""
    row = connection.execute("SELECT * FROM record WHERE rowid = ?", (rowid,)).fetchone()
    if row is None:
        return
    (versions,) = connection.execute(
        "SELECT version FROM record WHERE rowid = ?", (rowid,)
    ).fetchone()
    for version in range(1, versions + 1):
        slot = version_slot(rowid, version)
        connection.execute("SELECT * FROM record_version WHERE slot = ?", (slot,)).fetchone()


def _known_records(connection: Connection) -> list[tuple[int, bytes | None]]:
    import sqlcipher3.dbapi2 as sqlcipher

    try:
        rows = connection.execute("SELECT rowid, id FROM record ORDER BY id").fetchall()
        return [(int(rowid), bytes(record_id)) for rowid, record_id in rows]
    except sqlcipher.DatabaseError:
        pass  # the index itself is hit: try every rowid up to the highest ever given
    try:
        row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'record'").fetchone()
    except sqlcipher.DatabaseError:
        return []
    return [(rowid, None) for rowid in range(1, (row[0] if row else 0) + 1)]
