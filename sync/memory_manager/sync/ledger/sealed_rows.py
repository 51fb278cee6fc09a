"""Sealed rows as stored: opening them again, and removing them for good (sync.md 5 forget)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

from memory_manager.sync.errors import RowRefused, SyncCode
from memory_manager.sync.ledger import keybag, revisions
from memory_manager.sync.wire.envelope import (
    WRAP_BYTES,
    Dot,
    OpenedRow,
    Policy,
    SealedRow,
    open_row,
    wrap_epoch,
)
from memory_manager.sync.wire.payload import Kind, Payload, read_payload
from memory_manager.vault.kdf import wipe

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

DEAD_WRAP = bytes(WRAP_BYTES)
"""Stands for a content key that its author destroyed before the row was pushed. No hash covers a
WRAP: only a redaction or a *forget* in the log shows that it was the author."""


def is_dead(row: SealedRow) -> bool:
    """Whether there is nothing to open: no BODY any more, or no key."""
    return not row.body or row.wrap == DEAD_WRAP


def put(connection: Connection, entry_rowid: int, row: SealedRow) -> None:
    """Keep a row as it is, if there is one."""
    if row.body:
        connection.execute(
            "INSERT INTO sealed(entry_rowid, epoch, wrap, body) VALUES(?, ?, ?, ?)",
            (entry_rowid, wrap_epoch(row.wrap), row.wrap, row.body),
        )


def stored(connection: Connection, dot: Dot) -> SealedRow | None:
    """The sealed row of a revision; None when it was removed or its key was."""
    found = connection.execute(
        "SELECT s.body, s.wrap FROM entry e JOIN sealed s ON s.entry_rowid = e.rowid"
        " WHERE e.device = ? AND e.seq = ? AND s.dead = 0",
        (dot.device, dot.seq),
    ).fetchone()
    return None if found is None else SealedRow(*found)


def payload_of(connection: Connection, dot: Dot) -> Payload | None:
    """What a stored revision says; None when its row is gone or does not open any more."""
    row = stored(connection, dot)
    if row is None:
        return None
    (vault,) = connection.execute("SELECT vault FROM sync_state").fetchone()
    with OpeningKeys(connection) as keys:
        try:
            return keys.payload(row, vault, dot, min_epoch=1)[1]
        except RowRefused:
            return None


class OpeningKeys:
    """The wrapping keys of all known epochs for a while; wiped at the end."""

    def __init__(self, connection: Connection) -> None:
        self._keys = keybag.wrapping_keys(connection)

    def __enter__(self) -> OpeningKeys:
        return self

    def __exit__(self, *_: object) -> None:
        wipe(*(key.key for key in self._keys.values()))

    def payload(
        self, row: SealedRow, vault: bytes, dot: Dot, min_epoch: int
    ) -> tuple[OpenedRow, Payload]:
        """Open and parse a row in the order of sync.md 3.3; RowRefused with the first failure."""
        opened = open_row(row, vault=vault, dot=dot, keys=self._keys, min_epoch=min_epoch)
        payload = read_payload(opened)
        deletes = payload.kind is Kind.TOMBSTONE
        if deletes != (opened.header.policy is Policy.TOMBSTONE):
            raise RowRefused(SyncCode.ROW_FORMAT)
        return opened, payload


def of_edits(connection: Connection, column: Literal["id", "record"], value: bytes) -> list[Dot]:
    """The revisions with content of a record, or of a name on the wire, whose rows are held."""
    rows = connection.execute(
        "SELECT v.device, v.seq FROM revision v"
        " JOIN entry e ON e.device = v.device AND e.seq = v.seq"
        " JOIN sealed s ON s.entry_rowid = e.rowid"
        f" WHERE v.{column} = ? AND v.deletion IS NULL AND s.dead = 0",
        (value,),
    )
    return [Dot(*row) for row in rows]


def remove(connection: Connection, dots: Iterable[Dot]) -> None:
    """Remove sealed rows for good. Of one that the server has not seen yet the body stays until
    then, because the log promises it; the key that opens it goes now.
    """
    for dot in dots:
        _delete_numbered(connection, dot)
        connection.execute(
            "UPDATE sealed SET wrap = ?, epoch = 0, dead = 1 WHERE entry_rowid IN"
            " (SELECT rowid FROM entry WHERE device = ? AND seq = ? AND n IS NULL)",
            (DEAD_WRAP, dot.device, dot.seq),
        )


def are_held(connection: Connection, dots: Iterable[Dot]) -> bool:
    """Whether any of these rows can still be read here."""
    return any(stored(connection, dot) is not None for dot in dots)


def retire(connection: Connection, dots: Iterable[Dot]) -> None:
    """Remove sealed rows that nobody here reads again; one that the server has not seen yet goes,
    as it is, when it has: the other devices still have to open it.
    """
    for dot in dots:
        _delete_numbered(connection, dot)
        connection.execute(
            "UPDATE sealed SET dead = 1 WHERE entry_rowid IN"
            " (SELECT rowid FROM entry WHERE device = ? AND seq = ? AND n IS NULL)",
            (dot.device, dot.seq),
        )


def retire_past(connection: Connection, record_id: bytes) -> None:
    """Retire what a record said before it was cleaned. While its owner has to decide between
    several revisions, what these came from stays: they are measured against it.
    """
    cleaned = revisions.was_cleaned(connection, record_id)
    if cleaned and not revisions.undecided(connection, record_id):
        retire(connection, revisions.past_edits(connection, record_id))


def retire_redacted(connection: Connection, record_id: bytes) -> bool:
    """Retire what the redactions of a record took out, and let nothing of it wait; False where no
    row of it was held.
    """
    earlier = revisions.before_redactions(connection, record_id)
    if not earlier:
        return False
    gone = [dot for dot in of_edits(connection, "id", record_id) if dot in earlier]
    retire(connection, gone)
    release_dead(connection, earlier)
    return bool(gone)


def _delete_numbered(connection: Connection, dot: Dot) -> None:
    connection.execute(
        "DELETE FROM sealed WHERE entry_rowid IN"
        " (SELECT rowid FROM entry WHERE device = ? AND seq = ? AND n IS NOT NULL)",
        (dot.device, dot.seq),
    )


def release_dead(connection: Connection, dots: Iterable[Dot]) -> None:
    """The log shows why these rows do not open: those without a key or BODY wait no longer."""
    for dot in dots:
        place = (dot.device, dot.seq)
        connection.execute(
            "DELETE FROM sealed WHERE wrap = ? AND entry_rowid IN"
            " (SELECT rowid FROM entry WHERE device = ? AND seq = ? AND n IS NOT NULL)",
            (DEAD_WRAP, *place),
        )
        connection.execute(
            "DELETE FROM quarantine WHERE entry_rowid IN"
            " (SELECT rowid FROM entry WHERE device = ? AND seq = ?)"
            " AND entry_rowid NOT IN (SELECT entry_rowid FROM sealed)",
            place,
        )


def remove_record(connection: Connection, record: bytes, keep: Dot | None = None) -> None:
    """Remove every sealed row of a name on the wire, opened or quarantined, but ``keep``."""
    aside = connection.execute(
        "SELECT e.device, e.seq FROM quarantine q JOIN entry e ON e.rowid = q.entry_rowid"
        " WHERE q.record = ?",
        (record,),
    ).fetchall()
    held = {*of_edits(connection, "record", record), *(Dot(*row) for row in aside)}
    remove(connection, held - {keep})
    connection.execute("DELETE FROM quarantine WHERE record = ?", (record,))
