"""Stored text under the present rules: what older rules let through goes from every version.

A walk over all records, a few in each transaction, whose place is kept in the database: it goes on
where it was after any end of the program. Counts by rule only. Contract: redaction.md 10.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from memory_manager.base.errors import InvalidInput, MemlocketError
from memory_manager.security.errors import SanitizerFailed
from memory_manager.security.redact import RULESET_VERSION
from memory_manager.security.redact.ids import NOT_CHECKED
from memory_manager.security.redact.sanitize import KEEP_PERSONAL, Personal
from memory_manager.vault import audit, queries, row_matching, row_writer, state_rows
from memory_manager.vault.prepared_version import (
    PreparedVersion,
    RowContents,
    clean_writer,
    contents_of_stored,
    prepare,
)
from memory_manager.vault.rows import MemoryRow, MemoryVersion, RecordKind
from memory_manager.vault.settings import personal_data

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.memories import Memories
    from memory_manager.vault.transaction import Transaction

SECONDS_PER_STEP: Final = 0.02
"""A step ends after this time, within a record too: other writes wait for it no longer, but for the
one version that it is at.
"""
RECORDS_PER_STEP: Final = 256
_ERASED: Final = "erased"


@dataclasses.dataclass(frozen=True, slots=True)
class Within:
    """How far the walk is in one record: the last version that was looked at, and what was met."""

    rowid: int = 0
    version: int = 0
    cleaned: bool = False
    failed: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Cleaning:
    """How far the walk is. ``cleaned`` and ``failed`` count records, ``by_rule`` versions."""

    rules: str = ""  # the rule set it runs under
    whole: bool = False  # versions of the present rule set are looked at again
    reached: int = 0  # rowid of the last record that was looked at
    within: Within = Within()  # a record after it
    done: bool = False
    looked: int = 0
    cleaned: int = 0
    failed: int = 0
    by_rule: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Cleaned:
    """What became of the next versions of one record."""

    within: Within
    done: bool  # that was the last version
    changed: bool
    rules: tuple[str, ...]  # one for each changed version and rule
    row: MemoryRow
    before: MemoryRow | None  # what the record showed, when that has changed
    readable: bool  # the last version could be checked


def read(connection: Connection) -> Cleaning:
    """The walk as it stands; a new one when the rule set is another by now."""
    stored = json.loads(state_rows.read_cleaning(connection) or "{}")
    if stored.get("rules") != RULESET_VERSION:
        return Cleaning(RULESET_VERSION)
    within = Within(**_members(Within, stored.pop("within", {})))
    return dataclasses.replace(Cleaning(**_members(Cleaning, stored)), within=within)


def start(transaction: Transaction, *, whole: bool) -> Cleaning:
    """From the first record. ``whole``: versions of the present rule set too, and what the owner's
    settings for personal data say now.
    """
    begun = Cleaning(RULESET_VERSION, whole=whole)
    _store(transaction, begun)
    return begun


def remaining(connection: Connection, walk: Cleaning) -> int:
    """How many records the walk has not looked at."""
    (count,) = connection.execute(
        "SELECT count(*) FROM record WHERE rowid > ?", (walk.reached,)
    ).fetchone()
    return int(count)


def step(transaction: Transaction, memories: Memories) -> Cleaning:
    """The next few versions, and where the walk is then. What cannot be cleaned stays as it is, is
    counted, and is read under the present rules as before.
    """
    import sqlcipher3.dbapi2 as sqlcipher

    walk = read(transaction.connection)
    if walk.done:
        return walk
    rowids = transaction.connection.execute(
        "SELECT rowid FROM record WHERE rowid > ? ORDER BY rowid LIMIT ?",
        (walk.reached, RECORDS_PER_STEP),
    ).fetchall()
    until = time.monotonic() + SECONDS_PER_STEP
    for (rowid,) in rowids:
        # the record that was begun may be gone by now
        begun = walk.within if walk.within.rowid == rowid else Within(rowid)
        try:
            found = memories.clean(transaction, begun, whole=walk.whole, until=until)
        except (MemlocketError, sqlcipher.IntegrityError, ValueError):
            walk = _passed(walk, dataclasses.replace(begun, failed=True))
        else:
            walk = _after(walk, begun, found)
        if time.monotonic() > until:
            break
    if not rowids:
        walk = dataclasses.replace(walk, done=True)
        _finish(transaction, walk)
    _store(transaction, walk)
    return walk


def clean(transaction: Transaction, begun: Within, *, whole: bool, until: float) -> Cleaned | None:
    """Rewrite the next versions of a record that say something else under the present rules, oldest
    first, at least one and none begun after ``until``. Those that do not are noted as looked at;
    what cannot be checked stays. None when there is no such version.
    """
    connection, rowid = transaction.connection, begun.rowid
    row = queries.stored_row(connection, rowid)
    if row is None:
        return None
    # What the owner lets stay in new text is not taken out of old text unasked.
    personal = personal_data(connection) if whole else KEEP_PERSONAL
    reached, failed, readable = begun.version, begun.failed, True
    changed: dict[int, PreparedVersion] = {}
    marked: dict[int, PreparedVersion] = {}
    while reached < row.version:
        found = queries.stored_version_after(connection, rowid, reached)
        if found is None:
            break
        version, rules = found
        reached, older = version.version, version.ruleset_version != RULESET_VERSION
        if whole or older:
            try:
                new = _prepare(row, version, personal)
            except MemlocketError:
                failed, readable = True, reached < row.version
            else:
                differs = not _says_the_same(new, version)
                if differs:
                    changed[reached] = new
                if differs or older:
                    together = tuple(sorted({*rules, *new.rules}))
                    marked[reached] = dataclasses.replace(new, rules=together)
        if time.monotonic() > until:
            break
    if marked:
        row_writer.rewrite_versions(transaction, row, marked)
    shown = changed.get(row.version)
    if shown is not None:
        key = _key(transaction, row, shown)
        row_writer.rewrite_row(transaction, row, shown, key=key)
    elif changed:
        row_writer.forget_answers(transaction, row.id)
    return Cleaned(
        within=Within(rowid, reached, begun.cleaned or bool(changed), failed),
        done=reached >= row.version,
        changed=bool(changed),
        rules=tuple(rule for new in changed.values() for rule in new.rules),
        row=row_writer.stored_row(transaction, rowid),
        before=None if shown is None else row,
        readable=readable,
    )


def clean_audit_labels(transaction: Transaction) -> None:
    """Names in audit entries that the present rules take for secrets."""
    pairs = transaction.connection.execute("SELECT DISTINCT agent_id, client FROM audit")
    for agent_id, client in pairs.fetchall():
        clean = clean_writer(agent_id, client)
        if clean != (agent_id, client):
            transaction.connection.execute(
                "UPDATE audit SET agent_id = ?, client = ? WHERE agent_id IS ? AND client IS ?",
                (*clean, agent_id, client),
            )


def _prepare(row: MemoryRow, version: MemoryVersion, personal: Personal) -> PreparedVersion:
    contents = contents_of_stored(version)

    def cleaned(stored: RowContents) -> PreparedVersion:
        new = prepare(
            stored,
            version.writer,
            reason=version.reason,
            accepted=stored,
            accepted_reason=version.reason,
            personal=personal,
        )
        if not NOT_CHECKED.isdisjoint(new.rules):  # whole texts would go that may be harmless
            raise SanitizerFailed
        return new

    if version.content is None:  # its labels are all that is left of it
        labelled = cleaned(dataclasses.replace(contents, path=_ERASED, bucket=_ERASED))
        return dataclasses.replace(labelled, contents=contents)
    try:
        return cleaned(contents)
    except InvalidInput:
        if contents.kind is not RecordKind.STATE:
            raise
    # A state lives in the slot that its key names; two with secret keys stay two.
    return cleaned(dataclasses.replace(contents, semantic_key=f"state-{row.id}"))


def _says_the_same(prepared: PreparedVersion, version: MemoryVersion) -> bool:
    return (
        prepared.contents == contents_of_stored(version)
        and prepared.reason == version.reason
        and prepared.writer == version.writer
    )


def _key(transaction: Transaction, row: MemoryRow, shown: PreparedVersion) -> str | None:
    """The key that the row goes on holding: not one that another row holds at its cleaned place."""
    if row.semantic_key is None:
        return None
    holder = row_matching.row_with_semantic_key(transaction.connection, shown.contents)
    taken = holder is not None and holder.rowid != row.rowid
    return None if taken else shown.contents.semantic_key


def _after(walk: Cleaning, begun: Within, found: Cleaned | None) -> Cleaning:
    if found is None:
        return _passed(walk, begun)
    if found.rules:
        by_rule = collections.Counter(walk.by_rule)
        by_rule.update(found.rules)
        walk = dataclasses.replace(walk, by_rule=dict(by_rule))
    if found.done:
        return _passed(walk, found.within)
    return dataclasses.replace(walk, within=found.within)


def _passed(walk: Cleaning, within: Within) -> Cleaning:
    """The walk is done with a record in which this was met."""
    return dataclasses.replace(
        walk,
        reached=within.rowid,
        within=Within(),
        looked=walk.looked + 1,
        cleaned=walk.cleaned + within.cleaned,
        failed=walk.failed + within.failed,
    )


def _members(kind: type, stored: Mapping[str, object]) -> dict[str, Any]:
    """What a program with other members noted is left out."""
    names = {field.name for field in dataclasses.fields(kind)}
    return {name: value for name, value in stored.items() if name in names}


def _finish(transaction: Transaction, walk: Cleaning) -> None:
    clean_audit_labels(transaction)
    transaction.request_checkpoint()  # nothing stays in the write-ahead log; deleting overwrites
    if walk.cleaned or walk.failed or walk.whole:
        audit.record(
            transaction,
            "vault.cleaned",
            None,
            None,
            {
                "rules": walk.rules,
                "looked": walk.looked,
                "cleaned": walk.cleaned,
                "failed": walk.failed,
                "redactions": [f"{rule}:{count}" for rule, count in sorted(walk.by_rule.items())],
            },
        )


def _store(transaction: Transaction, walk: Cleaning) -> None:
    state_rows.write_cleaning(transaction.connection, json.dumps(dataclasses.asdict(walk)))
