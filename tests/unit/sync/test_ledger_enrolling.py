"""A server that lost rows, a database on another device, sync turned off: nothing forks."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ledger_world import BatchServer, LedgerDevice, LedgerWorld, row_counts

from memory_manager.sync.errors import SyncRefused
from memory_manager.sync.ledger import (
    copies,
    founding,
    reseed,
    roster_log,
    state,
)
from memory_manager.sync.server import batches
from memory_manager.sync.wire.roster import SignedEntry
from memory_manager.vault import state_rows
from memory_manager.vault.anchor import Anchor, Identity
from memory_manager.vault.errors import Conflict
from memory_manager.vault.rows import ForgetMode

# --- re-seeding -------------------------------------------------------------------------------


def test_a_server_that_lost_rows_gets_the_original_batches(world: LedgerWorld) -> None:
    one, two = world.device(), world.device()
    for number in range(5):
        one.remember(f"one {number}")
        one.push(max_rows=2)
        two.remember(f"two {number}")
        two.sync(limit=3)
    world.settle()
    lost = list(world.server.rows)
    heads = list(world.server.global_heads)
    for device in world.devices:
        batches = device.read(lambda c: list(reseed.batches_after(c, 3)))
        rows = [row for batch in batches for row in batch.rows]
        assert [row.entry for row in rows] == [row.entry for row in lost[3:]]
        assert [row.row for row in rows] == [row.row for row in lost[3:]]
        for batch in batches:
            assert len({row.entry.device for row in batch.rows}) == 1
            assert batch.checkpoint.value.seq == batch.rows[-1].entry.seq
    del world.server.rows[3:], world.server.global_heads[4:]
    world.server.seen = {
        place: raw
        for place, raw in world.server.seen.items()
        if raw in {row.entry.pack() for row in world.server.rows}
    }
    for batch in one.read(lambda c: list(reseed.batches_after(c, 3))):
        world.server.take(batch)
    assert world.server.global_heads == heads
    world.settle()


def test_a_forgotten_row_is_given_back_as_its_entry_alone(
    world: LedgerWorld, one: LedgerDevice
) -> None:
    gone = one.remember("gone")
    kept = one.remember("kept")
    one.sync()
    one.forget(gone, ForgetMode.HARD_DELETE)
    one.sync()
    (first, *_) = one.read(lambda c: list(reseed.batches_after(c, 0)))
    assert [bool(row.row.body) for row in first.rows] == [False, True]
    batches.prepare(world.founded.vault, first.rows, first.checkpoint)
    restored = BatchServer(world.founded.vault, world.source)
    for batch in one.read(lambda c: list(reseed.batches_after(c, 0))):
        restored.take(batch)
    assert restored.global_heads == world.server.global_heads
    two = LedgerDevice(world.folder / "late", world.founded, world.founded.add(), restored)
    world.devices.append(two)
    two.turn_on()
    two.pull()
    assert two.content(kept) == "kept"
    assert two.row(gone) is None
    assert two.quarantined() == {"ROW_AUTH": 1}  # said, because a server may also have cut it off


def test_copies_are_no_records_here_and_go_with_their_original(
    world: LedgerWorld, one: LedgerDevice
) -> None:
    two = world.device()
    memory = one.remember("opted in")
    copy = one.write(lambda tx: copies.seal_copy(tx, memory, lambda record, dot: {}))
    world.settle()
    assert copy.record[0] & 0x80
    for device in (one, two):
        assert len(device.vault.listed()) == 1
        assert device.read(lambda c: copies.copies_of(c, memory)) == [copy.record]
        assert device.read(lambda c: copies.original_of(c, copy.record)) == memory
    two.forget(memory, ForgetMode.HARD_DELETE)
    world.settle()
    for device in (one, two):
        assert device.read(lambda c: copies.original_of(c, copy.record)) is None
        rows = device.read(lambda c: c.execute("SELECT body FROM sealed").fetchall())
        assert all(body[5] == 2 for (body,) in rows)  # tombstones only
        assert device.quarantined() == {}


# --- another device ---------------------------------------------------------------------------


def renamed(device: LedgerDevice, keys: Any) -> None:
    device.keys = keys
    device.name()


def test_a_restored_copy_pushes_nothing_until_it_enrols_again(world: LedgerWorld) -> None:
    one, two = world.device(), world.device()
    shared = one.remember("shared")
    world.settle()
    one.update(shared, content="not pushed")
    gone = one.remember("will be forgotten")
    one.forget(gone, ForgetMode.HARD_DELETE)
    old_seq = one.state.own_seq
    new = world.founded.add(two.keys)
    renamed(one, new)
    one.journal.look_again()  # as after an unlock: another connection
    assert one.read(state.must_enrol_again)
    assert one.batch() is None
    extra = one.remember("written meanwhile")
    assert one.state.own_seq == old_seq
    chain = tuple(world.founded.chain)
    one.write(lambda tx: founding.enrol_again(tx, one.journal, chain=chain, keys={}))
    two.learn_roster()
    one.seed()
    assert not one.read(state.must_enrol_again)
    world.settle()
    assert two.shown() == one.shown()
    assert two.content(shared) == "not pushed"
    assert two.content(extra) == "written meanwhile"
    places = [(row.entry.device, row.entry.seq) for row in world.server.rows]
    assert len(set(places)) == len(places)
    ours = [seq for device, seq in places if device == new.id]
    assert ours == list(range(1, len(ours) + 1))


def test_what_was_written_before_enrolling_again_stays_beside_what_came(
    world: LedgerWorld,
) -> None:
    """The server has more of the old device's log than the copy: none of both sides is lost."""
    one, two = world.device(), world.device()
    edited, old = one.remember("base"), one.remember("old")
    world.settle()
    one.update(old, content="pushed from the original")
    batch = one.batch()
    assert batch is not None
    world.server.take(batch)  # and the copy does not know
    renamed(one, world.founded.add(two.keys))
    one.journal.look_again()
    one.update(edited, content="written in the copy")
    two.learn_roster()
    two.update(edited, content="written by the other")
    two.sync()
    chain = tuple(world.founded.chain)
    one.write(lambda tx: founding.enrol_again(tx, one.journal, chain=chain, keys={}))
    one.pull()
    one.seed()
    world.settle()
    assert one.shown() == two.shown()
    assert one.content(old) == "pushed from the original"
    assert one.conflict(old) is None
    record = two.conflict(edited)
    assert record is not None
    texts = {s.contents.content for s in record.siblings if s.contents}
    assert texts == {"written in the copy", "written by the other"}


