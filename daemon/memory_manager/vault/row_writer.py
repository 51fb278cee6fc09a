"""The only SQL that writes memories: every text passes ``prepare`` (the sanitizer) on the way in.

A write is a new immutable version plus the current row that names it. Nothing changes an old
version except erasing it and putting its cleaned text in its place, which the database itself
permits only to the functions of this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from memory_manager.base.identifiers import MemoryId, memory_id_bytes
from memory_manager.security.envelope import VAULT_DEFAULT
from memory_manager.vault import queries
from memory_manager.vault.item_fields import item_columns
from memory_manager.vault.prepared_version import PreparedVersion, RowContents, prepare
from memory_manager.vault.row_codec import (
    MAX_VERSION,
    attribution_columns,
    encode_json,
    version_slot,
)
from memory_manager.vault.rows import (
    Attribution,
    MemoryRow,
    RecordKind,
    RowStatus,
    WriteStatus,
)
from memory_manager.vault.settings import personal_data

if TYPE_CHECKING:
    from memory_manager.vault.transaction import Transaction

_EMPTY_SNAPSHOT = '{"active_state":null,"timeline":[],"reminders":[],"decisions":[]}'


def prepare_for(
    transaction: Transaction,
    contents: RowContents,
    writer: Attribution,
    reason: str | None = None,
    *,
    accepted: RowContents | None = None,
) -> PreparedVersion:
    """``prepare`` under the owner's settings for personal data."""
    personal = personal_data(transaction.connection)
    return prepare(contents, writer, reason=reason, accepted=accepted, personal=personal)


def insert_row(
    transaction: Transaction,
    memory_id: MemoryId,
    prepared: PreparedVersion,
    *,
    action: WriteStatus = WriteStatus.CREATED,
    status: RowStatus = RowStatus.ACTIVE,
    created_at_ms: int,
    written_at_ms: int,
    erased: bool = False,
    holds_key: bool = True,
) -> int:
    """Store version 1 of a new memory with the vault's default envelope and return its rowid.

    ``erased`` stores an imported version whose text a redaction had removed; ``holds_key`` is
    False for an imported version that is not the last, whose semantic key may be another row's.
    """
    contents = prepared.contents
    envelope = VAULT_DEFAULT
    cursor = transaction.connection.execute(
        "INSERT INTO record(id, version, status, bucket, scope, path, memory_type, semantic_key,"
        " agent_id, expires_at_ms, created_at_ms, updated_at_ms, deleted_at_ms, dedupe_key,"
        " security_mode, encryption_state, retrieval_visibility, server_embeddings_enabled,"
        " server_content_search_enabled, kind)"
        " VALUES(?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            memory_id_bytes(memory_id),
            status.value,
            contents.bucket,
            contents.scope,
            contents.path,
            contents.memory_type.value,
            contents.semantic_key if holds_key else None,
            prepared.writer.identity.agent_id,
            contents.expires_at_ms,
            created_at_ms,
            written_at_ms,
            transaction.now_ms if status is RowStatus.DELETED else None,
            prepared.dedupe_key,
            envelope.security_mode.value,
            envelope.encryption_state.value,
            envelope.retrieval_visibility.value,
            int(envelope.server_embeddings_enabled),
            int(envelope.server_content_search_enabled),
            contents.kind.value,
        ),
    )
    rowid = cursor.lastrowid or 0
    _insert_version(transaction, rowid, 1, prepared, action, status, written_at_ms, erased)
    _put_item(transaction, rowid, contents, created_at_ms)
    return rowid


def add_version(
    transaction: Transaction,
    rowid: int,
    version: int,
    prepared: PreparedVersion,
    *,
    action: WriteStatus,
    status: RowStatus,
    written_at_ms: int,
    erased: bool = False,
    holds_key: bool = True,
) -> None:
    """Store the next version of a memory and make it the current one."""
    _insert_version(transaction, rowid, version, prepared, action, status, written_at_ms, erased)
    contents = prepared.contents
    transaction.connection.execute(
        "UPDATE record SET version = ?, status = ?, bucket = ?, scope = ?, path = ?,"
        " memory_type = ?, semantic_key = ?, agent_id = ?, expires_at_ms = ?, updated_at_ms = ?,"
        " deleted_at_ms = ?, destruction_requested_at_ms = NULL, dedupe_key = ? WHERE rowid = ?",
        (
            version,
            status.value,
            contents.bucket,
            contents.scope,
            contents.path,
            contents.memory_type.value,
            contents.semantic_key if holds_key else None,
            prepared.writer.identity.agent_id,
            contents.expires_at_ms,
            written_at_ms,
            transaction.now_ms if status is RowStatus.DELETED else None,
            prepared.dedupe_key,
            rowid,
        ),
    )
    _put_item(transaction, rowid, contents, None)


