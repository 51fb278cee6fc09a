"""Seals rows that have no revision for what they say now: from before sync, or missed since."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from memory_manager.sync.ledger.journal import SyncJournal

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction


@dataclasses.dataclass(frozen=True, slots=True)
class SeedingProgress:
    sealed: int
    total: int


def seal_some(transaction: Transaction, journal: SyncJournal, *, limit: int = 128) -> int:
    """Seal up to ``limit`` rows and return how many; 0 ends the seeding. Resumable anywhere."""
    raise NotImplementedError


def progress(connection: Connection) -> SeedingProgress:
    raise NotImplementedError
