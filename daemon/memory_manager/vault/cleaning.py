"""Stored text under the present rules: what older rules let through goes from every version.

A walk over all records, a few in each transaction, whose place is kept in the database: it goes on
where it was after any end of the program. Counts by rule only. Contract: redaction.md 10.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Final

from memory_manager.base.errors import InvalidInput, MemlocketError
from memory_manager.security.redact import RULESET_VERSION
from memory_manager.security.redact.sanitize import KEEP_PERSONAL, Personal
from memory_manager.vault import audit, queries, row_matching, row_writer, state_rows
from memory_manager.vault.errors import Conflict
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
"""A step ends after this time: other writes wait no longer for it."""
RECORDS_PER_STEP: Final = 256
_ERASED: Final = "erased"


@dataclasses.dataclass(frozen=True, slots=True)
class Cleaning:
    """How far the walk is. ``cleaned`` and ``failed`` count records, ``by_rule`` versions."""

    rules: str = ""  # the rule set it runs under
    whole: bool = False  # versions of the present rule set are looked at again
    reached: int = 0  # rowid of the last record that was looked at
    done: bool = False
    looked: int = 0
    cleaned: int = 0
    failed: int = 0
    by_rule: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Cleaned:
    """What became of one record. ``before`` is what it showed when that has changed."""

    rules: tuple[str, ...]
    row: MemoryRow
    before: MemoryRow | None


def read(connection: Connection) -> Cleaning:
    """The walk as it stands; a new one when the rule set is another by now."""
    stored = state_rows.read_cleaning(connection)
    if stored is not None:
        found = Cleaning(**json.loads(stored))
        if found.rules == RULESET_VERSION:
            return found
    return Cleaning(RULESET_VERSION)


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
    """The next few records, and where the walk is then. What a record refuses stays as it is, is
    counted, and is read under the present rules as before.
    """
    walk = read(transaction.connection)
    if walk.done:
        return walk
    rowids = transaction.connection.execute(
        "SELECT rowid FROM record WHERE rowid > ? ORDER BY rowid LIMIT ?",
        (walk.reached, RECORDS_PER_STEP),
    ).fetchall()
    until = time.monotonic() + SECONDS_PER_STEP
    by_rule = collections.Counter(walk.by_rule)
    looked, cleaned, failed, reached = walk.looked, walk.cleaned, walk.failed, walk.reached
    for (rowid,) in rowids:
        try:
            rules = memories.clean(transaction, rowid, whole=walk.whole)
        except MemlocketError:
            failed += 1
        else:
            cleaned += rules is not None
            by_rule.update(rules or ())
        looked, reached = looked + 1, rowid
        if time.monotonic() > until:
            break
    walk = dataclasses.replace(
        walk,
        reached=reached,
        done=not rowids,
        looked=looked,
        cleaned=cleaned,
        failed=failed,
        by_rule=dict(by_rule),
    )
    if walk.done:
        _finish(transaction, walk)
    _store(transaction, walk)
    return walk


def clean(transaction: Transaction, rowid: int, *, whole: bool) -> Cleaned | None:
    """Rewrite the versions of a record that say something else under the present rules; None when
    none does. Those that do not are noted as looked at.

    Raises SanitizerFailed, InvalidInput and TooLarge before anything is written.
    """
    connection = transaction.connection
    row = queries.stored_row(connection, rowid)
    due = {
        version.version: (version, rules)
        for version, rules in queries.stored_versions(connection, rowid)
        if whole or version.ruleset_version != RULESET_VERSION
    }
    if row is None or not due:
        return None
    # What the owner lets stay in new text is not taken out of old text unasked.
    personal = personal_data(connection) if whole else KEEP_PERSONAL
    prepared = {number: _prepare(row, version, personal) for number, (version, _) in due.items()}
    changed = {n: new for n, new in prepared.items() if not _says_the_same(new, due[n][0])}
    marked = {
        number: dataclasses.replace(new, rules=tuple(sorted({*due[number][1], *new.rules})))
        for number, new in prepared.items()
        if number in changed or due[number][0].ruleset_version != RULESET_VERSION
    }
    if marked:
        row_writer.rewrite_versions(transaction, row, marked)
    if not changed:
        return None
    shown = changed.get(row.version)
    if shown is None:
        row_writer.forget_answers(transaction, row.id)
    else:
        key = _key(transaction, row, shown)
        row_writer.rewrite_row(transaction, row, shown, key=key)
    return Cleaned(
        rules=tuple(rule for new in changed.values() for rule in new.rules),
        row=row_writer.stored_row(transaction, rowid),
        before=None if shown is None else row,
    )


@contextlib.contextmanager
def all_or_nothing(transaction: Transaction) -> Generator[None]:
    """A record that cannot be cleaned is left as it was, and so is everything that follows it:
    whatever the database or the sanitizer refused is a MemlocketError.
    """
    import sqlcipher3.dbapi2 as sqlcipher

    connection, callbacks = transaction.connection, len(transaction.callbacks)
    connection.execute("SAVEPOINT cleaning")
    try:
        yield
        connection.execute("RELEASE cleaning")
    except (MemlocketError, sqlcipher.IntegrityError) as error:
        connection.execute("ROLLBACK TO cleaning")
        connection.execute("RELEASE cleaning")
        del transaction.callbacks[callbacks:]
        if isinstance(error, MemlocketError):
            raise
        raise Conflict("The cleaned record does not fit beside the others.") from None


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
        return prepare(
            stored, version.writer, reason=version.reason, accepted=stored, personal=personal
        )

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
