"""One round with the server: roster, pull, wraps, seal, push, re-wrap (sync.md 9.4).

Every step commits on its own and can be cut off anywhere; the next round goes on from the verified
position.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_manager.sync.engine.parts import Parts
from memory_manager.sync.engine.pull_step import fetch_wraps, pull
from memory_manager.sync.engine.push_step import push, seal
from memory_manager.sync.engine.rewrap_step import rewrap
from memory_manager.sync.engine.roster_step import update_roster
from memory_manager.sync.errors import SyncCode
from memory_manager.sync.ledger import alarms

if TYPE_CHECKING:
    from memory_manager.vault.transaction import Transaction


async def run_round(parts: Parts, agreed_roster: bytes | None = None) -> None:
    """Raises what ended it early; ``advice.finding_of`` says what that means.

    ``agreed_roster`` is the hash of the newest roster entry that the owner agreed to.
    """
    await update_roster(parts, agreed_roster)
    await pull(parts, agreed_roster)
    await fetch_wraps(parts)
    await seal(parts)
    await push(parts, agreed_roster)
    await rewrap(parts)
    if parts.client.was_told_more():
        await parts.store.write(_note_unasked)


def _note_unasked(transaction: Transaction) -> None:
    """The server spoke of versions, keys or capabilities: it is not followed (sync.md 6.5)."""
    alarms.record(transaction, SyncCode.CLASS_POLICY, detail={"what": "server", "unasked": 1})
