"""Records with several current revisions: shown by the winner, decided by the owner (sync.md 5)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

from memory_manager.base.identifiers import MemoryId
from memory_manager.sync.ledger.journal import SyncJournal
from memory_manager.sync.wire.envelope import Dot
from memory_manager.vault.memories import Memories
from memory_manager.vault.prepared_version import RowContents
from memory_manager.vault.rows import Attribution, MemoryChange, WriteOutcome

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction


@dataclasses.dataclass(frozen=True, slots=True)
class Sibling:
    """One of several current revisions; ``contents`` is None while its row does not open."""

    dot: Dot
    is_winner: bool
    at_ms: int  # of the author's clock
    writer: Attribution
    contents: RowContents | None = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class ConflictedRecord:
    id: MemoryId
    siblings: tuple[Sibling, ...]  # the winner first


def count(connection: Connection) -> int:
    raise NotImplementedError


def listed(connection: Connection, *, limit: int = 100, offset: int = 0) -> list[ConflictedRecord]:
    raise NotImplementedError


def of_record(connection: Connection, memory_id: MemoryId) -> ConflictedRecord | None:
    """None when the record is not in conflict."""
    raise NotImplementedError


def conflicted(connection: Connection, ids: Iterable[MemoryId]) -> set[MemoryId]:
    """Which of these are in conflict, for ``conflict: true`` in answers."""
    raise NotImplementedError


def keep(
    transaction: Transaction,
    journal: SyncJournal,
    memories: Memories,
    memory_id: MemoryId,
    dot: Dot,
    writer: Attribution,
) -> WriteOutcome:
    """Make this revision the only one. NotFound when the record or the revision is not there."""
    raise NotImplementedError


def merge(
    transaction: Transaction,
    journal: SyncJournal,
    memories: Memories,
    memory_id: MemoryId,
    change: MemoryChange,
    writer: Attribution,
) -> WriteOutcome:
    """Make the winner with ``change`` the only revision. NotFound when there is no conflict."""
    raise NotImplementedError
