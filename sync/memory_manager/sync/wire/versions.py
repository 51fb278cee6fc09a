"""Which revision of a record counts: dots, siblings, the winner, forget (sync.md 5). Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping

from memory_manager.base.times import MAX_UNIX_MS
from memory_manager.sync.wire.envelope import Dot
from memory_manager.sync.wire.payload import MAX_COUNTER, DeletionMode, HybridTime

MAX_LEAD_MS = 5 * 60_000
BREAKER_ROWS = 20
BREAKER_SHARE = 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class Revision:
    """One revision of a record. ``deletion`` is None for one that has content; ``cleans``: it says
    what its parents say, without what newer rules of the sanitizer took out; ``redacts``: it says
    that the text was taken out, and nobody reads again what it descends from.
    """

    dot: Dot
    parents: frozenset[Dot]
    time: HybridTime
    deletion: DeletionMode | None = None
    cleans: bool = False
    redacts: bool = False


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

    A revision that another one names as a parent is superseded, and so is one that is ``yielding``.
    Of what is left, edits win over ``tidy``; a ``forget`` wins over every edit that did not know of
    it, early or late.
    """
    known = {revision.dot: revision for revision in revisions}
    superseded = {dot for revision in known.values() for dot in revision.parents}
    superseded |= yielding(known.values())
    forgets = {r.dot for r in known.values() if r.deletion is DeletionMode.FORGET}
    maximal = [revision for dot, revision in known.items() if dot not in superseded]
    edits = [revision for revision in maximal if revision.deletion is None]
    if forgets:
        edits = [edit for edit in edits if forgets <= _ancestors([edit], known)]
    ordered = sorted(edits, key=lambda r: (r.time, r.dot.device, r.dot.seq), reverse=True)
    return Current(tuple(ordered), forgotten=bool(forgets) and not ordered)


def yielding(revisions: Collection[Revision]) -> set[Dot]:
    """The cleaning revisions that count no more: somebody changed or deleted, without knowing them,
    all that they say anew; or another one says the same anew, after more cleanings or else later.

    A cleaning is nobody's act: it must neither bring back what was deleted nor ask for a decision.
    """
    cleaning = _cleaning(revisions)
    changed: set[Dot] = set()
    for revision in revisions if cleaning else ():
        if revision.dot not in cleaning:
            for parent in revision.parents:
                changed |= cleaning[parent].origins if parent in cleaning else {parent}
    found = {dot for dot, one in cleaning.items() if one.origins <= changed}
    of_same: dict[frozenset[Dot], list[_Cleaning]] = {}
    for dot in cleaning.keys() - found:  # named or not: what yields once does so for good
        of_same.setdefault(cleaning[dot].origins, []).append(cleaning[dot])
    for same in of_same.values():
        last = max(same, key=_Cleaning.rank)
        found.update(one.revision.dot for one in same if one is not last)
    return found


def readable_base(revisions: Collection[Revision], dot: Dot) -> Dot | None:
    """What concurrent revisions that descend from this one are measured against, if that can be
    read on every device whenever it heard of what; None where one of them may not hold it any more.

    What stood before a redaction goes, and so does, from a device where the trash was emptied, what
    stood before a deletion. Once a record was cleaned only what was said anew stays.
    """
    base: Dot | None = dot
    if any(revision.cleans for revision in revisions):
        cleaning = _cleaning(revisions)
        cleaned_again = {p for one in cleaning.values() for p in one.revision.parents}
        origins = cleaning[dot].origins if dot in cleaning else frozenset((dot,))
        last = [
            one
            for at, one in cleaning.items()
            if one.origins == origins and at not in cleaned_again
        ]
        base = max(last, key=_Cleaning.rank).revision.dot if last else None
    in_the_trash = _before(revisions, [r for r in revisions if r.deletion is not None])
    return None if base in in_the_trash | before_redactions(revisions) else base


def before_redactions(revisions: Collection[Revision]) -> set[Dot]:
    """What the redactions of a record took out: all that they descend from, and what says nothing
    but that anew.
    """
    return _before(revisions, [revision for revision in revisions if revision.redacts])


def _before(revisions: Collection[Revision], ends: Collection[Revision]) -> set[Dot]:
    known = {revision.dot: revision for revision in revisions}
    found = _ancestors(ends, known)
    own = {revision.dot for revision in ends}
    anew = _cleaning(revisions).items() if found else ()
    return found | {dot for dot, one in anew if one.origins <= found and dot not in own}


@dataclasses.dataclass(frozen=True, slots=True)
class _Cleaning:
    """A cleaning revision, what it says anew, and after how many cleanings in a row."""

    revision: Revision
    origins: frozenset[Dot]
    after: int

    def rank(self) -> tuple[object, ...]:
        dot = self.revision.dot
        return self.after, self.revision.time, dot.device, dot.seq


def _cleaning(revisions: Iterable[Revision]) -> dict[Dot, _Cleaning]:
    """Each revision is looked at once, however long a chain of cleanings somebody wrote."""
    found = {r.dot: r for r in revisions if r.cleans and r.parents}
    known: dict[Dot, _Cleaning] = {}
    begun: set[Dot] = set()
    pending = list(found)
    while pending:
        dot = pending[-1]
        parents = found[dot].parents
        before = [p for p in parents if p in found and p not in begun]
        begun.add(dot)
        if before:
            pending += before
            continue
        pending.pop()
        if dot not in known:
            cleaned = [known[p] for p in parents if p in known]
            origins = {p for p in parents if p not in known}.union(*(c.origins for c in cleaned))
            after = max((one.after + 1 for one in cleaned), default=0)
            known[dot] = _Cleaning(found[dot], frozenset(origins), after)
    return known


def _ancestors(revisions: Iterable[Revision], known: Mapping[Dot, Revision]) -> set[Dot]:
    found: set[Dot] = set()
    pending = [parent for revision in revisions for parent in revision.parents]
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
