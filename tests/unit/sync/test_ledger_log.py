"""Own log, outbox, acknowledgement, quarantine, breaker, re-seeding: what is stored and when."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ledger_world import BatchServer, LedgerDevice, LedgerWorld
from small_vault import SmallVault, connect, small_vault, writer

from memory_manager.base.errors import TooLarge
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.ledger import (
    alarms,
    copies,
    founding,
    incoming,
    keybag,
    marks,
    outbox,
    quarantine,
    reseed,
    roster_log,
    state,
    verified,
)
from memory_manager.sync.server import batches
from memory_manager.sync.wire import labels
from memory_manager.sync.wire.envelope import EpochKey, SealedRow, unwrap_cek, wrap_cek
from memory_manager.sync.wire.framing import (
    MAX_PUSH_BYTES,
    Push,
    Signed,
    pack_push,
    unpack_push,
)
from memory_manager.sync.wire.log import ServerHead, sign_server_head
from memory_manager.vault import state_rows
from memory_manager.vault.anchor import Anchor, Identity
from memory_manager.vault.errors import Conflict
from memory_manager.vault.memories import Memories
from memory_manager.vault.rows import ForgetMode, MemoryDraft
from memory_manager.vault.transaction import Transaction

SYNC_TABLES = (*founding.TABLES,)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LedgerWorld]:
    made = LedgerWorld(tmp_path)
    yield made
    made.close()


@pytest.fixture
def one(world: LedgerWorld) -> LedgerDevice:
    return world.device()


def counts(device: LedgerDevice | SmallVault) -> dict[str, int]:
    return {
        table: device.read(lambda c, t=table: c.execute(f"SELECT count(*) FROM {t}").fetchone()[0])
        for table in SYNC_TABLES
    }


# --- a vault without sync ---------------------------------------------------------------------


def statements_of(vault: SmallVault, memories: Memories, text: str) -> list[str]:
    """Every statement of one write."""
    seen: list[str] = []

    def work(tx: Transaction) -> None:
        tx.connection.set_trace_callback(seen.append)
        try:
            memories.remember(tx, MemoryDraft(text, "notes"), writer())
        finally:
            tx.connection.set_trace_callback(None)

    vault.write(work)
    return seen


def test_a_vault_without_sync_pays_nothing(tmp_path: Path) -> None:
    from memory_manager.sync.ledger.journal import SyncJournal

    with small_vault(tmp_path) as vault:
        plain, journaled = Memories(), Memories(journal=SyncJournal())
        statements_of(vault, journaled, "the first one looks once")
        without = statements_of(vault, plain, "without a journal")
        with_one = statements_of(vault, journaled, "with a journal that is off")
        assert len(with_one) == len(without)
        assert sum(counts(vault).values()) == 0


# --- own log ----------------------------------------------------------------------------------


def own_log(device: LedgerDevice) -> list[tuple[int, int | None]]:
    return device.read(
        lambda c: c.execute(
            "SELECT e.seq, e.n FROM entry e JOIN sync_state s ON s.device = e.device ORDER BY e.seq"
        ).fetchall()
    )


def test_a_write_that_fails_leaves_the_log_as_it_was(one: LedgerDevice) -> None:
    one.remember("kept")
    before = one.state

    def work(tx: Transaction) -> None:
        one.memories.remember(tx, MemoryDraft("lost", "notes"), writer())
        raise LookupError

    with pytest.raises(LookupError):
        one.write(work)
    assert one.state == before
    one.remember("next")
    assert own_log(one) == [(1, None), (2, None)]


def test_what_is_too_large_to_travel_is_refused_where_it_is_written(one: LedgerDevice) -> None:
    text = "\x01" * 99_000  # six bytes each in JSON
    with pytest.raises(TooLarge):
        one.remember(text)
    assert one.waiting() == 0
    assert one.vault.listed() == []


def test_a_row_too_large_from_before_is_passed_over_with_an_alarm(world: LedgerWorld) -> None:
    one = world.device(turned_on=False)
    one.remember("\x01" * 99_000)
    one.remember("small")
    one.turn_on()
    assert one.waiting() == 1
    assert not one.state.seeding
    found = one.read(alarms.listed)
    assert [(a.code, a.detail) for a in found] == [(SyncCode.NOT_APPLIED, {"too_large": 1})]


def test_marks_cover_a_new_roster(world: LedgerWorld, one: LedgerDevice) -> None:
    two = world.device()
    dot = one.write(marks.write_mark)
    assert dot.seq == 1
    world.settle()
    assert two.quarantined() == {}
    assert world.server.rows[0].entry.roster_hash == world.founded.roster.head


# --- outbox -----------------------------------------------------------------------------------


def packed(batch: outbox.Batch) -> bytes:
    return pack_push(Push(1, batch.checkpoint, batch.rows))


def test_a_retried_batch_is_the_same_bytes_whatever_came_since(
    world: LedgerWorld, one: LedgerDevice
) -> None:
    two = world.device()
    two.remember("of the other")
    two.sync()
    one.remember("a")
    one.remember("b")
    first = one.batch()
    assert first is not None
    one.remember("c")
    one.pull()
    again = one.batch()
    assert again is not None
    assert packed(again) == packed(first)
    assert [row.entry.seq for row in again.rows] == [1, 2]
    world.server.take(first)
    world.server.take(again)
    one.sync()
    assert one.waiting() == 0
    assert len(world.server.rows) == 4


def test_batches_keep_within_rows_and_bytes(one: LedgerDevice) -> None:
    for _ in range(4):
        one.remember("x" * 99_000, metadata={"pad": "y" * 60_000})
    rows = one.batch(max_rows=3)
    assert rows is not None
    assert len(rows.rows) == 3
    assert len(packed(rows)) <= MAX_PUSH_BYTES
    unpack_push(packed(rows))


def test_a_batch_ends_before_it_gets_too_large(one: LedgerDevice) -> None:
    for _ in range(12):
        one.remember("x" * 95_000)
    batch = one.batch()
    assert batch is not None
    assert 8 <= len(batch.rows) < 12
    assert len(packed(batch)) <= MAX_PUSH_BYTES


def test_an_answer_acknowledges_only_what_is_ours_alone(
    world: LedgerWorld, one: LedgerDevice
) -> None:
    two = world.device()
    one.remember("mine")
    batch = one.batch()
    assert batch is not None
    two.remember("between")
    two.sync()
    head = world.server.take(batch)
    assert one.write(lambda tx: incoming.acknowledge(tx, head)) == 0
    assert one.waiting() == 1
    one.pull()
    assert one.waiting() == 0
    assert own_log(one) == [(1, 2)]


@pytest.mark.parametrize("lie", ["key", "older", "other"])
def test_a_lying_answer_acknowledges_nothing(
    world: LedgerWorld, one: LedgerDevice, lie: str
) -> None:
    one.remember("first")
    one.sync()
    one.remember("mine")
    batch = one.batch()
    assert batch is not None
    head = world.server.take(batch)
    if lie == "key":
        bad = Signed(head.value, bytes(64))
        expected = SyncCode.SERVER_KEY
    else:
        said = ServerHead(0, bytes(32)) if lie == "older" else ServerHead(1, b"\x01" * 32)
        bad = Signed(said, sign_server_head(world.server.key, world.server.vault, said))
        expected = SyncCode.ROLLBACK if lie == "older" else SyncCode.EQUIVOCATION
    with pytest.raises(SyncRefused) as caught:
        one.write(lambda tx: incoming.acknowledge(tx, bad))
    assert caught.value.reason is expected
    assert one.waiting() == 1


# --- breaker ----------------------------------------------------------------------------------


def filled(world: LedgerWorld, number: int) -> tuple[LedgerDevice, LedgerDevice, list[Any]]:
    one, two = world.device(), world.device()

    def work(tx: Transaction) -> list[Any]:
        drafts = [MemoryDraft(f"row {i}", "notes") for i in range(number)]
        return [one.memories.remember(tx, draft, writer()).row.id for draft in drafts]

    ids = one.write(work)
    world.settle()
    return one, two, ids


def delete(device: LedgerDevice, ids: list[Any]) -> None:
    def work(tx: Transaction) -> None:
        for memory in ids:
            device.memories.forget(tx, memory, ForgetMode.SOFT_DELETE, writer())

    device.write(work)


def test_many_deletions_are_applied_only_after_the_owner_agreed(world: LedgerWorld) -> None:
    one, two, ids = filled(world, 30)
    delete(one, ids[:21])
    one.push()
    before = counts(two)
    with pytest.raises(SyncRefused) as caught:
        two.pull()
    assert caught.value.reason is SyncCode.BREAKER
    assert counts(two) == before
    assert len(two.vault.listed()) == 30
    two.write(state.confirm_deletions)
    two.pull()
    assert len(two.vault.listed()) == 9
    delete(one, ids[21:22])
    world.settle()
    assert len(two.vault.listed()) == 8  # agreed deletions do not count against later ones


def test_deletions_are_counted_over_a_day(world: LedgerWorld) -> None:
    one, two, ids = filled(world, 30)
    now = 1_900_000_000_000
    two.clock_ms = now
    for start in range(0, 20, 10):
        delete(one, ids[start : start + 10])
        one.push()
        two.pull()
    delete(one, ids[20:21])
    one.push()
    with pytest.raises(SyncRefused):
        two.pull()
    two.clock_ms = now + incoming.BREAKER_WINDOW_MS + 1
    two.pull()
    assert len(two.vault.listed()) == 9


def test_twenty_deletions_are_ordinary(world: LedgerWorld) -> None:
    one, two, ids = filled(world, 21)
    delete(one, ids[:20])
    world.settle()
    assert len(two.vault.listed()) == 1


# --- quarantine -------------------------------------------------------------------------------


def spoil(world: LedgerWorld, change: Any) -> None:
    """Change the wrap of the server's last row, which no hash protects."""
    last = world.server.rows[-1]
    row = SealedRow(last.row.body, change(last.row.wrap))
    world.server.rows[-1] = dataclasses.replace(last, row=row)


