"""Redactions among edits, changes of tags, deletions, decisions and cleanings: all devices come to
show the same, and what nobody knew of when the text was taken out is not lost (sync.md 5).
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ledger_stories import DEVICES, START_MS, Told, clean_text, story
from ledger_world import LedgerDevice, LedgerWorld
from made_up_token import token_of
from older_rules import older_rules

from memory_manager.base.identifiers import MemoryId
from memory_manager.sync.ledger import sealed_rows
from memory_manager.sync.wire.envelope import Dot, open_row
from memory_manager.sync.wire.payload import HybridTime, read_payload
from memory_manager.sync.wire.versions import Current, Revision, before_redactions, current
from memory_manager.vault import erasure
from memory_manager.vault.rows import ForgetMode

ACTS = (
    *("edit", "tag", "add tag", "drop tag", "drop tag", "pin", "redact"),
    *("delete", "restore", "destroy", "keep"),
) * 2
REDACTING = ("edit", "add tag", "drop tag", "pin", "redact", "restore", "keep") * 3


@contextlib.contextmanager
def three_devices() -> Iterator[LedgerWorld]:
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.closing(LedgerWorld(Path(folder))) as world,
    ):
        for _ in range(DEVICES):
            world.device()
        yield world


def live_through(seed: int) -> None:
    with three_devices() as world:
        told = Told(world, with_rules=seed % 4 != 3, tags=("a", "b"))
        told.tell(story(seed, REDACTING if seed % 2 else ACTS))
        with contextlib.nullcontext() if told.with_rules else older_rules():
            world.settle()
            for _ in range(2 if told.with_rules else 0):
                for device in world.devices:
                    device.clean()
                world.settle()
            check(world, seed)


def check(world: LedgerWorld, seed: int) -> None:
    first, *_ = world.devices
    for device in world.devices:
        assert device.quarantined() == {}, seed
        assert device.waiting() == 0, seed
        assert device.shown() == first.shown(), seed
        assert device.in_conflict() == first.in_conflict(), seed
    log = Log(world)
    for memory, revisions in log.revisions.items():
        now = current(revisions)
        assert (first.row(memory) is None) == (now.winner is None), seed
        assert texts_here(first, memory) == log.texts(now), seed
        taken_out = before_redactions(revisions) - {r.dot for r in revisions if r.deletion}
        for device in world.devices:
            for dot in taken_out:
                stored = device.read(lambda c, dot=dot: sealed_rows.stored(c, dot))
                assert stored is None, (seed, "a redacted text can still be opened")


def texts_here(device: LedgerDevice, memory: MemoryId) -> set[str]:
    """What a record shows and what waits beside it for the owner's word."""
    row, record = device.row(memory), device.conflict(memory)
    beside = record.siblings if record is not None else ()
    shown = set() if row is None else {clean_text(row.content)}
    return shown | {clean_text(s.contents.content) for s in beside if s.contents is not None}


class Log:
    """The revisions of every record as the server's rows tell them."""

    def __init__(self, world: LedgerWorld) -> None:
        self.revisions: dict[MemoryId, list[Revision]] = {}
        self._said: dict[Dot, str] = {}
        for row in world.server.rows:
            if sealed_rows.is_dead(row.row):
                continue
            dot = Dot(row.entry.device, row.entry.seq)
            keys = {epoch: world.founded.key(epoch) for epoch in world.founded.vrk}
            payload = read_payload(open_row(row.row, vault=world.founded.vault, dot=dot, keys=keys))
            revision = Revision(
                dot,
                frozenset(payload.parents),
                HybridTime(payload.time.ms, payload.time.counter, dot.device.hex()),
                payload.mode,
                cleans=payload.cleans,
                redacts=payload.fields.get("status") == "redacted",
            )
            self.revisions.setdefault(MemoryId(payload.fields["id"]), []).append(revision)
            self._said[dot] = clean_text(payload.fields.get("content", ""))

    def texts(self, now: Current) -> set[str]:
        return {self._said[revision.dot] for revision in now.siblings}


