"""The one write path: remember, update, forget, restore, import. Doors and importers all call it.

Runs inside a transaction of the single writer; row, version, derived indexes and audit entry commit
together or not at all. Contract: xmemo.md 4.12, 6.2, 6.5; redaction.md 10; recall.md 10.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.base.errors import NotFound
from memory_manager.base.identifiers import MemoryId, new_memory_id
from memory_manager.vault import (
    audit,
    cleaning,
    erasure,
    history_import,
    incoming_rows,
    queries,
    row_matching,
    row_writer,
)
from memory_manager.vault.errors import Conflict
from memory_manager.vault.item_fields import without_text
from memory_manager.vault.prepared_version import (
    DEFAULT_MEMORY_TYPE,
    PreparedVersion,
    contents_of_draft,
    contents_of_stored,
)
from memory_manager.vault.row_changes import changed_contents, version_to_restore
from memory_manager.vault.rows import (
    Attribution,
    ForgetMode,
    ImportedVersion,
    MemoryChange,
    MemoryDraft,
    MemoryRow,
    RowStatus,
    SkippedCapture,
    WriteOutcome,
    WriteStatus,
)
from memory_manager.vault.savepoint import all_or_nothing

if TYPE_CHECKING:
    from memory_manager.vault.cleaning import Cleaned, Within
    from memory_manager.vault.incoming_rows import IncomingRow
    from memory_manager.vault.transaction import RowIndexer, RowJournal, Transaction


class Memories:
    """Writes of memories. ``indexers`` take part in every transaction, in the given order;
    ``journal`` hears of every write that was made here.
    """

    def __init__(
        self,
        indexers: Sequence[RowIndexer] = (),
        *,
        journal: RowJournal | None = None,
        new_id: Callable[[], MemoryId] = new_memory_id,
    ) -> None:
        self._indexers = tuple(indexers)
        self._journal = journal
        self._new_id = new_id

    def remember(
        self, transaction: Transaction, draft: MemoryDraft, writer: Attribution
    ) -> WriteOutcome:
        """Store a memory: CREATED, UPDATED (same semantic key in the same bucket and scope) or
        DEDUPLICATED (``dedupe`` and no semantic key: the same text at the same place).

        Raises InvalidInput, TooLarge and, for a ``draft.id`` that is taken, Conflict.
        """
        return self._remember(transaction, draft, self._prepared(transaction, draft, writer))

    def capture(
        self, transaction: Transaction, draft: MemoryDraft, writer: Attribution
    ) -> WriteOutcome | SkippedCapture:
        """``remember`` for what an agent captured by itself: skipped, not stored redacted, when a
        private key or the like is in it. Only the rule ids are kept (redaction.md 10).
        """
        prepared = self._prepared(transaction, draft, writer)
        if not prepared.high_risk:
            return self._remember(transaction, draft, prepared)
        detail: dict[str, bool | list[str]] = {"skipped": True, "rules": list(prepared.rules)}
        audit.record(transaction, f"{draft.kind.value}.skipped", None, prepared.writer, detail)
        return SkippedCapture(prepared.rules)

    def _prepared(
        self, transaction: Transaction, draft: MemoryDraft, writer: Attribution
    ) -> PreparedVersion:
        contents = contents_of_draft(draft, DEFAULT_MEMORY_TYPE)
        return row_writer.prepare_for(transaction, contents, writer)

    def _remember(
        self, transaction: Transaction, draft: MemoryDraft, prepared: PreparedVersion
    ) -> WriteOutcome:
        clean = prepared.contents
        existing = row_matching.row_with_semantic_key(transaction.connection, clean)
        if existing is not None:
            if draft.memory_type is None:
                clean = dataclasses.replace(clean, memory_type=existing.memory_type)
                prepared = dataclasses.replace(prepared, contents=clean)
            return self._advance(transaction, existing, prepared, WriteStatus.UPDATED)
        if draft.dedupe and clean.semantic_key is None:
            twin = row_matching.row_with_same_text(
                transaction.connection, prepared, transaction.now_ms
            )
            if twin is not None:
                return WriteOutcome(WriteStatus.DEDUPLICATED, twin)
        return self._insert(transaction, draft, prepared)

    def update(
        self,
        transaction: Transaction,
        memory_id: MemoryId,
        change: MemoryChange,
        writer: Attribution,
    ) -> WriteOutcome:
        """Change a live memory: UPDATED, or UNCHANGED when nothing differs.

        Raises NotFound, InvalidInput, TooLarge, and Conflict when another live memory has the
        semantic key at that place.
        """
        row = queries.get_row(transaction.connection, memory_id)
        if row is None:
            raise NotFound
        stored = contents_of_stored(row)
        prepared = row_writer.prepare_for(
            transaction, changed_contents(row, change), writer, accepted=stored
        )
        if prepared.contents == stored:
            return WriteOutcome(WriteStatus.UNCHANGED, row)
        wanted = prepared.contents
        holder = row_matching.row_with_semantic_key(transaction.connection, wanted)
        if holder is not None and holder.rowid != row.rowid:
            raise Conflict("Another memory has this semantic key.", field="semantic_key")
        same_text = wanted.content == row.content
        status = row.status if same_text else RowStatus.ACTIVE
        return self._advance(transaction, row, prepared, WriteStatus.UPDATED, status)

    def forget(
        self,
        transaction: Transaction,
        memory_id: MemoryId,
        mode: ForgetMode,
        writer: Attribution,
        reason: str | None = None,
        replacement: str | None = None,
        *,
        owner_confirmed: bool = False,
    ) -> WriteOutcome:
        """Take a memory out of recall at once: DELETED, or REDACTED for that mode.

        ``soft_delete`` can be restored for 30 days. ``hard_delete`` does the same and notes that
        its bytes shall go; only with ``owner_confirmed`` (an admin act) they go now, with every
        version. ``redact`` replaces the text, keeps id and metadata, and no earlier version stays
        readable. A second time answers the same; NotFound for an id that never was.
        """
        row = queries.get_row(transaction.connection, memory_id, include_deleted=True)
        if row is None:
            tombstone = erasure.tombstone(transaction.connection, memory_id)
            if tombstone is None:
                raise NotFound
            return WriteOutcome(WriteStatus.DELETED, tombstone)
        if mode is ForgetMode.REDACT:
            return self._redact(transaction, row, writer, reason, replacement)
        if row.status is not RowStatus.DELETED:
            stored = contents_of_stored(row)
            prepared = row_writer.prepare_for(transaction, stored, writer, reason, accepted=stored)
            row = self._advance(
                transaction, row, prepared, WriteStatus.DELETED, RowStatus.DELETED
            ).row
        if mode is ForgetMode.HARD_DELETE and owner_confirmed:
            erasure.destroy(transaction, row, writer)
            if self._journal is not None:
                self._journal.row_destroyed(self, transaction, row)
            return WriteOutcome(WriteStatus.DELETED, erasure.emptied(row))
        if mode is ForgetMode.HARD_DELETE:
            row_writer.request_destruction(transaction, row.rowid)
        return WriteOutcome(WriteStatus.DELETED, row)

    def restore(
        self,
        transaction: Transaction,
        memory_id: MemoryId,
        writer: Attribution,
        version: int | None = None,
        reason: str | None = None,
    ) -> WriteOutcome:
        """Make an earlier version current again, as a new version: RESTORED or UNCHANGED.

        Without ``version``: a deleted memory comes back as it was, a live one goes back by one
        change (twice: back and forth). If its semantic key was taken over meanwhile it comes back
        without; an expiry that has passed is dropped, since it would hide what was asked for.
        Raises NotFound, and InvalidInput for a version that never was or was erased.
        """
        row = queries.get_row(transaction.connection, memory_id, include_deleted=True)
        if row is None:
            raise NotFound
        chosen = version_to_restore(
            row, queries.versions_of_rowid(transaction.connection, row.rowid), version
        )
        if chosen is None:
            return WriteOutcome(WriteStatus.UNCHANGED, row)
        contents = accepted = contents_of_stored(chosen)
        holder = row_matching.row_with_semantic_key(transaction.connection, contents)
        if holder is not None and holder.rowid != row.rowid:
            contents = dataclasses.replace(contents, semantic_key=None)
        if contents.expires_at_ms is not None and contents.expires_at_ms <= transaction.now_ms:
            contents = dataclasses.replace(contents, expires_at_ms=None)
        prepared = row_writer.prepare_for(transaction, contents, writer, reason, accepted=accepted)
        if row.status is not RowStatus.DELETED and prepared.contents == contents_of_stored(row):
            return WriteOutcome(WriteStatus.UNCHANGED, row)
        status = RowStatus.REDACTED if chosen.status is RowStatus.REDACTED else RowStatus.ACTIVE
        return self._advance(transaction, row, prepared, WriteStatus.RESTORED, status)

    def mark_used(self, transaction: Transaction, memory_id: MemoryId) -> WriteOutcome:
        """Count one use of a live memory; no version, no audit entry. NotFound when unknown."""
        row = queries.get_row(transaction.connection, memory_id)
        if row is None:
            raise NotFound
        transaction.connection.execute(
            "INSERT INTO record_use(record_rowid, use_count, last_used_at_ms) VALUES(?, 1, ?)"
            " ON CONFLICT(record_rowid) DO UPDATE SET use_count = use_count + 1,"
            " last_used_at_ms = excluded.last_used_at_ms",
            (row.rowid, transaction.now_ms),
        )
        return WriteOutcome(WriteStatus.UNCHANGED, row)

    def import_history(
        self,
        transaction: Transaction,
        history: Sequence[ImportedVersion],
        *,
        memory_id: MemoryId | None = None,
        created_at_ms: int | None = None,
    ) -> WriteOutcome:
        """Store an archived memory with all its versions, oldest first; the last one is current.

        Every version passes the same limits and sanitizer as a new memory. Raises Conflict, having
        stored nothing, when the id is known (also as destroyed) or the semantic key is taken.
        """
        prepared = history_import.prepare_history(transaction, history)
        rowid = history_import.store_history(
            transaction,
            self._free_id(transaction, memory_id),
            history,
            prepared,
            created_at_ms or history[0].written_at_ms,
        )
        row = row_writer.stored_row(transaction, rowid)
        self._index(transaction, None, row)
        self._audit(transaction, "imported", row, rules=prepared[-1].rules)
        row = self._written(transaction, row, WriteStatus.CREATED)
        return WriteOutcome(WriteStatus.CREATED, row)

    def clean(
        self, transaction: Transaction, begun: Within, *, whole: bool, until: float
    ) -> Cleaned | None:
        """``cleaning.clean`` with all that follows from it: indexes, audit, and the journal, which
        hears of a record once its last version was looked at. Raises, having changed nothing,
        where the cleaned text cannot be stored.
        """
        with all_or_nothing(transaction):
            found = cleaning.clean(transaction, begun, whole=whole, until=until)
            if found is not None:
                self._cleaned(transaction, found)
        return found

    def _cleaned(self, transaction: Transaction, found: Cleaned) -> None:
        row, shown = found.row, found.before is not None
        if shown:
            self._index(transaction, found.before, row)
        if found.changed:
            rules = sorted(set(found.rules))
            detail: dict[str, int | list[str]] = {"version": row.version, "redactions": rules}
            audit.record(transaction, f"{row.kind.value}.cleaned", row.id, None, detail)
        if found.done and found.readable and found.within.cleaned:
            self.tell_cleaned(transaction, row, shown=shown)

    def tell_cleaned(self, transaction: Transaction, row: MemoryRow, *, shown: bool = True) -> None:
        """The journal hears that the sanitizer took something out of what other devices have."""
        if self._journal is not None:
            self._journal.row_cleaned(self, transaction, row, shown=shown)

    def apply(self, transaction: Transaction, incoming: IncomingRow) -> WriteOutcome:
        """Make what another device wrote the current version here: CREATED, UPDATED, REDACTED,
        RESTORED or UNCHANGED. The journal is not told.

        Raises InvalidInput, TooLarge, SanitizerFailed, and Conflict for a record of another kind.
        """
        prepared = incoming_rows.prepare(transaction, incoming)
        before = queries.get_row(transaction.connection, incoming.id, include_deleted=True)
        rowid, action = incoming_rows.store(transaction, incoming, prepared, before)
        row = row_writer.stored_row(transaction, rowid)
        if action is not WriteStatus.UNCHANGED:
            self._index(transaction, before, row)
            self._audit(transaction, "synced", row, rules=prepared.rules)
        return WriteOutcome(action, row)

    def apply_deletion(
        self, transaction: Transaction, memory_id: MemoryId, writer: Attribution, at_ms: int
    ) -> None:
        """Another device deleted it: it goes to the trash here. The journal is not told."""
        row = queries.get_row(transaction.connection, memory_id)
        if row is None:
            return
        stored = contents_of_stored(row)
        prepared = row_writer.prepare_for(transaction, stored, writer, accepted=stored)
        row_writer.add_version(
            transaction,
            row.rowid,
            row.version + 1,
            prepared,
            action=WriteStatus.DELETED,
            status=RowStatus.DELETED,
            written_at_ms=at_ms,
        )
        after = row_writer.stored_row(transaction, row.rowid)
        self._index(transaction, row, after)
        self._audit(transaction, "synced", after, rules=())

    def apply_destruction(self, transaction: Transaction, memory_id: MemoryId) -> None:
        """The owner had it destroyed on another device. The journal is not told."""
        self.apply_deletion(
            transaction, memory_id, Attribution(AgentIdentity()), transaction.now_ms
        )
        row = queries.get_row(transaction.connection, memory_id, include_deleted=True)
        if row is not None:
            erasure.destroy(transaction, row, None)

    def set_key(self, transaction: Transaction, memory_id: MemoryId, *, holds: bool) -> None:
        """Let a live record hold the semantic key that its version names, or not, as between
        devices was decided. The journal is not told.
        """
        before = queries.get_row(transaction.connection, memory_id)
        if before is None or (before.semantic_key is not None) == holds:
            return
        incoming_rows.set_key(transaction, before, holds=holds)
        self._index(transaction, before, row_writer.stored_row(transaction, before.rowid))

    def _insert(
        self, transaction: Transaction, draft: MemoryDraft, prepared: PreparedVersion
    ) -> WriteOutcome:
        written_at_ms = draft.created_at_ms or transaction.now_ms
        rowid = row_writer.insert_row(
            transaction,
            self._free_id(transaction, draft.id),
            prepared,
            created_at_ms=written_at_ms,
            written_at_ms=written_at_ms,
        )
        row = row_writer.stored_row(transaction, rowid)
        self._index(transaction, None, row)
        self._audit(transaction, "created", row, rules=prepared.rules)
        row = self._written(transaction, row, WriteStatus.CREATED)
        return WriteOutcome(WriteStatus.CREATED, row)

    def _advance(
        self,
        transaction: Transaction,
        row: MemoryRow,
        prepared: PreparedVersion,
        action: WriteStatus,
        status: RowStatus = RowStatus.ACTIVE,
    ) -> WriteOutcome:
        row_writer.add_version(
            transaction,
            row.rowid,
            row.version + 1,
            prepared,
            action=action,
            status=status,
            # A clock set back must not make a later version look older.
            written_at_ms=max(transaction.now_ms, row.updated_at_ms),
        )
        after = row_writer.stored_row(transaction, row.rowid)
        self._index(transaction, row, after)
        self._audit(transaction, action.value, after, rules=prepared.rules)
        return WriteOutcome(action, self._written(transaction, after, action))

    def _redact(
        self,
        transaction: Transaction,
        row: MemoryRow,
        writer: Attribution,
        reason: str | None,
        replacement: str | None,
    ) -> WriteOutcome:
        text = erasure.DEFAULT_REPLACEMENT if replacement is None else replacement
        stored = contents_of_stored(row)
        contents = dataclasses.replace(stored, content=text, item=without_text(row.kind, row.item))
        prepared = row_writer.prepare_for(transaction, contents, writer, reason, accepted=stored)
        erased = erasure.is_erased(transaction.connection, row)
        if erased and prepared.contents == stored:
            return WriteOutcome(WriteStatus.REDACTED, row)
        requested = erasure.destruction_requested(transaction.connection, row)
        row_writer.erase_versions(transaction, row)
        # A deleted memory stays deleted: redacting must not bring it back.
        deleted = row.status is RowStatus.DELETED
        status = RowStatus.DELETED if deleted else RowStatus.REDACTED
        after = self._advance(transaction, row, prepared, WriteStatus.REDACTED, status)
        if requested:
            row_writer.request_destruction(transaction, row.rowid)
        return after

    def _free_id(self, transaction: Transaction, wanted: MemoryId | None) -> MemoryId:
        if wanted is None:
            return self._new_id()
        if row_matching.id_is_taken(transaction.connection, wanted):
            raise Conflict("A memory with this id exists or was destroyed.", field="id")
        return wanted

    def _index(self, transaction: Transaction, before: MemoryRow | None, after: MemoryRow) -> None:
        live_before = before if before and before.status is not RowStatus.DELETED else None
        live_after = after if after.status is not RowStatus.DELETED else None
        if live_before is None and live_after is None:
            return
        for indexer in self._indexers:
            indexer.row_changed(transaction, live_before, live_after)

    def _written(self, transaction: Transaction, row: MemoryRow, action: WriteStatus) -> MemoryRow:
        if self._journal is None:
            return row
        return self._journal.row_written(self, transaction, row, action)

    def _audit(
        self, transaction: Transaction, action: str, row: MemoryRow, rules: Sequence[str]
    ) -> None:
        detail: dict[str, int | list[str]] = {"version": row.version}
        if rules:
            detail["redactions"] = list(rules)
        audit.record(transaction, f"{row.kind.value}.{action}", row.id, row.writer, detail)
