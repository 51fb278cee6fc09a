"""What follows from the owner's no and from later changes: copies that have to leave the server.

A grant covers one revision (sync.md 6.3): a memory that was changed, deleted or redacted leaves,
and a change is put before the owner again. All of it runs inside a transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memory_manager.base.identifiers import MemoryId
from memory_manager.sync.engine.errors import SyncOff
from memory_manager.sync.ledger import copies, state
from memory_manager.sync.optin import table
from memory_manager.sync.optin.approval import leave
from memory_manager.sync.optin.documents import document_of, may_be_opted_in
from memory_manager.sync.optin.table import OptedIn, OptInState, Request
from memory_manager.vault import audit, queries
from memory_manager.vault.rows import Attribution

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

BY_ITSELF = "memlocket"
"""The ``client`` of a request that no agent filed: an opted-in memory was changed."""


def opt_out(
    transaction: Transaction, ids: Sequence[MemoryId], actor: Attribution
) -> list[MemoryId]:
    """Take memories back: their copies on this vault's log are tombstoned and will be removed from
    the server, whichever device made them; requests for them go. Returns those that had any;
    SyncOff where nothing can be sealed.
    """
    connection = transaction.connection
    if state.read_active(connection) is None:
        raise SyncOff
    taken: list[MemoryId] = []
    for memory_id in dict.fromkeys(ids):
        rows = [row for row in table.of_memory(connection, memory_id) if _stays(row)]
        known = {row.record for row in rows}
        rows += [
            OptedIn(record, memory_id, None, None, None, OptInState.SENT)
            for record in copies.copies_of(connection, memory_id)
            if record not in known
        ]
        for row in rows:
            leave(transaction, row)
        asked = table.drop_request(transaction, memory_id)
        if rows or asked:
            taken.append(memory_id)
            audit.record(transaction, "opt_in.out", memory_id, actor, {"copies": len(rows)})
    return taken


def reconcile(transaction: Transaction) -> None:
    """Let copies go whose memory says something else now, or nothing."""
    for row, live in _outdated(transaction.connection):
        let_go(transaction, row, "changed" if live else "deleted", ask_again=live)


def needs_reconciling(connection: Connection) -> bool:
    """Whether ``reconcile`` would let anything go."""
    return any(True for _ in _outdated(connection))


def let_go(transaction: Transaction, row: OptedIn, reason: str, *, ask_again: bool = True) -> None:
    """A copy whose grant covers nothing any more leaves, and the owner may be asked anew. Nothing
    for one that the owner took back meanwhile.
    """
    held = table.of_record(transaction.connection, row.record)
    if held is None or held.state not in table.LIVE:
        return
    leave(transaction, row)
    audit.record(transaction, "opt_in.out", row.memory_id, None, {"copies": 1, "reason": reason})
    if ask_again:
        again = Request(row.memory_id, transaction.now_ms, None, BY_ITSELF, None)
        table.add_request(transaction, again)


def _outdated(connection: Connection) -> Iterator[tuple[OptedIn, bool]]:
    """Live copies that are not what their memory says; with each, whether it says anything."""
    for row in table.listed(connection, table.LIVE):
        memory = queries.get_row(connection, row.memory_id)
        if memory is None or not may_be_opted_in(memory):
            yield row, False
        elif document_of(memory).encode() != row.document:
            yield row, True
        elif copies.original_of(connection, row.record) is None:
            yield row, True


def _stays(row: OptedIn) -> bool:
    return row.state is not OptInState.LEAVING
