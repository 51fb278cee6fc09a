"""The graph of revisions as stored: which are current, what they descend from (sync.md 5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from memory_manager.sync.wire import versions
from memory_manager.sync.wire.envelope import Dot
from memory_manager.sync.wire.payload import DeletionMode, HybridTime
from memory_manager.sync.wire.versions import Current, Revision

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

MAX_SIDES: Final = 16
"""Of the current revisions of one record as many are shown, merged and asked about: every further
row of it costs opening these again, and one member could write any number.
"""
_MAX_NAMED: Final = 1000
_OF_RECORD: Final = "id IS ? AND (? IS NOT NULL OR record = ?)"
_COLUMNS: Final = "rowid, device, seq, deletion, hlc_ms, hlc_counter, kind"
_CLEANED: Final = "cleaned"  # the kind of a revision that ``cleans``
_REDACTED: Final = "redacted"  # that of one that ``redacts``
_CLEANED_REDACTED: Final = "cleaned redacted"
_CLEANS: Final = f"kind IN ('{_CLEANED}', '{_CLEANED_REDACTED}')"
_REDACTS: Final = f"kind IN ('{_REDACTED}', '{_CLEANED_REDACTED}')"


def add(
    connection: Connection,
    revision: Revision,
    *,
    record: bytes,
    record_id: bytes | None,
    kind: str,
    leads: bool = False,
) -> None:
    """Store a revision once; what it names as parents is superseded, and it is itself when a known
    one names it (a row that could be opened only later).
    """
    dot = revision.dot
    # only revisions of one record supersede each other, whatever a payload says
    of_record = (record_id, record_id, record)
    (named,) = connection.execute(
        "SELECT EXISTS(SELECT 1 FROM revision_parent p JOIN revision ON revision.rowid = p.child"
        f" WHERE p.parent_device = ? AND p.parent_seq = ? AND {_OF_RECORD})",
        (dot.device, dot.seq, *of_record),
    ).fetchone()
    deletion = None if revision.deletion is None else revision.deletion.value
    rowid = connection.execute(
        "INSERT INTO revision(device, seq, record, id, kind, deletion, hlc_ms, hlc_counter, leads,"
        " superseded) VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            dot.device,
            dot.seq,
            record,
            record_id,
            _kind(revision, kind),
            deletion,
            revision.time.ms,
            revision.time.counter,
            int(leads),
            named,
        ),
    ).lastrowid
    for parent in revision.parents:
        connection.execute(
            "INSERT INTO revision_parent(parent_device, parent_seq, child) VALUES(?, ?, ?)",
            (parent.device, parent.seq, rowid),
        )
        connection.execute(
            f"UPDATE revision SET superseded = 1 WHERE device = ? AND seq = ? AND {_OF_RECORD}",
            (parent.device, parent.seq, *of_record),
        )
    if record_id is not None and was_cleaned(connection, record_id):
        connection.executemany(
            "UPDATE revision SET superseded = 1 WHERE device = ? AND seq = ?",
            [(d.device, d.seq) for d in versions.yielding(everything(connection, record_id))],
        )


def _kind(revision: Revision, kind: str) -> str:
    if revision.redacts:
        return _CLEANED_REDACTED if revision.cleans else _REDACTED
    return _CLEANED if revision.cleans else kind


def was_cleaned(connection: Connection, record_id: bytes) -> bool:
    """Whether any device cleaned the record: then nobody reads its superseded revisions again, and
    each device removes their rows when it cleans it or hears of it.
    """
    found = connection.execute(
        f"SELECT 1 FROM revision WHERE id = ? AND {_CLEANS}", (record_id,)
    ).fetchone()
    return found is not None


def before_redactions(connection: Connection, record_id: bytes) -> set[Dot]:
    """What the known redactions of a record took out, known or not; mostly there are none."""
    found = connection.execute(
        f"SELECT 1 FROM revision WHERE id = ? AND {_REDACTS}", (record_id,)
    ).fetchone()
    if found is None:
        return set()
    return versions.before_redactions(everything(connection, record_id))


def is_known(connection: Connection, dot: Dot) -> bool:
    found = connection.execute(
        "SELECT 1 FROM revision WHERE device = ? AND seq = ?", (dot.device, dot.seq)
    ).fetchone()
    return found is not None


def maximal(connection: Connection, record_id: bytes) -> list[Revision]:
    """Revisions of a record that no known one supersedes, deletions too, without their parents:
    the latest, as many as one row may name. Those left out just stay aside a while longer.
    """
    return _latest(connection, record_id, "superseded = 0", _MAX_NAMED)


def latest_edit(connection: Connection, record_id: bytes) -> Revision | None:
    """The revision with content that was written last, deleted or not."""
    return next(iter(_latest(connection, record_id, "deletion IS NULL", 1)), None)


def _latest(connection: Connection, record_id: bytes, which: str, limit: int) -> list[Revision]:
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM revision WHERE id = ? AND {which}"
        " ORDER BY hlc_ms DESC, hlc_counter DESC, device DESC, seq DESC LIMIT ?",
        (record_id, limit),
    )
    return [_revision(row, frozenset()) for row in rows]


def current(connection: Connection, record_id: bytes, *, forgets: bool | None = None) -> Current:
    """What a record is now. Without a *forget* among its revisions (``forgets``, where that was
    looked up) the latest maximal ones tell it, at most ``MAX_SIDES``.
    """
    if has_forget(connection, record_id) if forgets is None else forgets:
        return versions.current(everything(connection, record_id))
    edits = "superseded = 0 AND deletion IS NULL"
    return versions.current(_latest(connection, record_id, edits, MAX_SIDES))


def everything(connection: Connection, record_id: bytes) -> list[Revision]:
    """All known revisions of a record with their parents."""
    parents: dict[int, set[Dot]] = {}
    for device, seq, child in connection.execute(
        "SELECT p.parent_device, p.parent_seq, p.child FROM revision v"
        " JOIN revision_parent p ON p.child = v.rowid WHERE v.id = ?",
        (record_id,),
    ):
        parents.setdefault(child, set()).add(Dot(device, seq))
    rows = connection.execute(f"SELECT {_COLUMNS} FROM revision WHERE id = ?", (record_id,))
    return [_revision(row, frozenset(parents.get(row[0], ()))) for row in rows]


def past_edits(connection: Connection, record_id: bytes) -> list[Dot]:
    """The superseded revisions with content of a record, but for the last cleaning ones: what these
    say is what concurrent changes are measured against.
    """
    rows = connection.execute(
        "SELECT device, seq FROM revision v WHERE id = ? AND superseded = 1 AND deletion IS NULL"
        f" AND (NOT {_CLEANS} OR EXISTS(SELECT 1 FROM revision_parent p JOIN revision c"
        "   ON c.rowid = p.child WHERE p.parent_device = v.device AND p.parent_seq = v.seq"
        f"   AND c.{_CLEANS}))",
        (record_id,),
    )
    return [Dot(*row) for row in rows]


def names(connection: Connection, record_id: bytes) -> list[bytes]:
    """What a record is called on the wire: more than one where devices made it by themselves."""
    rows = connection.execute("SELECT DISTINCT record FROM revision WHERE id = ?", (record_id,))
    return [name for (name,) in rows]


def unnumbered(connection: Connection, record_id: bytes) -> set[Dot]:
    """A record's unpushed own edits and what they descend from. Once those can not be opened any
    more nobody else knows what they superseded: the revision that ends them has to say it all.
    """
    edits: dict[Dot, None] = {}
    parents: set[Dot] = set()
    for device, seq, parent_device, parent_seq in connection.execute(
        "SELECT v.device, v.seq, p.parent_device, p.parent_seq FROM revision v"
        " JOIN entry e ON e.device = v.device AND e.seq = v.seq"
        " LEFT JOIN revision_parent p ON p.child = v.rowid"
        " WHERE v.id = ? AND v.deletion IS NULL AND e.n IS NULL ORDER BY v.seq DESC",
        (record_id,),
    ):
        edits[Dot(device, seq)] = None
        if parent_device is not None:
            parents.add(Dot(parent_device, parent_seq))
    named = list(edits)[:_MAX_NAMED]  # what is left out just stays aside on other devices
    return (parents - edits.keys()) | set(named)


def undecided(connection: Connection, record_id: bytes) -> set[Dot]:
    """The current revisions beside the shown one that wait for the owner's word."""
    rows = connection.execute("SELECT device, seq FROM sibling WHERE id = ?", (record_id,))
    return {Dot(*row) for row in rows}