def test_a_row_of_an_unknown_epoch_waits_for_its_key(world: LedgerWorld) -> None:
    one, two = world.device(), world.device()
    world.founded.vrk[2] = bytes(range(32))
    one.write(lambda tx: keybag.put(tx, 2, world.founded.vrk[2]))
    memory = one.remember("under the new key")
    other = two.remember("goes on")
    world.settle()
    assert two.quarantined() == {"WAITING_KEY": 1}
    assert two.content(memory) is None
    assert one.content(other) == "goes on"
    assert two.write(lambda tx: quarantine.retry(tx, two.memories)) == 0
    two.write(lambda tx: keybag.put(tx, 2, world.founded.vrk[2]))
    assert two.write(lambda tx: quarantine.retry(tx, two.memories)) == 1
    assert two.quarantined() == {}
    assert two.content(memory) == "under the new key"


def test_a_waiting_row_that_was_edited_meanwhile_stays_behind(world: LedgerWorld) -> None:
    one, two = world.device(), world.device()
    world.founded.vrk[2] = bytes(range(32))
    memory = one.remember("base")
    world.settle()
    one.write(lambda tx: keybag.put(tx, 2, world.founded.vrk[2]))
    one.update(memory, content="under the new key")
    one.update(memory, content="and on")
    world.settle()
    two.update(memory, content="meanwhile")
    two.write(lambda tx: keybag.put(tx, 2, world.founded.vrk[2]))
    two.write(lambda tx: quarantine.retry(tx, two.memories))
    world.settle()
    assert two.quarantined() == {}
    assert two.shown() == one.shown()
    record = one.conflict(memory)
    assert record is not None
    assert {s.contents.content for s in record.siblings if s.contents} == {"and on", "meanwhile"}


