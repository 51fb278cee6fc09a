"""Wrong clocks, and what must never come twice: nonces and content keys (sync.md 5, 14)."""

from __future__ import annotations

from typing import Any

import pytest
from ledger_world import LedgerDevice, LedgerWorld
from small_vault import writer

from memory_manager.base.times import now_ms
from memory_manager.sync.ledger import own_log, sealed_rows, state
from memory_manager.sync.ledger.own_log import Said
from memory_manager.sync.wire.envelope import Dot, unwrap_cek
from memory_manager.sync.wire.payload import Kind
from memory_manager.sync.wire.versions import MAX_LEAD_MS
from memory_manager.vault.rows import MemoryDraft
from memory_manager.vault.transaction import Transaction

TEN_YEARS_MS = 315_576_000_000


def test_ten_years_ahead_and_behind_sync_and_are_not_followed(world: LedgerWorld) -> None:
    """T38: the third device's clock is right and stays so; all show the same."""
    ahead, behind, right = (world.device() for _ in range(3))
    ahead.clock_ms, behind.clock_ms = now_ms() + TEN_YEARS_MS, now_ms() - TEN_YEARS_MS
    early, late, own = ahead.remember("a"), behind.remember("b"), right.remember("c")
    world.settle()
    for device in world.devices:
        device.sync()
        device.update(early, content=f"edited at {device.clock_ms}")
        device.sync()
    right.update(late, content="the right one edits what was written ten years ago")
    world.settle()
    assert right.state.clock.ms <= now_ms() + MAX_LEAD_MS
    assert behind.state.clock.ms <= behind.clock_ms + MAX_LEAD_MS
    assert ahead.shown() == behind.shown() == right.shown()
    assert {early, late, own} == set(right.shown())
    assert all(device.in_conflict() == {} for device in world.devices)
    # every edit had seen the one before it: the last one shows, whatever its clock says
    assert right.content(early) == "edited at None"
    assert right.content(late) == "the right one edits what was written ten years ago"
    leading = "SELECT count(*) FROM revision WHERE leads AND device = ?"
    assert right.read(lambda c: c.execute(leading, (ahead.keys.id,)).fetchone()) == (2,)


def test_a_clock_that_jumps_during_a_write_never_runs_backwards_in_the_log(
    world: LedgerWorld, one: LedgerDevice
) -> None:
    """T38."""
    two = world.device()
    now = now_ms()

    def jumping(transaction: Transaction) -> None:
        for at, jump in enumerate((0, TEN_YEARS_MS, -TEN_YEARS_MS, 0)):
            transaction.now_ms = now + jump
            one.memories.remember(transaction, MemoryDraft(f"row {at}", "notes"), writer())

    one.write(jumping)
    one.remember("after")
    times = one.read(
        lambda c: c.execute("SELECT hlc_ms, hlc_counter FROM revision ORDER BY seq").fetchall()
    )
    assert len(times) == 5
    assert times == sorted(set(times))
    world.settle()
    assert two.shown() == one.shown()
    assert two.state.clock.ms <= now_ms() + MAX_LEAD_MS


class _TakenBack(Exception):
    """Undoes a unit of work."""


@pytest.mark.timeout(3_600)
def test_nonces_and_keys_never_repeat_from_one_state(one: LedgerDevice, thorough: bool) -> None:
    """T39: each unit of work is undone, so that the next begins like a backup brought back."""
    wanted, share = (1_000_000, 5_000) if thorough else (2_000, 250)
    seen: dict[str, set[bytes]] = {"body": set(), "wrap": set(), "key": set()}
    key = one.founded.key(1)

    def write_some(transaction: Transaction) -> None:
        now = state.require(transaction.connection)
        first = now.own_seq + 1
        for _ in range(share):
            said = Said(Kind.ROSTER_MARK, {}, b"\x11" * 16, None)
            now, _ = own_log.append(transaction, now, said)
        for seq in range(first, first + share):
            row: Any = sealed_rows.stored(transaction.connection, Dot(one.keys.id, seq))
            seen["body"].add(row.body[132:156])
            seen["wrap"].add(row.wrap[20:44])
            seen["key"].add(bytes(unwrap_cek(row, {1: key})))
        raise _TakenBack

    for _ in range(wanted // share):
        with pytest.raises(_TakenBack):
            one.write(write_some)
    assert one.state.own_seq == 0
    assert {name: len(each) for name, each in seen.items()} == dict.fromkeys(seen, wanted)