def test_a_redaction_that_was_not_sent_yet_is_heard_of_whatever_comes_first(
    world: LedgerWorld,
) -> None:
    left, right = world.device(), world.device()
    with older_rules():
        memory = left.remember(f"use {token_of(1)}", metadata={"tags": ["a"]})
        world.settle()
    left.forget(memory, ForgetMode.REDACT)
    left.update(memory, metadata={"tags": ["b"]})
    left.forget(memory)
    left.restore(memory)
    right.clean()  # says less than the redaction, and yields to it
    right.sync()
    world.settle()
    for device in (left, right):
        assert device.quarantined() == {}
        row = device.row(memory)
        assert row is not None
        assert (row.content, row.metadata["tags"]) == ("[REDACTED]", ["b"])
        assert token_of(1) not in "".join(device.sealed_texts(memory))


def test_tags_beside_a_redaction_do_not_hang_on_what_a_device_still_holds(
    world: LedgerWorld,
) -> None:
    left, right, third = (world.device() for _ in range(3))
    memory = left.remember("secret", metadata={"tags": ["a", "b"]})
    world.settle()
    left.forget(memory, ForgetMode.REDACT)
    left.update(memory, metadata={"tags": ["a", "c"]})
    right.update(memory, metadata={"tags": ["b", "d"]})
    right.push()
    third.pull()
    world.settle()
    assert left.shown() == right.shown() == third.shown()
    assert left.in_conflict() == right.in_conflict() == third.in_conflict()
    assert texts_here(left, memory) == {"[REDACTED]", "secret"}, "right knew of no redaction"


def test_tags_after_a_deletion_do_not_hang_on_whether_the_trash_was_emptied(
    world: LedgerWorld,
) -> None:
    left, right, third, fourth = (world.device() for _ in range(4))
    memory = left.remember("text", metadata={"tags": ["a", "b"]})
    world.settle()
    left.forget(memory)
    right.update(memory, metadata={"tags": ["a"]})
    third.update(memory, metadata={"tags": ["b"]})
    left.sync()
    fourth.sync()
    later = left.write(lambda tx: tx.now_ms) + (erasure.TRASH_SECONDS + 60) * 1000
    left.clock_ms = later
    assert left.write(erasure.purge_trash) == 1
    world.settle()
    assert memory in left.shown()
    assert left.shown() == right.shown() == third.shown() == fourth.shown()


def test_what_is_written_beside_an_open_conflict_is_shown_here_as_on_the_others(
    world: LedgerWorld,
) -> None:
    left, right = world.device(), world.device()
    memory = left.remember("text", metadata={"tags": ["a"]})
    world.settle()
    right.update(memory, content="right", metadata={"tags": ["a", "r"]})
    left.update(memory, content="left", metadata={"tags": ["a", "l"]})
    world.settle()
    winner, loser = (left, right) if left.content(memory) == "left" else (right, left)
    tag = "l" if loser is left else "r"
    written = winner.update(memory, metadata={"tags": []}).row
    assert written == winner.row(memory)
    assert written.metadata["tags"] == [tag], "what waits for a decision says so"
    world.settle()
    assert left.shown() == right.shown()
    winner.update(memory, content="left" if loser is left else "right")
    world.settle()
    assert left.shown() == right.shown()
    assert left.in_conflict() == right.in_conflict() == {}


def test_who_writes_on_after_a_redaction_holds_no_more_than_the_others(world: LedgerWorld) -> None:
    left, right = world.device(), world.device()
    memory = left.remember("secret")
    left.forget(memory, ForgetMode.REDACT, replacement="nearly the secret")
    world.settle()
    left.update(memory, metadata={"tags": ["a"]})
    left.push()
    left.restore(memory)
    world.settle()
    for device in (left, right):
        assert len(device.sealed_texts(memory)) == 1


@pytest.mark.timeout(3_600)
def test_all_devices_show_the_same_after_any_story(thorough: bool) -> None:
    for seed in range(2_000 if thorough else 12):
        live_through(seed)


def test_the_trash_holds_the_latest_of_what_was_changed_and_deleted_apart(
    world: LedgerWorld,
) -> None:
    left, right, third = (world.device() for _ in range(3))
    memory = left.remember("first")
    world.settle()
    for number, device in enumerate((left, right)):
        device.clock_ms = START_MS + number
        device.update(memory, content=f"text {number}", semantic_key="name")
        device.forget(memory)
    world.settle()
    for device in (left, right, third):
        assert device.row(memory) is None
        kept = device.vault.row(memory, include_deleted=True)
        assert kept is not None
        assert kept.content == "text 1"
    third.restore(memory)
    world.settle()
    assert left.content(memory) == right.content(memory) == "text 1"
