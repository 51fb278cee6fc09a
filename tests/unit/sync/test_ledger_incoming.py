"""Pages of others: what stops them, what is kept aside, what is tried again."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from ledger_world import LedgerDevice, LedgerWorld, row_counts
from small_vault import writer

from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.ledger import (
    alarms,
    breaker,
    incoming,
    keybag,
    quarantine,
    roster_log,
    state,
    verified,
)
from memory_manager.sync.wire import labels
from memory_manager.sync.wire.envelope import EpochKey, SealedRow, unwrap_cek, wrap_cek
from memory_manager.vault.rows import ForgetMode, MemoryDraft
from memory_manager.vault.transaction import Transaction

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
    before = row_counts(two)
    with pytest.raises(SyncRefused) as caught:
        two.pull()
    assert caught.value.reason is SyncCode.BREAKER
    assert row_counts(two) == before
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
    two.clock_ms = now + breaker.WINDOW_MS + 1
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


def test_a_page_of_another_state_is_refused_whole(world: LedgerWorld, one: LedgerDevice) -> None:
    two = world.device()
    two.remember("a")
    two.sync()
    page = world.server.page(0, 500)
    roster = one.read(roster_log.load)
    assert roster is not None
    accepted = one.read(lambda c: verified.verifier(c, roster).accept(verified.load(c), page))
    one.write(lambda tx: incoming.commit_page(tx, one.memories, page, accepted))
    before = row_counts(one)
    with pytest.raises(SyncRefused):
        one.write(lambda tx: incoming.commit_page(tx, one.memories, page, accepted))
    assert row_counts(one) == before
