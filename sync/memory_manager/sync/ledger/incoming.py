"""An accepted page into the vault: entries, sealed rows, heads and records in one transaction.

Rows that do not open or do not fit are quarantined with their code and never stop the page; too
many deletions stop it before anything is applied. Contract: sync.md 3.3, 4.3, 5.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from memory_manager.sync.wire.acceptance import Accepted
from memory_manager.sync.wire.framing import Page, Signed
from memory_manager.sync.wire.log import ServerHead
from memory_manager.vault.memories import Memories

if TYPE_CHECKING:
    from memory_manager.vault.transaction import Transaction


@dataclasses.dataclass(frozen=True, slots=True)
class PageOutcome:
    """What a page changed here. ``own`` rows are those of ours that it acknowledged."""

    rows: int = 0
    own: int = 0
    applied: int = 0
    quarantined: int = 0


def commit_page(
    transaction: Transaction, memories: Memories, page: Page, accepted: Accepted
) -> PageOutcome:
    """Store and apply a page that ``verified.verifier`` accepted in this state of the database.

    SyncRefused(BREAKER), and nothing is stored, when it deletes too much and the owner did not
    agree (``state.confirm_deletions``); SyncRefused(TRUNCATED) if the database moved on meanwhile.
    """
    raise NotImplementedError


def acknowledge(transaction: Transaction, head: Signed[ServerHead]) -> int:
    """A push's answer: number our rows at once when the head is exactly ours on top of our n.

    Returns how many rows it covers; 0 when other rows came between (then the next pull tells).
    SyncRefused: SERVER_KEY, ROLLBACK or EQUIVOCATION.
    """
    raise NotImplementedError
