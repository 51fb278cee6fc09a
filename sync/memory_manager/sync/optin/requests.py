"""What an agent may do about opting in: ask. Nothing here makes a copy, signs or sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memory_manager.base.errors import InvalidInput, NotFound
from memory_manager.base.identifiers import MemoryId
from memory_manager.security.gate import Surface, may_recall
from memory_manager.security.redact import sanitize_server_write
from memory_manager.sync.engine.errors import SyncOff
from memory_manager.sync.ledger import state
from memory_manager.sync.optin import table
from memory_manager.sync.optin.documents import may_be_opted_in
from memory_manager.sync.optin.table import Request
from memory_manager.vault import audit, queries
from memory_manager.vault.rows import Attribution

if TYPE_CHECKING:
    from memory_manager.vault.transaction import Transaction

MAX_REASON_CHARACTERS: Final = 500


def file_request(
    transaction: Transaction, memory_id: MemoryId, actor: Attribution, reason: str | None = None
) -> bool:
    """Put before the owner that a memory should be opted in; False when it waits, or is opted in,
    already, or when too many wait.

    NotFound for what the caller could not recall, InvalidInput for a long reason, SyncOff.
    """
    if reason is not None and len(reason) > MAX_REASON_CHARACTERS:
        message = f"reason must have at most {MAX_REASON_CHARACTERS} characters."
        raise InvalidInput(message, field="reason")
    connection = transaction.connection
    if state.read(connection) is None:
        raise SyncOff
    row = queries.get_row(connection, memory_id)
    if row is None or not may_recall(row.envelope, row.metadata, Surface.LOCAL).allowed:
        raise NotFound
    if not may_be_opted_in(row):
        raise NotFound
    if any(held.state in table.LIVE for held in table.of_memory(connection, memory_id)):
        return False
    clean = sanitize_server_write(reason).text if reason else None
    agent = actor.identity.agent_id
    asked = Request(memory_id, transaction.now_ms, agent, actor.client, clean)
    filed = table.add_request(transaction, asked)
    if filed:
        audit.record(transaction, "opt_in.requested", memory_id, actor)
    return filed