def test_a_server_that_takes_a_key_away_is_seen(world: LedgerWorld) -> None:
    """Rows whose author destroyed the key look alike, but the log says so of those."""
    one, two = world.device(), world.device()
    memory = one.remember("whole")
    one.push()
    good = world.server.rows[-1].row
    spoil(world, lambda wrap: bytes(92))
    two.pull()
    assert two.quarantined() == {"STALE_EPOCH": 1}
    one.update(memory, content="goes on")
    world.settle()
    assert two.quarantined() == {"STALE_EPOCH": 1}
    pair = (labels.plain_hash(good.body), good.wrap)
    assert two.write(lambda tx: quarantine.store_wraps(tx, [pair])) == 1
    assert two.write(lambda tx: quarantine.retry(tx, two.memories)) == 1
    assert two.shown() == one.shown()
    one.update(memory, content="not pushed 1")
    one.update(memory, content="not pushed 2")
    one.forget(memory, ForgetMode.REDACT)
    world.settle()
    assert two.quarantined() == {}
    assert two.shown() == one.shown()


def test_a_broken_wrap_is_replaced_from_the_server(world: LedgerWorld) -> None:
    one, two = world.device(), world.device()
    memory = one.remember("whole")
    one.push()
    good = world.server.rows[-1].row
    spoil(world, lambda wrap: wrap[:-1] + bytes([wrap[-1] ^ 1]))
    two.pull()
    assert two.quarantined() == {"ROW_AUTH": 1}
    assert two.read(quarantine.wants_wraps)
    digest = labels.plain_hash(good.body)
    bad = world.server.rows[-1].row.wrap
    assert two.write(lambda tx: quarantine.store_wraps(tx, [(digest, bad)])) == 0
    assert two.write(lambda tx: quarantine.store_wraps(tx, [(digest, good.wrap)])) == 1
    assert two.write(lambda tx: quarantine.retry(tx, two.memories)) == 1
    assert two.content(memory) == "whole"


