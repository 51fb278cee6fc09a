"""Rows of a member that means harm: bounded, kept aside, and no hindrance to anybody."""

from __future__ import annotations

from typing import Any

import pytest
from ledger_rogue import Rogue, on_the_wire
from ledger_world import LedgerWorld

from memory_manager.base.times import MAX_UNIX_MS, now_ms, rfc3339
from memory_manager.sync.errors import MalformedMessage
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

# --- numbers ----------------------------------------------------------------------------------


def test_a_parent_beyond_every_log_is_kept_aside_and_the_next_row_goes_on(
    world: LedgerWorld,
) -> None:
    one, two = world.device(), world.device()
    rogue = Rogue(world)
    memory = one.remember("base")
    world.settle()
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
    one, two = world.device(), world.device()
    rogue = Rogue(world)
    memory = one.remember("base")
    world.settle()
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
    one, two = world.device(), world.device()
    rogue = Rogue(world)
    memory = one.remember("base")
    world.settle()
    record, dots = on_the_wire(one, memory)
    rogue.says(rogue.memory(memory, **members), parents=dots, record=record)
    world.settle()
    assert two.quarantined() == {"ROW_FORMAT": 1}
    (row,) = two.vault.listed()
    assert row.content == "base"
    assert rfc3339(row.created_at_ms)
    assert rfc3339(row.updated_at_ms)
