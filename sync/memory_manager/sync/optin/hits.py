"""What the server's index says, believed as far as we know it ourselves (sync.md 6.5).

Of a hit only its record id counts. The text comes from this vault; a hit for which there is no
grant of ours is rejected with an alarm, and so is anything the server says that nobody asked.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from memory_manager.security.gate import Surface, may_recall
from memory_manager.sync.errors import SyncCode
from memory_manager.sync.ledger import alarms, copies
from memory_manager.sync.optin import grants_of_copies
from memory_manager.sync.wire import labels
from memory_manager.sync.wire.canonical import hex_bytes
from memory_manager.sync.wire.envelope import is_indexable
from memory_manager.vault import queries
from memory_manager.vault.rows import MemoryRow

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.sync.wire.roster import Roster
    from memory_manager.vault.transaction import Transaction

MAX_HITS: Final = 1_000
_MEMBERS: Final = frozenset({"results", "degraded"})
_DEGRADED: Final = ("embeddings", "embeddings_building")
_HIT: Final = frozenset({"record", "score"})


@dataclasses.dataclass(frozen=True, slots=True)
class IndexHit:
    """A memory of this vault that the server found; ``score`` is the server's word."""

    row: MemoryRow
    record: bytes
    score: float


@dataclasses.dataclass(frozen=True, slots=True)
class CheckedHits:
    """``strangers``: hits that no grant ever covered; ``unasked``: whether the server said more."""

    hits: tuple[IndexHit, ...]
    strangers: int
    unasked: bool
    degraded: tuple[str, ...]

    @property
    def is_alarming(self) -> bool:
        return bool(self.strangers) or self.unasked


def check_hits(connection: Connection, roster: Roster, said: Mapping[str, Any]) -> CheckedHits:
    """The hits we know, in the server's order, with our own text."""
    listed = said.get("results")
    entries = cast("list[object]", listed)[:MAX_HITS] if isinstance(listed, list) else []
    unasked = not isinstance(listed, list) or not frozenset(said) <= _MEMBERS
    strangers = 0
    hits: list[IndexHit] = []
    for entry in entries:
        members = cast("Mapping[str, object]", entry) if isinstance(entry, Mapping) else {}
        unasked = unasked or frozenset(members) != _HIT
        record = record_of(members.get("record"))
        if record is None or not grants_of_copies.is_granted(connection, roster, record):
            strangers += record is None or not grants_of_copies.was_taken_back(connection, record)
        elif (hit := _hit_of(connection, record, members.get("score"))) is not None:
            hits.append(hit)
    degraded = said.get("degraded")
    codes = cast("list[object]", degraded) if isinstance(degraded, list) else []
    shown = tuple(code for code in _DEGRADED if code in codes)
    return CheckedHits(tuple(hits), strangers, unasked, shown)


def raise_alarm(transaction: Transaction, checked: CheckedHits) -> None:
    """Keep that the server said what it cannot know or was not asked."""
    detail: dict[str, str | int] = {"what": "index", "strangers": checked.strangers}
    if checked.unasked:
        detail["unasked"] = 1
    alarms.record(transaction, SyncCode.CLASS_POLICY, detail=detail)


def record_of(value: object) -> bytes | None:
    """The record that an answer names; None for what is no id of an indexable record."""
    try:
        record = hex_bytes(value, labels.ID_BYTES)
    except (ValueError, TypeError):
        return None
    return record if is_indexable(record) else None


def _hit_of(connection: Connection, record: bytes, score: object) -> IndexHit | None:
    """None for a memory that this vault does not show (any more)."""
    memory_id = copies.original_of(connection, record)
    row = None if memory_id is None else queries.get_row(connection, memory_id)
    if row is None or not may_recall(row.envelope, row.metadata, Surface.LOCAL).allowed:
        return None
    number = float(score) if isinstance(score, int | float) else 0.0
    return IndexHit(row, record, min(max(number, 0.0), 1.0) if math.isfinite(number) else 0.0)
