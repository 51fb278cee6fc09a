"""Rows of a member that means harm: bounded, kept aside, and no hindrance to anybody."""

from __future__ import annotations

from typing import Any

import pytest
from ledger_rogue import Rogue, on_the_wire
from ledger_world import LedgerDevice, LedgerWorld, row_counts
from small_vault import writer

from memory_manager.base.identifiers import MemoryId
from memory_manager.base.times import MAX_UNIX_MS, now_ms, rfc3339
from memory_manager.sync.errors import MalformedMessage, SyncCode, SyncRefused
from memory_manager.sync.ledger import conflicts, keybag, quarantine, revisions, sealed_rows, state
from memory_manager.sync.wire import labels
from memory_manager.sync.wire.envelope import Dot, dot_from_hex
from memory_manager.sync.wire.log import (
    Checkpoint,
    Entry,
    ServerHead,
    unpack_checkpoint,
    unpack_entry,
    unpack_server_head,
)
from memory_manager.sync.wire.payload import MAX_COUNTER, HybridTime, Kind
from memory_manager.sync.wire.versions import following, next_time
from memory_manager.vault.rows import ForgetMode


def one_memory(world: LedgerWorld) -> tuple[LedgerDevice, LedgerDevice, Rogue, MemoryId]:
    """Two devices that know one memory, and a rogue beside them."""
    one, two = world.device(), world.device()
    rogue = Rogue(world)
    memory = one.remember("base")
    world.settle()
    return one, two, rogue, memory


# --- numbers ----------------------------------------------------------------------------------


def test_a_parent_beyond_every_log_is_kept_aside_and_the_next_row_goes_on(
    world: LedgerWorld,
) -> None:
    one, two, rogue, memory = one_memory(world)
    record, _ = on_the_wire(one, memory)
    rogue.says(rogue.memory(memory), parents=[Dot(b"d" * 16, 1 << 63)], record=record)
    after = one.remember("goes on")
    world.settle()
    assert two.quarantined() == {"ROW_AUTH": 1}
    assert (two.content(memory), two.content(after)) == ("base", "goes on")


@pytest.mark.parametrize("number", [labels.MAX_POSITION + 1, (1 << 64) - 1])
def test_positions_that_no_database_counts_to_are_malformed(number: int) -> None:
    zero, name = bytes(32), bytes(16)
    with pytest.raises(ValueError, match="position"):
        dot_from_hex(Dot(name, number).hex())
    with pytest.raises(MalformedMessage):
        unpack_entry(Entry(name, name, number, zero, zero, zero).pack())
    with pytest.raises(MalformedMessage):
        unpack_checkpoint(Checkpoint(name, name, number, zero, 0, zero).pack())
    with pytest.raises(MalformedMessage):
        unpack_checkpoint(Checkpoint(name, name, 1, zero, number, zero).pack())
    with pytest.raises(MalformedMessage):
        unpack_server_head(ServerHead(number, zero).pack())


# --- times ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ahead_ms", "counter"),
    [(240_000, MAX_COUNTER), (MAX_UNIX_MS - 2_000_000_000_000, MAX_COUNTER)],
    ids=["clock follows", "time leads"],
)
def test_after_a_time_at_its_end_everybody_still_writes(
    world: LedgerWorld, ahead_ms: int, counter: int
) -> None:
    one, two, rogue, memory = one_memory(world)
    record, _ = on_the_wire(one, memory)
    at = HybridTime(now_ms() + ahead_ms, counter, "")
    rogue.says(rogue.memory(memory), record=record, time=at)
    world.settle()
    assert two.conflict(memory) is not None
    two.remember("something else")
    two.update(memory, content="mine")
    world.settle()
    assert one.content(memory) == two.content(memory) == "mine"


@pytest.mark.parametrize(
    ("ms", "counter"), [(MAX_UNIX_MS + 1, 0), (1, MAX_COUNTER + 1), ((1 << 53) - 1, 0)]
)
def test_a_time_that_nothing_could_follow_is_kept_aside(
    world: LedgerWorld, ms: int, counter: int
) -> None:
    one, two = world.device(), world.device()
    rogue = Rogue(world)
    rogue.says({}, kind=Kind.ROSTER_MARK, time=HybridTime(ms, counter, ""))
    world.settle()
    assert one.quarantined() == two.quarantined() == {"ROW_AUTH": 1}


def test_times_have_an_end_and_do_not_go_beyond_it() -> None:
    last = HybridTime(MAX_UNIX_MS, MAX_COUNTER, "a")
    assert following(last, "a") == last
    assert following(HybridTime(7, MAX_COUNTER, "b"), "a") == HybridTime(8, 0, "a")
    assert next_time(HybridTime(7, MAX_COUNTER, "a"), 7, "a") == HybridTime(8, 0, "a")


