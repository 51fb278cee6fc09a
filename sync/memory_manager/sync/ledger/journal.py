"""Seals every local write in the transaction that makes it (vault.md 9.1).

Payload, time, parents, content key, BODY, WRAP, log entry and outbox come into being with the row,
or not at all. A vault without sync pays one look at the database per connection.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from memory_manager.base.errors import TooLarge
from memory_manager.base.identifiers import memory_id_bytes
from memory_manager.sync.ledger import (
    claims,
    copies,
    own_log,
    payload_rows,
    revisions,
    sealed_rows,
    settling,
    state,
)
from memory_manager.sync.ledger.own_log import Said
from memory_manager.sync.ledger.state import SyncState
from memory_manager.sync.wire.envelope import Dot, Policy
from memory_manager.sync.wire.payload import DeletionMode, HybridTime, Kind
from memory_manager.sync.wire.versions import Revision
from memory_manager.vault import queries
from memory_manager.vault.memories import Memories
from memory_manager.vault.rows import MemoryRow, RowStatus, WriteStatus

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction


class SyncJournal:
    """The vault's ``RowJournal``: one per daemon, given to ``Memories``; writer's thread only."""

    def __init__(self) -> None:
        self._off_for: Connection | None = None  # the connection that was seen without sync

    def look_again(self) -> None:
        """Sync was just turned on or off: the next write asks the database."""
        self._off_for = None

    def active(self, connection: Connection) -> SyncState | None:
        """The state while own entries may be written; None without sync, and for a database of
        another device, which must enrol again.
        """
        if self._off_for is connection:
            return None
        found = state.read_active(connection)
        if found is None:
            self._off_for = connection
        return found

    def row_written(
        self, memories: Memories, transaction: Transaction, row: MemoryRow, action: WriteStatus
    ) -> MemoryRow:
        """Seal the new version. TooLarge: over 524 288 bytes, and the write is undone."""
        found = self.active(transaction.connection)
        if found is None:
            return row
        seal_version(memories, transaction, found, row, action)
        return settling.show_beside(transaction, memories, memory_id_bytes(row.id)) or row

    def row_destroyed(self, memories: Memories, transaction: Transaction, row: MemoryRow) -> None:
        """Seal that a record was destroyed for good and remove all its sealed rows."""
        found = self.active(transaction.connection)
        if found is not None:
            seal_forgetting(transaction, found, memory_id_bytes(row.id), row.id)

    def row_cleaned(
        self, memories: Memories, transaction: Transaction, row: MemoryRow, *, shown: bool
    ) -> None:
        """Seal what the row says now, so that the other devices come to say it too, and remove the
        sealed rows that what was found may stand in.
        """
        connection, record_id = transaction.connection, memory_id_bytes(row.id)
        found = self.active(connection)
        if found is None:
            return
        decided = not revisions.undecided(connection, record_id)
        if decided:
            others_hear = sealed_rows.are_held(
                connection, revisions.past_edits(connection, record_id)
            )
        else:  # the revisions beside the shown one may hold it; they go after the decision
            others_hear = not revisions.was_cleaned(connection, record_id)
        if shown or others_hear:
            deleted = row.status is RowStatus.DELETED
            action = WriteStatus.DELETED if deleted else WriteStatus.UPDATED
            with contextlib.suppress(TooLarge):  # then the other devices clean theirs
                seal_version(memories, transaction, found, row, action, cleans=True)
                settling.show_beside(transaction, memories, record_id)
        if shown:
            for name in revisions.names(connection, record_id):
                copies.forget_copies_of(transaction, state.require(connection), name)
        if decided:
            sealed_rows.retire(connection, revisions.past_edits(connection, record_id))


def seal_version(
    memories: Memories | None,
    transaction: Transaction,
    found: SyncState,
    row: MemoryRow,
    action: WriteStatus,
    *,
    kind: Kind = Kind.MEMORY,
    at_ms: int | None = None,
    cleans: bool = False,
) -> None:
    """One own revision of a record as it stands, and for a deleted one its tombstone.

    It names what the row showed: current revisions that a person still has to decide about stay
    beside it, unless ``kind`` is RESOLVE, or the record is deleted or redacted. Without
    ``memories`` a key that gets free stays so until somebody else writes to it; ``at_ms`` is when
    a version was written that is sealed only now. ``cleans``: nobody changed the record, its
    versions were only cleaned.
    """
    connection, record_id = transaction.connection, memory_id_bytes(row.id)
    known = connection.execute(
        "SELECT record, claim, version FROM sync_record WHERE id = ?", (record_id,)
    ).fetchone()
    deleted = row.status is RowStatus.DELETED
    if known is None and deleted:
        return  # what nobody else ever saw needs no tombstone
    record, claim, sealed = (own_log.new_record(), None, 0) if known is None else known
    maximal = revisions.maximal(connection, record_id) if known is not None else []
    staying: list[Revision] = []
    redacted = action is WriteStatus.REDACTED
    if len(maximal) > 1:
        if not (deleted or redacted or kind is Kind.RESOLVE):
            undecided = revisions.undecided(connection, record_id)
            staying = [revision for revision in maximal if revision.dot in undecided]
        else:
            connection.execute("DELETE FROM sibling WHERE id = ?", (record_id,))
    shown = [revision for revision in maximal if revision not in staying]
    anew = None
    if cleans and sealed == row.version:  # else what it says was not sealed before
        if not deleted:  # a deletion beside it yields anyway, and says nothing anew
            shown = [revision for revision in shown if revision.deletion is None]
        anew = max((revision.time for revision in shown), default=None)
    named = {revision.dot for revision in shown}
    if redacted:
        named |= revisions.unnumbered(connection, record_id)
    parents = tuple(sorted(named))
    revision: Revision | None = None
    if redacted or not deleted:
        fields = payload_rows.fields_of(row)
        if redacted:  # in the trash or not: that it is deleted is said by its tombstone
            fields["status"] = RowStatus.REDACTED.value
        said = Said(
            kind,
            fields,
            record,
            record_id,
            parents=parents,
            beats=tuple(r.time for r in staying),
            at_ms=at_ms,
            cleans=anew,
        )
        found, revision = own_log.append(transaction, found, said)
        parents = (revision.dot,)
    if redacted:
        earlier = revisions.everything(connection, record_id)
        keep = None if revision is None else revision.dot
        sealed_rows.remove(connection, [r.dot for r in earlier if not r.deletion and r.dot != keep])
    if deleted:
        fields = {"updated_at_ms": row.updated_at_ms, **_who(row)}
        _seal_tombstone(
            transaction, found, record, record_id, parents, DeletionMode.TIDY, row.id, fields, anew
        )
    place = None
    if not deleted:
        place = claims.place_of(row.semantic_key, row.bucket, row.scope, row.kind.value)
    connection.execute(
        "INSERT INTO sync_record(id, record, version) VALUES(?, ?, ?)"
        " ON CONFLICT(id) DO UPDATE SET version = excluded.version",
        (record_id, record, row.version),
    )
    if place is not None or claim is not None:
        claims.note(connection, record_id, place, revision)
        if claim != place and memories is not None:
            claims.reassign(transaction, memories, claim)
    sealed_rows.retire_redacted(connection, record_id)
    sealed_rows.retire_past(connection, record_id)


def seal_missed(transaction: Transaction, record_id: bytes) -> None:
    """Before a record changes from elsewhere: seal what was written here and not sealed.

    That is a row from before sync, or one written before this device enrolled again. What an entry
    said that was dropped then (a negative version) may be on the server: it is not said twice.
    """
    connection = transaction.connection
    missed = connection.execute(
        "SELECT r.rowid FROM record r LEFT JOIN sync_record s ON s.id = r.id WHERE r.id = ?"
        " AND r.status <> 'deleted' AND (s.version IS NULL OR r.version > abs(s.version))",
        (record_id,),
    ).fetchone()
    found = state.read_active(connection) if missed is not None else None
    if missed is None or found is None:
        return
    row = queries.row_by_rowid(connection, missed[0])
    if row is not None:
        with contextlib.suppress(TooLarge):  # it stays in the history here
            seal_version(
                None, transaction, found, row, WriteStatus.UPDATED, at_ms=row.updated_at_ms
            )


def seal_forgetting(
    transaction: Transaction, found: SyncState, record_id: bytes, memory_id: str
) -> None:
    """The tombstone that wins over everything, also over what comes later and did not know it."""
    connection = transaction.connection
    known = connection.execute(
        "SELECT record FROM sync_record WHERE id = ?", (record_id,)
    ).fetchone()
    record = own_log.new_record() if known is None else known[0]
    parents = tuple(sorted(r.dot for r in revisions.maximal(connection, record_id)))
    found = _seal_tombstone(
        transaction, found, record, record_id, parents, DeletionMode.FORGET, memory_id, {}
    )
    sealed_rows.remove(
        connection,
        [r.dot for r in revisions.everything(connection, record_id) if r.deletion is None],
    )
    for name in revisions.names(connection, record_id):
        sealed_rows.remove_record(connection, name)
        copies.forget_copies_of(transaction, found, name)
        found = state.require(connection)
    connection.execute("DELETE FROM sibling WHERE id = ?", (record_id,))
    connection.execute("DELETE FROM sync_record WHERE id = ?", (record_id,))
    transaction.request_checkpoint()


def _seal_tombstone(
    transaction: Transaction,
    found: SyncState,
    record: bytes,
    record_id: bytes,
    parents: tuple[Dot, ...],
    mode: DeletionMode,
    memory_id: str,
    fields: dict[str, Any],
    cleans: HybridTime | None = None,
) -> SyncState:
    said = Said(
        Kind.TOMBSTONE,
        {"id": memory_id, "mode": mode.value, **fields},
        record,
        record_id,
        policy=Policy.TOMBSTONE,
        parents=parents,
        deletion=mode,
        cleans=cleans,
    )
    return own_log.append(transaction, found, said)[0]


def _who(row: MemoryRow) -> dict[str, Any]:
    labels = {
        "agent_id": row.writer.identity.agent_id,
        "agent_instance_id_hash": row.writer.identity.instance_hash,
        "client": row.writer.client,
    }
    return {name: value for name, value in labels.items() if value is not None}
