"""Which revision of a record counts: dots, siblings, the winner, forget (sync.md 5). Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from memory_manager.base.times import MAX_UNIX_MS
from memory_manager.sync.wire.envelope import Dot
from memory_manager.sync.wire.payload import MAX_COUNTER, DeletionMode, HybridTime

MAX_LEAD_MS = 5 * 60_000
BREAKER_ROWS = 20
BREAKER_SHARE = 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class Revision:
    """One revision of a record. ``deletion`` is None for one that has content."""

    dot: Dot
    parents: frozenset[Dot]
    time: HybridTime
    deletion: DeletionMode | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Current:
    """What a record is now: the winner first, then its siblings; empty when it is deleted."""

    siblings: tuple[Revision, ...]
    forgotten: bool = False

    @property
    def winner(self) -> Revision | None:
        return self.siblings[0] if self.siblings else None

    @property
    def in_conflict(self) -> bool:
        return len(self.siblings) > 1


def current(revisions: Iterable[Revision]) -> Current:
    """The state of a record from all its known revisions, in any order.

    A revision that another one names as a parent is superseded. Of what is left, edits win over
    ``tidy``; a ``forget`` wins over every edit that did not know of it, early or late.
    """
    known = {revision.dot: revision for revision in revisions}
    superseded = {dot for revision in known.values() for dot in revision.parents}
    forgets = {r.dot for r in known.values() if r.deletion is DeletionMode.FORGET}
    maximal = [revision for dot, revision in known.items() if dot not in superseded]
    edits = [revision for revision in maximal if revision.deletion is None]
    if forgets:
        edits = [edit for edit in edits if forgets <= _ancestors(edit, known)]
    ordered = sorted(edits, key=lambda r: (r.time, r.dot.device, r.dot.seq), reverse=True)
    return Current(tuple(ordered), forgotten=bool(forgets) and not ordered)


def _ancestors(revision: Revision, known: Mapping[Dot, Revision]) -> set[Dot]:
    found: set[Dot] = set()
    pending = list(revision.parents)
    while pending:
        dot = pending.pop()
        if dot not in found:
            found.add(dot)
            if dot in known:
                pending.extend(known[dot].parents)
    return found


def next_time(clock: HybridTime, wall_ms: int, device: str) -> HybridTime:
    """The time of a new local revision: after ``clock``, at the wall clock where that is later."""
    if wall_ms > clock.ms:
        return HybridTime(wall_ms, 0, device)
    return following(clock, device)


def following(time: HybridTime, device: str) -> HybridTime:
    """The first time after ``time``; after the last one that can be written, that one again."""
    if time.counter < MAX_COUNTER:
        return HybridTime(time.ms, time.counter + 1, device)
    if time.ms < MAX_UNIX_MS:
        return HybridTime(time.ms + 1, 0, device)
    return HybridTime(MAX_UNIX_MS, MAX_COUNTER, device)


def observed(clock: HybridTime, remote: HybridTime, wall_ms: int) -> tuple[HybridTime, bool]:
    """Our clock after a remote time, and whether that time leads by more than five minutes.

    A leading time is kept on its row and marked; our clock never follows it beyond the limit.
    """
    leads = remote.ms > wall_ms + MAX_LEAD_MS
    if leads or (remote.ms, remote.counter) <= (clock.ms, clock.counter):
        return clock, leads
    return HybridTime(remote.ms, remote.counter, clock.device), False


def breaks(live_rows: int, deletions: int) -> bool:
    """Whether so many deletions from elsewhere are applied only after the owner said so."""
    return deletions > max(BREAKER_ROWS, BREAKER_SHARE * live_rows)