@pytest.mark.parametrize(
    "members",
    [
        {"created_at_ms": (1 << 53) - 1},
        {"updated_at_ms": -(1 << 52)},
        {"expires_at_ms": MAX_UNIX_MS + 1},
    ],
    ids=lambda members: next(iter(members)),
)
def test_a_memory_with_a_time_that_no_list_could_show_is_kept_aside(
    world: LedgerWorld, members: dict[str, Any]
) -> None:
    one, two, rogue, memory = one_memory(world)
    record, dots = on_the_wire(one, memory)
    rogue.says(rogue.memory(memory, **members), parents=dots, record=record)
    world.settle()
    assert two.quarantined() == {"ROW_FORMAT": 1}
    (row,) = two.vault.listed()
    assert row.content == "base"
    assert rfc3339(row.created_at_ms)
    assert rfc3339(row.updated_at_ms)


# --- deletions --------------------------------------------------------------------------------


def thirty(world: LedgerWorld) -> tuple[LedgerDevice, LedgerDevice, Rogue, list[MemoryId]]:
    one, two = world.device(), world.device()
    rogue = Rogue(world)
    memories = [one.remember(f"memory {number}") for number in range(30)]
    world.settle()
    return one, two, rogue, memories


@pytest.mark.parametrize("mode", ["tidy", "forget"])
def test_deletions_under_names_that_nobody_saw_ask_first(world: LedgerWorld, mode: str) -> None:
    one, two, rogue, memories = thirty(world)
    for memory in memories:
        _, dots = on_the_wire(one, memory)
        rogue.says({"id": memory, "mode": mode}, kind=Kind.TOMBSTONE, parents=dots)
    before = row_counts(two)
    with pytest.raises(SyncRefused) as caught:
        two.pull()
    assert caught.value.reason is SyncCode.BREAKER
    assert row_counts(two) == before
    assert len(two.vault.listed()) == 30
    two.write(state.confirm_deletions)
    two.pull()
    assert two.vault.listed() == []


def test_emptied_memories_count_like_deleted_ones(world: LedgerWorld) -> None:
    one, two, rogue, memories = thirty(world)
    for memory in memories:
        record, dots = on_the_wire(one, memory)
        emptied = rogue.memory(memory, status="redacted")
        rogue.says(emptied, parents=dots, record=record)
    with pytest.raises(SyncRefused) as caught:
        two.pull()
    assert caught.value.reason is SyncCode.BREAKER
    assert two.content(memories[0]) == "memory 0"


def test_deletions_that_waited_for_a_key_ask_as_well(world: LedgerWorld) -> None:
    one, two, rogue, memories = thirty(world)
    world.founded.vrk[2] = bytes(range(32))
    world.founded.amend("rotate", world.founded.first, epoch=world.founded.epoch_document(2))
    for device in (one, two):
        device.learn_roster()
    for memory in memories:
        record, dots = on_the_wire(one, memory)
        fields = {"id": memory, "mode": "tidy"}
        rogue.says(fields, kind=Kind.TOMBSTONE, parents=dots, record=record)
    two.pull()
    assert two.quarantined() == {"WAITING_KEY": 30}
    two.write(lambda tx: keybag.put(tx, 2, world.founded.vrk[2]))
    with pytest.raises(SyncRefused) as caught:
        two.write(lambda tx: quarantine.retry(tx, two.memories))
    assert caught.value.reason is SyncCode.BREAKER
    assert len(two.vault.listed()) == 30


def test_what_was_written_and_deleted_before_this_device_came_is_no_loss(
    world: LedgerWorld,
) -> None:
    one, _, _, memories = thirty(world)
    for memory in memories:
        one.forget(memory)
    one.push()
    late = world.device()
    late.pull()
    assert late.vault.listed() == []


# --- circles ----------------------------------------------------------------------------------


def test_a_revision_that_names_itself_or_a_later_one_deletes_nothing(world: LedgerWorld) -> None:
    one, two = world.device(), world.device()
    rogue = Rogue(world)
    first, second = one.remember("first"), one.remember("second")
    world.settle()
    record, dots = on_the_wire(one, first)
    rogue.says(rogue.memory(first, "itself"), parents=[*dots, rogue.dot()], record=record)
    record, dots = on_the_wire(one, second)
    circle = [rogue.dot(), rogue.dot(2)]
    rogue.says(rogue.memory(second, "a"), parents=[*dots, circle[1]], record=record)
    rogue.says(rogue.memory(second, "b"), parents=[*dots, circle[0]], record=record)
    world.settle()
    for device in (one, two):
        assert (device.content(first), device.content(second)) == ("itself", "b")
        assert device.conflict(second) is None