def test_the_mark_counts_only_for_the_device_that_wrote_the_log(
    world: LedgerWorld, one: LedgerDevice
) -> None:
    one.remember("a")
    one.sync()
    mark = one.read(state_rows.read_sync_mark)
    found = one.state
    assert (mark.own_seq, mark.own_head) == (1, found.own_head)
    assert (mark.n, mark.global_head) == (1, found.g)
    assert mark.roster_hash == world.founded.roster.head
    identity = one.read(state_rows.read_identity)
    anchor = Anchor(identity, mark.progress(1), 0).at(1, mark)
    assert one.read(lambda c: state_rows.holds(c, anchor))
    for odd in (
        dataclasses.replace(anchor, own_head=b"\x01" * 32),
        dataclasses.replace(anchor, global_head=b"\x01" * 32),
        dataclasses.replace(anchor, identity=Identity(b"v" * 16, b"i" * 16, b"d" * 16)),
    ):
        assert not one.read(lambda c, odd=odd: state_rows.holds(c, odd))
    renamed(one, dataclasses.replace(one.keys, id=b"d" * 16))
    assert one.read(state_rows.read_progress).own_seq == 0


def test_every_commit_tells_how_far_sync_is(world: LedgerWorld) -> None:
    told: list[Any] = []
    one = world.device(on_commit=lambda _, mark: told.append(mark))
    told.clear()
    one.remember("a")
    one.remember("b")
    one.write(lambda tx: tx.connection.execute("SELECT 1"))
    assert [mark and mark.own_seq for mark in told] == [1, 2, None]
    one.sync()
    assert told[-1].n == 2


def test_turning_off_leaves_the_records_and_nothing_else(one: LedgerDevice) -> None:
    memory = one.remember("stays")
    one.sync()
    lowered: list[bool] = []
    one.write(lambda tx: founding.turn_off(tx, one.journal, lambda: lowered.append(True)))
    assert lowered == [True]
    assert sum(row_counts(one).values()) == 0
    assert one.content(memory) == "stays"
    one.remember("after")
    assert sum(row_counts(one).values()) == 0


def test_no_device_ever_begins_a_second_log(world: LedgerWorld, one: LedgerDevice) -> None:
    one.remember("first of the log")
    chain = tuple(world.founded.chain)
    with pytest.raises(Conflict):
        one.write(lambda tx: founding.enrol_again(tx, one.journal, chain=chain, keys={}))
    with pytest.raises(Conflict):
        one.turn_on()
    one.write(lambda tx: founding.turn_off(tx, one.journal, lambda: None))
    with pytest.raises(Conflict):
        one.turn_on()
    assert one.read(state.read) is None


def test_a_roster_goes_on_and_never_sideways(world: LedgerWorld, one: LedgerDevice) -> None:
    world.founded.add()
    one.learn_roster()
    one.learn_roster()
    found = one.read(roster_log.load)
    assert found is not None
    assert found.head == world.founded.roster.head == one.state.roster_hash
    with pytest.raises(SyncRefused):
        one.write(lambda tx: roster_log.append(tx, [SignedEntry(b"{}", b"")]))
