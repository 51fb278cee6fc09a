"""Conflicts: the same revisions give the same answer in any order (sync.md 5)."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_manager.sync.wire.envelope import Dot
from memory_manager.sync.wire.payload import DeletionMode, HybridTime
from memory_manager.sync.wire.versions import (
    MAX_LEAD_MS,
    Revision,
    before_redactions,
    breaks,
    current,
    next_time,
    observed,
    readable_base,
    yielding,
)

A, B, C = (bytes([number]) * 16 for number in (1, 2, 3))


def _revision(
    device: bytes,
    seq: int,
    *parents: Dot,
    ms: int = 0,
    deletion: DeletionMode | None = None,
    cleans: bool = False,
    redacts: bool = False,
) -> Revision:
    time = HybridTime(ms, 0, device.hex())
    return Revision(Dot(device, seq), frozenset(parents), time, deletion, cleans, redacts)


FIRST = _revision(A, 1, ms=1)


def test_a_later_revision_replaces_what_it_names() -> None:
    second = _revision(B, 1, FIRST.dot, ms=2)
    assert current([FIRST, second]).siblings == (second,)


def test_edits_that_do_not_know_each_other_are_siblings_with_one_winner() -> None:
    """T37: the later clock wins, then the device; both stay until somebody resolves."""
    b, c = _revision(B, 1, FIRST.dot, ms=9), _revision(C, 1, FIRST.dot, ms=9)
    now = current([FIRST, b, c])
    assert now.in_conflict
    assert now.siblings == (c, b)
    resolved = _revision(A, 2, b.dot, c.dot, ms=3)  # even with an older clock
    assert current([FIRST, b, c, resolved]).siblings == (resolved,)


def test_tidy_yields_to_a_concurrent_edit_and_forget_never() -> None:
    """T37: delete against edit, forget against edit, an edit that comes late."""
    edit = _revision(B, 1, FIRST.dot, ms=5)
    tidy = _revision(C, 1, FIRST.dot, ms=9, deletion=DeletionMode.TIDY)
    assert current([FIRST, edit, tidy]).siblings == (edit,)
    assert current([FIRST, tidy]).siblings == ()
    forget = _revision(C, 1, FIRST.dot, ms=1, deletion=DeletionMode.FORGET)
    assert current([FIRST, edit, forget]).siblings == ()
    late = _revision(B, 2, edit.dot, ms=99)
    now = current([FIRST, edit, forget, late])
    assert (now.siblings, now.forgotten) == ((), True)
    knowing = _revision(A, 2, forget.dot, ms=2)  # written after the forget was seen
    assert current([FIRST, edit, forget, late, knowing]).siblings == (knowing,)


@st.composite
def _histories(draw: st.DrawFn) -> list[Revision]:
    made: list[Revision] = []
    seqs = {A: 0, B: 0, C: 0}
    for _ in range(draw(st.integers(1, 9))):
        device = draw(st.sampled_from([A, B, C]))
        seqs[device] += 1
        known = [revision.dot for revision in made]
        parents = draw(st.sets(st.sampled_from(known), max_size=2)) if known else set()
        deletion = draw(st.sampled_from([None, None, None, *DeletionMode]))
        ms = draw(st.integers(0, 5))
        made.append(_revision(device, seqs[device], *parents, ms=ms, deletion=deletion))
    return made


@given(_histories(), st.randoms())
def test_the_order_of_arrival_does_not_matter(
    history: list[Revision], source: random.Random
) -> None:
    shuffled = list(history)
    source.shuffle(shuffled)
    assert current(shuffled) == current(history)
    assert current([*shuffled, *history]) == current(history)  # nor does arriving twice


@given(_histories())
def test_resolving_ends_every_conflict_and_a_forget_leaves_nothing(
    history: list[Revision],
) -> None:
    now = current(history)
    heads = {r.dot for r in history} - {dot for r in history for dot in r.parents}
    resolved = _revision(A, 99, *heads, ms=0)
    assert current([*history, resolved]).siblings == (resolved,)
    forget = _revision(B, 99, *(r.dot for r in now.siblings), deletion=DeletionMode.FORGET)
    assert current([*history, forget]).siblings == ()


@given(st.integers(0, 10**13), st.integers(0, 10**13), st.integers(0, 10**13))
def test_clocks_go_on_and_never_follow_a_wrong_one(ours: int, theirs: int, wall: int) -> None:
    """T38: a remote clock of ten years ahead is marked and not followed."""
    clock, remote = HybridTime(ours, 2, "a"), HybridTime(theirs, 5, "b")
    after, leads = observed(clock, remote, wall)
    assert leads == (theirs > wall + MAX_LEAD_MS)
    assert after >= clock
    assert after.ms <= max(ours, wall + MAX_LEAD_MS)
    following = next_time(after, wall, "a")
    assert following > after
    assert leads or following > HybridTime(remote.ms, remote.counter, "a")


@pytest.mark.parametrize(
    ("live", "deletions", "stops"),
    [(100, 20, False), (100, 21, True), (1000, 50, False), (1000, 51, True), (10, 21, True)],
)
def test_many_deletions_from_elsewhere_ask_first(live: int, deletions: int, stops: bool) -> None:
    assert breaks(live, deletions) is stops


def test_a_cleaning_counts_until_somebody_does_something() -> None:
    cleaned = _revision(B, 1, FIRST.dot, ms=1, cleans=True)
    assert current([FIRST, cleaned]).siblings == (cleaned,)
    edit = _revision(C, 1, FIRST.dot, ms=1)
    assert current([FIRST, cleaned, edit]).siblings == (edit,)
    tidy = _revision(C, 1, FIRST.dot, ms=1, deletion=DeletionMode.TIDY)
    assert current([FIRST, cleaned, tidy]).siblings == ()
    again = _revision(B, 2, cleaned.dot, ms=1, cleans=True)
    assert current([FIRST, cleaned, again, tidy]).siblings == ()
    knowing = _revision(A, 2, cleaned.dot, ms=2)
    assert current([FIRST, cleaned, again, knowing]).siblings == (knowing,)


def test_of_cleanings_of_the_same_the_one_after_most_counts() -> None:
    b, c = (_revision(device, 1, FIRST.dot, ms=1, cleans=True) for device in (B, C))
    assert current([FIRST, b, c]).siblings == (c,)
    again = _revision(B, 2, b.dot, ms=1, cleans=True)
    assert current([FIRST, b, c, again]).siblings == (again,)


def test_a_cleaning_of_two_stays_beside_a_change_of_one() -> None:
    other = _revision(B, 1, ms=2)
    cleaned = _revision(C, 1, FIRST.dot, other.dot, ms=2, cleans=True)
    edit = _revision(A, 2, FIRST.dot, ms=3)
    assert current([FIRST, other, cleaned, edit]).siblings == (edit, cleaned)
    assert current([FIRST, other, cleaned, edit, _revision(B, 2, other.dot)]).siblings == (
        edit,
        _revision(B, 2, other.dot),
    )


def test_a_long_chain_of_cleanings_is_read_once() -> None:
    chain = [FIRST]
    for seq in range(1, 3001):
        chain.append(_revision(B, seq, chain[-1].dot, ms=1, cleans=True))
    rival = _revision(C, 1, FIRST.dot, ms=1, cleans=True)
    began = time.process_time()
    assert current([rival, *reversed(chain)]).siblings == (chain[-1],)
    edit = _revision(C, 2, FIRST.dot, ms=1)
    assert current([rival, *reversed(chain), edit]).siblings == (edit,)
    assert time.process_time() - began < 2.0
    loop = [_revision(A, 5, Dot(A, 6), cleans=True), _revision(A, 6, Dot(A, 5), cleans=True)]
    assert current(loop).siblings == ()


def test_a_cleaning_yields_for_good_though_the_last_of_the_same_was_cleaned_with_others() -> None:
    x, y = (_revision(device, 1, FIRST.dot, ms=1, cleans=True) for device in (B, C))
    other = _revision(A, 2, ms=2)
    both = _revision(C, 2, y.dot, other.dot, ms=2, cleans=True)
    assert yielding([FIRST, x, y]) == {x.dot}
    for known in ([FIRST, other, x, y, both], [FIRST, other, y, both, x]):
        assert current(known).siblings == (both,)


STEP = st.tuples(st.sampled_from("edit clean redact tidy".split()), st.sets(st.integers(0, 8)))


@given(st.lists(STEP, max_size=9), st.sets(st.integers(0, 8)), st.randoms())
def test_what_one_device_gave_up_early_counts_nowhere_later(
    steps: list[tuple[str, set[int]]], met: set[int], source: random.Random
) -> None:
    """A device that knows a part of the story superseded and removed only what all come to."""
    story = [FIRST]
    for number, (act, places) in enumerate(steps):
        parents = [story[place] for place in places if place < len(story)]
        cleans = act == "clean" and bool(parents)
        said = max((p.time.ms for p in parents), default=0) if cleans else number + 2
        story.append(
            _revision(
                source.choice((A, B, C)),
                number + 2,
                *(parent.dot for parent in parents),
                ms=said,
                deletion=DeletionMode.TIDY if act == "tidy" else None,
                cleans=cleans,
                redacts=act == "redact",
            )
        )
    early = {story[place].dot for place in met if place < len(story)}
    for revision in reversed(story):
        if revision.dot in early:
            early |= revision.parents
    known = [revision for revision in story if revision.dot in early]
    named = {dot for revision in story for dot in revision.parents}
    assert yielding(known) <= yielding(story) | named
    assert before_redactions(known) <= before_redactions(story)
    for revision in story:
        assert readable_base(story, revision.dot) not in before_redactions(known)


def test_what_is_measured_against_is_what_no_device_gave_up() -> None:
    edit = _revision(B, 1, FIRST.dot, ms=2)
    beside = _revision(C, 1, FIRST.dot, ms=2)
    assert readable_base([FIRST, edit, beside], FIRST.dot) == FIRST.dot
    for end in (
        _revision(A, 2, FIRST.dot, ms=3, redacts=True),
        _revision(A, 2, FIRST.dot, ms=3, deletion=DeletionMode.TIDY),
    ):
        assert readable_base([FIRST, edit, beside, end], FIRST.dot) is None
        assert readable_base([FIRST, edit, beside, end], end.dot) == end.dot
        cleaned = _revision(A, 3, FIRST.dot, ms=1, cleans=True)
        assert readable_base([FIRST, edit, beside, end, cleaned], FIRST.dot) is None
    cleaned = _revision(A, 2, FIRST.dot, ms=1, cleans=True)
    assert readable_base([FIRST, edit, beside, cleaned], FIRST.dot) == cleaned.dot
    assert readable_base([FIRST, edit, beside, cleaned], edit.dot) is None


def test_a_redaction_takes_out_what_says_the_same_anew_and_nothing_beside_it() -> None:
    redaction = _revision(A, 2, FIRST.dot, ms=3, redacts=True)
    cleaned = _revision(B, 1, FIRST.dot, ms=1, cleans=True)
    edit = _revision(C, 1, FIRST.dot, ms=2)
    of_redaction = _revision(C, 2, redaction.dot, ms=3, cleans=True, redacts=True)
    known = [FIRST, redaction, cleaned, edit, of_redaction]
    assert before_redactions(known) == {FIRST.dot, redaction.dot, cleaned.dot}
