"""Our own log, its outbox and what acknowledges it: what is stored and when."""

from __future__ import annotations

from pathlib import Path

import pytest
from ledger_world import LedgerDevice, LedgerWorld, row_counts
from small_vault import SmallVault, connect, small_vault, writer

from memory_manager.base.errors import TooLarge
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.ledger import (
    alarms,
    incoming,
    marks,
    outbox,
    verified,
)
from memory_manager.sync.ledger.journal import SyncJournal
from memory_manager.sync.wire.framing import (
    MAX_PUSH_BYTES,
    Push,
    Signed,
    pack_push,
    unpack_push,
)
from memory_manager.sync.wire.log import ServerHead, sign_server_head
from memory_manager.vault.memories import Memories
from memory_manager.vault.rows import MemoryDraft
from memory_manager.vault.transaction import Transaction

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
    with small_vault(tmp_path) as vault:
        plain, journaled = Memories(), Memories(journal=SyncJournal())
        statements_of(vault, journaled, "the first one looks once")
        without = statements_of(vault, plain, "without a journal")
        with_one = statements_of(vault, journaled, "with a journal that is off")
        assert len(with_one) == len(without)
        assert sum(row_counts(vault).values()) == 0


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