def test_naming_what_others_will_write_does_not_take_it_away(world: LedgerWorld) -> None:
    one, two, rogue, memory = one_memory(world)
    record, dots = on_the_wire(one, memory)
    end = one.state.own_seq
    coming = [Dot(one.keys.id, end + step) for step in range(1, 20)]
    rogue.says(rogue.memory(memory), parents=[*dots, *coming], record=record)
    world.settle()
    one.update(memory, content="the next one")
    world.settle()
    for device in (one, two):
        assert device.content(memory) == "the next one"
        assert device.conflict(memory) is None
    one.update(memory, content="and on")
    world.settle()
    assert two.content(memory) == "and on"


def test_a_deletion_at_an_impossible_time_happened_now(world: LedgerWorld) -> None:
    one, two, rogue, memory = one_memory(world)
    record, dots = on_the_wire(one, memory)
    fields = {"id": memory, "mode": "tidy", "updated_at_ms": (1 << 53) - 1}
    rogue.says(fields, kind=Kind.TOMBSTONE, parents=dots, record=record)
    world.settle()
    row = two.vault.row(memory, include_deleted=True)
    assert row is not None
    assert row.updated_at_ms <= now_ms()


def test_a_row_that_calls_itself_a_copy_is_read_like_any_other(world: LedgerWorld) -> None:
    one, two, rogue, memory = one_memory(world)
    record, _ = on_the_wire(one, memory)
    rogue.says(rogue.memory(memory, "beside"), record=record)
    rogue.says({"id": memory, "copy_of": "00" * 16}, record=record)
    world.settle()
    assert one.quarantined() == two.quarantined() == {"ROW_FORMAT": 1}
    for device in (one, two):
        conflict = device.conflict(memory)
        assert conflict is not None
        assert {s.contents.content for s in conflict.siblings if s.contents} == {"base", "beside"}


# --- time -------------------------------------------------------------------------------------


def test_the_common_base_of_a_long_history_is_found_in_one_walk(world: LedgerWorld) -> None:
    one, two = world.device(), world.device()
    memory = one.remember("base")
    for number in range(300):
        one.update(memory, content=f"text {number}", metadata={"tags": ["a", "b"]})
    world.settle()
    one.update(memory, content="left", metadata={"tags": ["a"]})
    two.update(memory, content="right", metadata={"tags": ["b"]})
    steps = 0

    def counted() -> None:
        nonlocal steps
        steps += 1

    def watch(connection: Any) -> None:
        connection.set_progress_handler(counted, 1_000)

    one.push()
    two.write(lambda tx: watch(tx.connection))
    two.pull()
    two.write(lambda tx: tx.connection.set_progress_handler(None, 0))
    row = two.row(memory)
    assert row is not None
    assert row.metadata["tags"] == []
    assert steps < 300  # thousands of SQLite's steps: linear in the history


def test_any_number_of_siblings_costs_and_shows_a_few(world: LedgerWorld) -> None:
    one, two, rogue, memory = one_memory(world)
    record, _ = on_the_wire(one, memory)
    for number in range(3 * revisions.MAX_SIDES):
        rogue.says(rogue.memory(memory, f"side {number}"), record=record)
    opened = 0
    plain = sealed_rows.OpeningKeys.payload

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal opened
        opened += 1
        return plain(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealed_rows.OpeningKeys, "payload", counted)
        two.pull()
    assert opened <= 3 * revisions.MAX_SIDES * (revisions.MAX_SIDES + 2)
    world.settle()
    assert one.shown() == two.shown()
    assert one.in_conflict() == two.in_conflict()
    conflict = two.conflict(memory)
    assert conflict is not None
    assert len(conflict.siblings) == revisions.MAX_SIDES
    chosen = conflict.siblings[3].dot
    two.write(lambda tx: conflicts.keep(tx, two.memories, memory, chosen, writer()))
    world.settle()
    assert one.content(memory) == two.content(memory)
    assert one.in_conflict() == two.in_conflict() == {}


def test_what_comes_after_a_forget_leaves_nothing_behind(world: LedgerWorld) -> None:
    one, two, rogue, memory = one_memory(world)
    record, _ = on_the_wire(one, memory)
    one.forget(memory, ForgetMode.HARD_DELETE)
    world.settle()
    before = row_counts(two)["sealed"]
    for number in range(5):
        rogue.says(rogue.memory(memory, f"late {number}"), record=record)
    world.settle()
    assert two.vault.listed() == one.vault.listed() == []
    assert row_counts(two)["sealed"] == before
