"""``roster_mark`` rows: a log entry that covers a new roster hash (sync.md 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_manager.sync.ledger import device_names, own_log, state
from memory_manager.sync.ledger.own_log import Said
from memory_manager.sync.wire.envelope import Dot
from memory_manager.sync.wire.payload import Kind

if TYPE_CHECKING:
    from memory_manager.vault.transaction import Transaction


def write_mark(transaction: Transaction) -> Dot:
    """Append an entry with the newest roster hash to our own log; it tells our names of devices."""
    found = state.require_active(transaction.connection)
    fields = device_names.told(transaction.connection, found.device)
    said = Said(Kind.ROSTER_MARK, fields, own_log.new_record(), None)
    return own_log.append(transaction, found, said)[1].dot
