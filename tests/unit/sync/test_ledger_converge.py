"""Random acts on three devices, in any order of meeting: all end up alike, and nothing is lost.

The oracle reads the server's log with the pure functions of the wire format alone.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from ledger_world import LedgerDevice, LedgerWorld
from small_vault import writer

from memory_manager.base.errors import MemlocketError
from memory_manager.base.identifiers import MemoryId, memory_id_from_bytes
from memory_manager.sync.ledger import conflicts, keybag, quarantine, sealed_rows
from memory_manager.sync.wire.envelope import Dot, open_row
from memory_manager.sync.wire.payload import HybridTime, read_payload
from memory_manager.sync.wire.versions import Current, Revision, current
from memory_manager.vault.rows import ForgetMode

DEVICES = 3
ACTS = ("remember", "edit", "edit", "tag", "delete", "restore", "redact", "destroy", "keep")
MEETINGS = ("sync", "pull", "push")
TURNS = ("rotate", "learn", "save", "bring back")
STEP = st.tuples(
    st.integers(0, DEVICES - 1),
    st.sampled_from(ACTS + MEETINGS + MEETINGS + TURNS),
    st.integers(0, 3),  # which record
    st.integers(0, 5),  # page size, key, tag
)
SKEWS_MS = (0, -3_600_000, 30_000)


def take_step(world: LedgerWorld, ids: list[MemoryId], number: int, step: Any) -> None:
    which, act, place, value = step
    device = world.devices[which]
    device.clock_ms = 1_800_000_000_000 + number * 1000 + SKEWS_MS[which]
    if act in MEETINGS:
        meet(device, act, value)
    elif act in TURNS:
        turn(world, device, act)
    elif act == "remember":
        key = f"k{place}" if value == 0 else None
        ids.append(device.remember(f"text {number}", semantic_key=key, metadata={"tags": ["t0"]}))
    elif ids:
        change(device, act, ids[place % len(ids)], number, value)


def meet(device: LedgerDevice, act: str, value: int) -> None:
    if act == "push":
        device.push(max_rows=1 + value)
    elif act == "pull":
        device.pull(limit=1 + value)
    else:
        device.sync(limit=1 + value)


def turn(world: LedgerWorld, device: LedgerDevice, act: str) -> None:
    """A new epoch that others do not know yet; an old copy of the database on a new device."""
    if act == "rotate":
        epoch = len(world.founded.vrk) + 1
        world.founded.vrk[epoch] = world.source.randbytes(32)
        learn_keys(device)
    elif act == "learn":
        learn_keys(device)
    elif act == "save":
        device.save()
    elif device.saved is not None:
        device.bring_back(world.founded.add(device.keys))
        for other in world.devices:
            other.learn_roster()


def learn_keys(device: LedgerDevice) -> None:
    def work(tx: Any) -> None:
        for epoch, vrk in device.founded.vrk.items():
            keybag.put(tx, epoch, vrk)
        quarantine.retry(tx, device.memories)

    device.write(work)


def change(device: LedgerDevice, act: str, memory: MemoryId, number: int, value: int) -> None:
    row = device.vault.row(memory, include_deleted=True)
    if row is None:
        return
    try:
        if act == "edit":
            device.update(memory, content=f"text {number}")
        elif act == "tag":
            device.update(memory, metadata={"tags": [f"t{value}", f"t{value // 2}"]})
        elif act == "delete":
            device.forget(memory)
        elif act == "restore":
            device.restore(memory)
        elif act == "redact":
            device.forget(memory, ForgetMode.REDACT)
        elif act == "destroy":
            device.forget(memory, ForgetMode.HARD_DELETE)
        else:
            keep_the_last(device, memory)
    except MemlocketError:
        return  # a deleted or foreign record, a key that another one holds: nothing was written


def keep_the_last(device: LedgerDevice, memory: MemoryId) -> None:
    record = device.conflict(memory)
    if record is not None:
        dot = record.siblings[-1].dot
        device.write(lambda tx: conflicts.keep(tx, device.memories, memory, dot, writer()))


def said_in_the_log(world: LedgerWorld) -> tuple[dict[str, Current], dict[Dot, Any]]:
    """The state of every record from the rows of the server, and what each revision says."""
    revisions: dict[str, list[Revision]] = {}
    texts: dict[Dot, Any] = {}
    for row in world.server.rows:
        if sealed_rows.is_dead(row.row):
            continue
        dot = Dot(row.entry.device, row.entry.seq)
        keys = {epoch: world.founded.key(epoch) for epoch in world.founded.vrk}
        opened = open_row(row.row, vault=world.founded.vault, dot=dot, keys=keys)
        payload = read_payload(opened)
        time = HybridTime(payload.time.ms, payload.time.counter, dot.device.hex())
        revision = Revision(dot, frozenset(payload.parents), time, payload.mode)
        revisions.setdefault(payload.fields["id"], []).append(revision)
        texts[dot] = payload.fields.get("content")
    return {memory: current(found) for memory, found in revisions.items()}, texts


def sealed_texts(device: LedgerDevice, expected: dict[str, Current]) -> dict[str, int]:
    """Sealed edits that are still there of records that were forgotten everywhere."""
    rows = device.read(
        lambda c: c.execute(
            "SELECT v.id FROM revision v JOIN entry e ON e.device = v.device AND e.seq = v.seq"
            " JOIN sealed s ON s.entry_rowid = e.rowid WHERE v.deletion IS NULL"
        ).fetchall()
    )
    kept = [memory_id_from_bytes(record_id) for (record_id,) in rows]
    return {memory: 1 for memory in kept if expected[memory].forgotten}


def check(world: LedgerWorld) -> None:
    first, *others = world.devices
    expected, texts = said_in_the_log(world)
    for device in world.devices:
        assert device.waiting() == 0
        assert device.quarantined() == {}
    live = {memory: now for memory, now in expected.items() if now.winner is not None}
    shown = {row.id: row for row in first.vault.listed()}
    assert set(shown) == set(live)
    for memory, now in live.items():
        assert now.winner is not None
        assert shown[memory].content == texts[now.winner.dot]
        # every text that nobody superseded is there, shown or as a sibling
        record = first.conflict(memory)
        kept = {s.contents.content for s in record.siblings if s.contents} if record else set()
        for sibling in now.siblings:
            assert texts[sibling.dot] in kept | {shown[memory].content}
    for device in world.devices:
        assert sealed_texts(device, expected) == {}
    for other in others:
        assert other.shown() == first.shown()
        assert other.in_conflict() == first.in_conflict()
        assert (other.state.n, other.state.g) == (first.state.n, first.state.g)


def run(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = LedgerWorld(Path(folder))
        try:
            for _ in range(DEVICES):
                world.device()
            ids: list[MemoryId] = []
            for number, step in enumerate(steps):
                take_step(world, ids, number, step)
            for device in world.devices:
                device.clock_ms = 1_800_000_000_000 + len(steps) * 1000
                learn_keys(device)
            world.settle(limit=7)
            check(world)
        finally:
            world.close()


@pytest.mark.timeout(3_600)  # 400 stories when thorough
def test_any_order_of_acts_and_meetings_ends_alike(thorough: bool) -> None:
    @settings(
        max_examples=400 if thorough else 10,
        deadline=None,
        database=None,
        derandomize=not thorough,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink) if thorough else (Phase.generate,),
    )
    @given(st.lists(STEP, min_size=12, max_size=40))
    def property_(steps: list[Any]) -> None:
        run(steps)

    property_()