def test_a_wrap_of_a_newer_epoch_replaces_an_older_one(world: LedgerWorld) -> None:
    one = world.device()
    one.remember("kept")
    one.sync()
    body, wrap = one.read(lambda c: c.execute("SELECT body, wrap FROM sealed").fetchone())
    old, new = world.founded.key(1), EpochKey(2, labels.wrapping_key(bytes(range(32))))
    cek = unwrap_cek(SealedRow(body, wrap), {1: old})
    rewrapped = wrap_cek(body, new, cek, bytes(24))
    one.write(lambda tx: keybag.put(tx, 2, bytes(range(32))))
    pair = (labels.plain_hash(body), rewrapped)
    assert one.write(lambda tx: quarantine.store_wraps(tx, [pair])) == 1
    assert one.write(lambda tx: quarantine.store_wraps(tx, [pair])) == 0
    assert one.read(lambda c: c.execute("SELECT epoch FROM sealed").fetchone()) == (2,)


def test_a_row_that_the_vault_refuses_is_kept_aside_and_named(world: LedgerWorld) -> None:
    """A foreign device may write what our own rules would never have let in."""
    from memory_manager.sync.ledger import own_log as appending
    from memory_manager.sync.ledger.own_log import Said
    from memory_manager.sync.wire.payload import Kind

    one, two = world.device(), world.device()
    good = one.remember("fine")
    row = one.row(good)
    assert row is not None

    def work(tx: Transaction, **odd: Any) -> None:
        from memory_manager.sync.ledger import payload_rows

        fields = {**payload_rows.fields_of(row), "id": "01900000-0000-7000-8000-000000000000"}
        said = Said(Kind.MEMORY, {**fields, **odd}, appending.new_record(), b"\x01" * 16)
        appending.append(tx, state.require(tx.connection), said)

    one.write(lambda tx: work(tx, path=""))
    one.write(lambda tx: work(tx, memory_type="sensitive"))
    after = one.remember("goes on")
    one.push()
    two.pull()
    assert two.quarantined() == {"NOT_APPLIED": 1, "ROW_FORMAT": 1}
    assert two.content(after) == "goes on"
    named = [(a.code, a.device, a.n) for a in two.read(alarms.listed)]
    assert named == [(SyncCode.ROW_FORMAT, one.keys.id, 3)]


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
    one.journal.turned_on()  # as after an unlock: another connection
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
    one.journal.turned_on()
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
    assert sum(counts(one).values()) == 0
    assert one.content(memory) == "stays"
    one.remember("after")
    assert sum(counts(one).values()) == 0


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
        one.write(lambda tx: roster_log.append(tx, [world.founded.chain[0].__class__(b"{}", b"")]))


def test_the_verified_log_ends_where_it_ends(one: LedgerDevice) -> None:
    one.remember("a")
    one.sync()
    assert one.read(lambda c: verified.global_head(c, 0)) == bytes(32)
    assert one.read(lambda c: verified.global_head(c, 1)) == one.state.g
    with pytest.raises(LookupError):
        one.read(lambda c: verified.global_head(c, 2))
    assert one.read(lambda c: verified.own_entry(c, 2)) is None


def test_a_log_entry_is_never_changed(one: LedgerDevice) -> None:
    from sqlcipher3.dbapi2 import IntegrityError

    one.remember("a")
    one.sync()
    connection = connect(one.vault.path)
    try:
        for change in ("n = 9", "seq = 9", "head = zeroblob(32)"):
            with pytest.raises(IntegrityError):
                connection.execute(f"UPDATE entry SET {change}")
    finally:
        connection.close()


def test_a_page_of_another_state_is_refused_whole(world: LedgerWorld, one: LedgerDevice) -> None:
    two = world.device()
    two.remember("a")
    two.sync()
    page = world.server.page(0, 500)
    roster = one.read(roster_log.load)
    assert roster is not None
    accepted = one.read(lambda c: verified.verifier(c, roster).accept(verified.load(c), page))
    one.write(lambda tx: incoming.commit_page(tx, one.memories, page, accepted))
    before = counts(one)
    with pytest.raises(SyncRefused):
        one.write(lambda tx: incoming.commit_page(tx, one.memories, page, accepted))
    assert counts(one) == before
