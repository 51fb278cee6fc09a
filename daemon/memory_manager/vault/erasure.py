"""Forgetting for good: what is destroyed, what is left of it, and the 30 days of the local trash.

Contract: vault.md 8, xmemo.md 6.5.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.base.identifiers import MemoryId
from memory_manager.security.envelope import UNREADABLE
from memory_manager.vault import audit, queries, row_writer
from memory_manager.vault.row_codec import parse_memory_id
from memory_manager.vault.rows import (
    DEFAULT_BUCKET,
    Attribution,
    MemoryRow,
    MemoryType,
    RowStatus,
)

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction


DEFAULT_REPLACEMENT: Final = "[REDACTED]"
TRASH_SECONDS: Final = 30 * 24 * 3600
"""How long a soft-deleted memory can be restored."""

_NOBODY: Final = Attribution(AgentIdentity())


def destroy(transaction: Transaction, row: MemoryRow, actor: Attribution | None) -> None:
    """Remove a deleted memory with every version. Derived indexes dropped it when it was deleted;
    older backups still hold it.
    """
    row_writer.destroy_row(transaction, row)
    action = f"{row.kind.value}.destroyed"
    audit.record(transaction, action, row.id, actor, {"version": row.version})


def purge_trash(transaction: Transaction, *, limit: int = 200) -> int:
    """Destroy memories deleted more than 30 days ago, at most ``limit``; returns how many."""
    oldest_ms = transaction.now_ms - TRASH_SECONDS * 1000
    due = transaction.connection.execute(
        "SELECT rowid FROM record WHERE status = 'deleted' AND deleted_at_ms <= ?"
        " ORDER BY deleted_at_ms LIMIT ?",
        (oldest_ms, limit),
    ).fetchall()
    for (rowid,) in due:
        destroy(transaction, row_writer.stored_row(transaction, rowid), None)
    return len(due)


def tombstone(connection: Connection, memory_id: str) -> MemoryRow | None:
    """An empty row for a destroyed memory, so that forgetting it again answers the same."""
    raw = parse_memory_id(memory_id)
    found = connection.execute(
        "SELECT version, destroyed_at_ms FROM destroyed WHERE id = ?", (raw,)
    ).fetchone()
    if found is None:
        return None
    version, at_ms = found
    return MemoryRow(
        rowid=0,
        id=MemoryId(memory_id),
        version=version,
        content="",
        path="",
        bucket=DEFAULT_BUCKET,
        scope=None,
        memory_type=MemoryType.SEMANTIC,
        status=RowStatus.DELETED,
        importance=None,
        confidence=None,
        source=None,
        metadata={},
        provenance={},
        semantic_key=None,
        expires_at_ms=None,
        created_at_ms=at_ms,
        updated_at_ms=at_ms,
        writer=_NOBODY,
        envelope=UNREADABLE,
        redactions=(),
        ruleset_version="",
    )


def emptied(row: MemoryRow) -> MemoryRow:
    """The row of a destroyed memory as its last answer may show it: without what it said."""
    return dataclasses.replace(
        row, content="", metadata={}, provenance={}, semantic_key=None, source=None, item={}
    )


def is_erased(connection: Connection, row: MemoryRow) -> bool:
    """Whether a redaction already removed every earlier version."""
    earlier = queries.versions_of_rowid(connection, row.rowid)[:-1]
    return bool(earlier) and all(version.content is None for version in earlier)


def destruction_requested(connection: Connection, row: MemoryRow) -> bool:
    """Whether an agent asked to destroy this deleted memory."""
    (at_ms,) = connection.execute(
        "SELECT destruction_requested_at_ms FROM record WHERE rowid = ?", (row.rowid,)
    ).fetchone()
    return at_ms is not None