def set_key(transaction: Transaction, rowid: int, semantic_key: str | None) -> None:
    """Give a row the key that its version names, or take it: between devices one row holds it."""
    transaction.connection.execute(
        "UPDATE record SET semantic_key = ? WHERE rowid = ?", (semantic_key, rowid)
    )


def set_created(transaction: Transaction, rowid: int, created_at_ms: int) -> None:
    """The time on which the devices agreed, where two had made the same record by themselves."""
    transaction.connection.execute(
        "UPDATE record SET created_at_ms = ? WHERE rowid = ?", (created_at_ms, rowid)
    )


def request_destruction(transaction: Transaction, rowid: int) -> None:
    """Note on a deleted row that an agent wants its bytes destroyed; the owner decides."""
    transaction.connection.execute(
        "UPDATE record SET destruction_requested_at_ms = ifnull(destruction_requested_at_ms, ?)"
        " WHERE rowid = ?",
        (transaction.now_ms, rowid),
    )


def erase_versions(transaction: Transaction, row: MemoryRow) -> None:
    """Blank every version of a memory: who wrote when stays, what was written goes.

    The caller adds the version that the memory shows from now on.
    """
    _permit_erasure(transaction, row.rowid)
    transaction.connection.execute(
        "UPDATE record_version SET content = NULL, path = '', bucket = '', scope = NULL,"
        " source = NULL, metadata = '{}', provenance = '{}', semantic_key = NULL, reason = NULL,"
        " item = '{}', redactions = '[]' WHERE slot BETWEEN ? AND ?",
        _slots(row.rowid),
    )
    _end_erasure(transaction, row)


def rewrite_versions(
    transaction: Transaction, row: MemoryRow, cleaned: Mapping[int, PreparedVersion]
) -> None:
    """Put cleaned versions, keyed by number, in the place of what older rules let through: who
    wrote when stays. What ``row`` shows follows with ``rewrite_row``.
    """
    connection = transaction.connection
    connection.execute("INSERT INTO version_cleaning(record_rowid) VALUES(?)", (row.rowid,))
    for number, prepared in cleaned.items():
        contents, identity = prepared.contents, prepared.writer.identity
        connection.execute(
            "UPDATE record_version SET content = iif(content IS NULL, NULL, ?), path = ?,"
            " bucket = ?, scope = ?, source = ?, metadata = ?, provenance = ?, semantic_key = ?,"
            " redactions = ?, ruleset_version = ?, agent_id = ?, client = ?, reason = ?, item = ?"
            " WHERE slot = ?",
            (
                contents.content,
                contents.path,
                contents.bucket,
                contents.scope,
                contents.source,
                prepared.metadata_json,
                prepared.provenance_json,
                contents.semantic_key,
                encode_json(list(prepared.rules)),
                prepared.ruleset_version,
                identity.agent_id,
                prepared.writer.client,
                prepared.reason,
                prepared.item_json,
                version_slot(row.rowid, number),
            ),
        )
    connection.execute("DELETE FROM version_cleaning WHERE record_rowid = ?", (row.rowid,))


def rewrite_row(
    transaction: Transaction, row: MemoryRow, prepared: PreparedVersion, *, key: str | None
) -> None:
    """What lists, filters and keys know of the current version, after ``rewrite_versions``."""
    contents = prepared.contents
    transaction.connection.execute(
        "UPDATE record SET bucket = ?, scope = ?, path = ?, semantic_key = ?, agent_id = ?,"
        " dedupe_key = ? WHERE rowid = ?",
        (
            contents.bucket,
            contents.scope,
            contents.path,
            key,
            prepared.writer.identity.agent_id,
            prepared.dedupe_key,
            row.rowid,
        ),
    )
    _put_item(transaction, row.rowid, contents, None)
    forget_answers(transaction, row.id)


