"""What happened to the vault and who did it: action codes, ids and counts, never a text.

An entry is written in the transaction of the act it reports. Entries about the vault, its keys and
who may use it stay for ever; those about records, one a write, are kept within two limits. An entry
takes about 230 bytes of the database with its two indexes [measured].
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from memory_manager.security.gate import Surface, may_recall
from memory_manager.vault import queries
from memory_manager.vault.row_codec import attribution_columns, decode_attribution, encode_json
from memory_manager.vault.rows import Attribution, RecordKind

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

AuditDetail = Mapping[str, "int | bool | str | Sequence[str] | None"]
RETENTION_SECONDS: Final = 365 * 24 * 3600
"""How long an entry about a record is kept."""

MAX_RECORD_ENTRIES: Final = 200_000
"""How many of the newest entries may be about records: about 46 MB."""

_PAGE = 500
_SUBJECT = "substr(action, 1, instr(action, '.'))"
_ACT = "substr(action, instr(action, '.'))"
_CODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:#-]{0,79}")


@dataclasses.dataclass(frozen=True, slots=True)
class AuditEvent:
    """One entry; ``number`` grows with time and serves as a cursor."""

    number: int
    at_ms: int
    action: str
    target_id: str | None
    actor: Attribution | None
    detail: Mapping[str, object]


def record(
    transaction: Transaction,
    action: str,
    target_id: str | None,
    actor: Attribution | None,
    detail: AuditDetail | None = None,
) -> None:
    """Append one entry. ValueError for a detail that is not a code or a count: a text could carry
    what the audit must never hold.
    """
    detail = detail or {}
    for value in detail.values():
        _check_code(value)
    if not _CODE.fullmatch(action):
        raise ValueError("an audit action is a code")
    columns = (None, None, None, None) if actor is None else attribution_columns(actor)
    transaction.connection.execute(
        "INSERT INTO audit(at_ms, action, target_id, agent_id, instance_hash, credential_id,"
        " client, detail) VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
        (transaction.now_ms, action, target_id, *columns, encode_json(detail)),
    )


def events(
    connection: Connection,
    *,
    action: str | None = None,
    subjects: Sequence[str] = (),
    acts: Sequence[str] = (),
    target_id: str | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    before: int | None = None,
    limit: int = 100,
) -> list[AuditEvent]:
    """Entries in ``[since, until)``, newest first; ``before`` is the ``number`` to go on from.

    ``subjects`` and ``acts``: any of these begins, and any of these ends the action, with the dot.
    """
    terms = ["1"]
    parameters: list[object] = []
    for term, value in (
        ("action = ?", action),
        ("target_id = ?", target_id),
        ("at_ms >= ?", since_ms),
        ("at_ms < ?", until_ms),
        ("rowid < ?", before),
    ):
        if value is not None:
            terms.append(term)
            parameters.append(value)
    for part, names in ((_SUBJECT, subjects), (_ACT, acts)):
        if names:
            terms.append(f"{part} IN ({', '.join('?' * len(names))})")
            parameters += names
    rows = connection.execute(
        "SELECT rowid, at_ms, action, target_id, agent_id, instance_hash, credential_id, client,"
        f" detail FROM audit WHERE {' AND '.join(terms)} ORDER BY rowid DESC LIMIT ?",
        [*parameters, limit],
    )
    return [
        AuditEvent(
            number=number,
            at_ms=at_ms,
            action=found_action,
            target_id=target,
            actor=None if not any(who) else decode_attribution(*who),
            detail=json.loads(detail),
        )
        for number, at_ms, found_action, target, *who, detail in rows
    ]


RECORD_ACTIONS = tuple(f"{kind.value}." for kind in RecordKind)
"""What an action on a record starts with; other entries are about the vault and its keys."""


def sweep(transaction: Transaction, *, limit: int = 1000) -> int:
    """Drop entries about records that are too old or too many, at most ``limit``; returns how many.

    The history of a record itself is in its versions and does not depend on these entries.
    """
    connection = transaction.connection
    oldest_ms = transaction.now_ms - RETENTION_SECONDS * 1000
    (newest,) = connection.execute("SELECT coalesce(max(rowid), 0) FROM audit").fetchone()
    about_records = f"{_SUBJECT} IN ({', '.join('?' * len(RECORD_ACTIONS))})"
    dropped = 0
    for term, bound, order in (
        ("at_ms < ?", oldest_ms, "at_ms"),
        ("rowid <= ?", newest - MAX_RECORD_ENTRIES, "rowid"),
    ):
        cursor = connection.execute(
            f"DELETE FROM audit WHERE rowid IN (SELECT rowid FROM audit WHERE {term}"
            f" AND {about_records} ORDER BY {order} LIMIT ?)",
            (bound, *RECORD_ACTIONS, limit - dropped),
        )
        dropped += cursor.rowcount
    return dropped


def record_events(
    connection: Connection,
    *,
    subjects: Sequence[str] = RECORD_ACTIONS,
    acts: Sequence[str] = (),
    action: str | None = None,
    target_id: str | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
    limit: int = 100,
) -> list[AuditEvent]:
    """Entries about records in ``[since, until)``, newest first, without those of a record that the
    gate hides: a hidden row shows in no list.
    """
    found: list[AuditEvent] = []
    before: int | None = None
    while len(found) < limit:
        page = events(
            connection,
            action=action,
            subjects=subjects,
            acts=acts,
            target_id=target_id,
            since_ms=since_ms,
            until_ms=until_ms,
            before=before,
            limit=_PAGE,
        )
        found += [event for event in page if _may_be_shown(connection, event.target_id)]
        if len(page) < _PAGE:
            break
        before = page[-1].number
    return found[:limit]


def _may_be_shown(connection: Connection, target_id: str | None) -> bool:
    if target_id is None:
        return True
    row = queries.get_row(connection, target_id, include_deleted=True)
    return row is None or may_recall(row.envelope, row.metadata, Surface.LOCAL).allowed


def _check_code(value: object) -> None:
    if value is None or isinstance(value, (bool, int)):
        return
    if isinstance(value, str):
        if not _CODE.fullmatch(value):
            raise ValueError("an audit detail is a code or a count")
        return
    if isinstance(value, (list, tuple)):
        for entry in value:
            _check_code(entry)
        return
    raise ValueError("an audit detail is a code or a count")