def has_forget(connection: Connection, record_id: bytes) -> bool:
    """Whether a *forget* is among the known revisions of a record."""
    found = connection.execute(
        "SELECT 1 FROM revision WHERE id = ? AND deletion = 'forget'", (record_id,)
    ).fetchone()
    return found is not None


def ancestors(connection: Connection, dot: Dot) -> set[Dot]:
    """Everything a revision descends from, itself left out."""
    rows = connection.execute(
        "WITH RECURSIVE above(device, seq) AS ("
        " SELECT p.parent_device, p.parent_seq FROM revision v"
        " JOIN revision_parent p ON p.child = v.rowid WHERE v.device = ? AND v.seq = ?"
        " UNION"
        " SELECT p.parent_device, p.parent_seq FROM above a"
        " JOIN revision v ON v.device = a.device AND v.seq = a.seq"
        " JOIN revision_parent p ON p.child = v.rowid)"
        " SELECT device, seq FROM above",
        (dot.device, dot.seq),
    )
    return {Dot(device, seq) for device, seq in rows}


def _parents(connection: Connection, dots: Iterable[Dot]) -> set[Dot]:
    found: set[Dot] = set()
    for dot in dots:
        rows = connection.execute(
            "SELECT p.parent_device, p.parent_seq FROM revision v"
            " JOIN revision_parent p ON p.child = v.rowid WHERE v.device = ? AND v.seq = ?",
            (dot.device, dot.seq),
        )
        found.update(Dot(*row) for row in rows)
    return found