def forget_answers(transaction: Transaction, memory_id: MemoryId) -> None:
    """A stored answer of an earlier request may quote the memory; its replay must not."""
    connection = transaction.connection
    connection.execute(
        "UPDATE idempotency SET body = ? WHERE json_extract(body, '$.id') = ?",
        (encode_json({"id": memory_id, "memory_id": memory_id}), memory_id),
    )
    # So may the answer of a restored snapshot, which names the snapshot.
    connection.execute(
        "UPDATE idempotency SET body = json_set(body, '$.snapshot', json(?))"
        " WHERE json_extract(body, '$.snapshot') IS NOT NULL AND instr(body, ?)",
        (_EMPTY_SNAPSHOT, memory_id),
    )


def destroy_row(transaction: Transaction, row: MemoryRow) -> None:
    """Remove a memory with all its versions; a tombstone without content stays."""
    _permit_erasure(transaction, row.rowid)
    connection = transaction.connection
    connection.execute("DELETE FROM record_version WHERE slot BETWEEN ? AND ?", _slots(row.rowid))
    connection.execute("DELETE FROM record WHERE rowid = ?", (row.rowid,))
    connection.execute(
        "INSERT INTO destroyed(id, version, destroyed_at_ms) VALUES(?, ?, ?)",
        (memory_id_bytes(row.id), row.version, transaction.now_ms),
    )
    _end_erasure(transaction, row)


def stored_row(transaction: Transaction, rowid: int) -> MemoryRow:
    """The row as it now stands in the database."""
    row = queries.row_by_rowid(transaction.connection, rowid)
    if row is None:
        raise LookupError("the row of this transaction is not there")
    return row


def _insert_version(
    transaction: Transaction,
    rowid: int,
    version: int,
    prepared: PreparedVersion,
    action: WriteStatus,
    status: RowStatus,
    written_at_ms: int,
    erased: bool,
) -> None:
    contents = prepared.contents
    transaction.connection.execute(
        "INSERT INTO record_version(slot, version, action, status, content, path, bucket, scope,"
        " memory_type, importance, confidence, source, metadata, provenance, semantic_key,"
        " expires_at_ms, redactions, ruleset_version, agent_id, instance_hash, credential_id,"
        " client, reason, written_at_ms, item)"
        " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            version_slot(rowid, version),
            version,
            action.value,
            status.value,
            None if erased else contents.content,
            contents.path,
            contents.bucket,
            contents.scope,
            contents.memory_type.value,
            contents.importance,
            contents.confidence,
            contents.source,
            prepared.metadata_json,
            prepared.provenance_json,
            contents.semantic_key,
            contents.expires_at_ms,
            encode_json(list(prepared.rules)),
            prepared.ruleset_version,
            *attribution_columns(prepared.writer),
            prepared.reason,
            written_at_ms,
            prepared.item_json,
        ),
    )


def _put_item(
    transaction: Transaction, rowid: int, contents: RowContents, created_at_ms: int | None
) -> None:
    """The columns that lists filter by; ``created_at_ms`` None keeps the time of the first one."""
    if contents.kind is RecordKind.MEMORY:
        return
    columns = item_columns(contents.kind, contents.item)
    connection = transaction.connection
    if created_at_ms is None:
        (created_at_ms,) = connection.execute(
            "SELECT created_at_ms FROM record WHERE rowid = ?", (rowid,)
        ).fetchone()
    connection.execute(
        "INSERT OR REPLACE INTO record_item(record_rowid, kind, at_ms, item_status, due_at_ms,"
        " session_id, label, amount_micros) VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
        (
            rowid,
            contents.kind.value,
            created_at_ms if columns.at_ms is None else columns.at_ms,
            columns.item_status,
            columns.due_at_ms,
            columns.session_id,
            columns.label,
            columns.amount_micros,
        ),
    )


def _permit_erasure(transaction: Transaction, rowid: int) -> None:
    transaction.connection.execute("INSERT INTO version_erasure(record_rowid) VALUES(?)", (rowid,))


def _end_erasure(transaction: Transaction, row: MemoryRow) -> None:
    connection = transaction.connection
    connection.execute("DELETE FROM version_erasure WHERE record_rowid = ?", (row.rowid,))
    forget_answers(transaction, row.id)
    transaction.request_checkpoint()


def _slots(rowid: int) -> tuple[int, int]:
    return version_slot(rowid, 0), version_slot(rowid, MAX_VERSION)