def readable_base(
    connection: Connection, record_id: bytes, siblings: Iterable[Revision]
) -> Dot | None:
    """What all siblings descend from last, or what says that anew, where every device that knows
    these revisions holds it; else None, on every device.
    """
    dot = _common_base(connection, siblings)
    (plain,) = connection.execute(
        "SELECT NOT EXISTS(SELECT 1 FROM revision WHERE id = ?"
        f" AND (deletion IS NOT NULL OR {_CLEANS} OR {_REDACTS}))",
        (record_id,),
    ).fetchone()
    if dot is None or plain:
        return dot
    return versions.readable_base(everything(connection, record_id), dot)


def _common_base(connection: Connection, siblings: Iterable[Revision]) -> Dot | None:
    """The one revision that all siblings descend from last; None when there is none or several."""
    sets = [ancestors(connection, sibling.dot) for sibling in siblings]
    shared = set.intersection(*sets) if sets else set[Dot]()
    last = shared - _parents(connection, shared)  # what they descend from is shared as well
    return next(iter(last)) if len(last) == 1 else None


def _revision(row: tuple[Any, ...], parents: frozenset[Dot]) -> Revision:
    _, device, seq, deletion, ms, counter, kind = row
    mode = None if deletion is None else DeletionMode(deletion)
    time = HybridTime(ms, counter, device.hex())
    return Revision(
        Dot(device, seq),
        parents,
        time,
        mode,
        cleans=kind in (_CLEANED, _CLEANED_REDACTED),
        redacts=kind in (_REDACTED, _CLEANED_REDACTED),
    )
