"""Text of an older rule set that several devices hold: all come to the cleaned one, and no sealed
row of theirs keeps the other (redaction.md 10, sync.md 5).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ledger_world import LedgerDevice, LedgerWorld
from made_up_token import token_of
from older_rules import older_rules
from small_vault import writer

from memory_manager.base.identifiers import MemoryId
from memory_manager.sync.ledger import conflicts, copies, sealed_rows
from memory_manager.vault import cleaning, settings
from memory_manager.vault.rows import ForgetMode


def sealed_rows_of(device: LedgerDevice) -> int:
    return int(device.read(lambda c: c.execute("SELECT count(*) FROM sealed").fetchone()[0]))


def agreed(world: LedgerWorld) -> dict[str, object]:
    """What all devices show, which is the same and without conflicts or rows put aside."""
    world.settle()
    first, *others = world.devices
    for device in world.devices:
        assert (device.in_conflict(), device.quarantined()) == ({}, {})
    assert all(other.shown() == first.shown() for other in others)
    return first.shown()


def test_what_one_device_cleaned_all_show_and_seal(world: LedgerWorld) -> None:
    token = token_of(1)
    left, right = world.device(), world.device()
    with older_rules():
        memory = left.remember(f"use {token}", f"keys/{token}", metadata={"k": token})
        left.update(memory, content=f"now use {token}")
        world.settle()
    assert token in "".join(left.sealed_texts(memory) + right.sealed_texts(memory))
    left.clean()
    assert token not in str(agreed(world))
    right.clean()
    assert token not in str(agreed(world))
    for device in (left, right):
        texts = device.sealed_texts(memory)
        assert texts
        assert token not in "".join(texts)
        assert token.encode() not in device.vault.dump()


def test_devices_that_clean_at_the_same_time_do_not_disagree(world: LedgerWorld) -> None:
    token = token_of(2)
    left, right = world.device(), world.device()
    with older_rules():
        memory = left.remember(f"use {token}")
        world.settle()
    before = left.row(memory)
    for device in (left, right):
        device.clean()
    shown = agreed(world)
    assert token not in str(shown)
    now = left.row(memory)
    assert before is not None
    assert now is not None
    assert now.updated_at_ms == before.updated_at_ms
    left.update(memory, content="rotated")
    agreed(world)
    assert right.content(memory) == "rotated"


ACTS: dict[str, Callable[[LedgerDevice, MemoryId], object]] = {
    "edited": lambda device, memory: device.update(memory, content="rotated"),
    "tagged": lambda device, memory: device.update(memory, metadata={"tags": ["a"]}),
    "deleted": lambda device, memory: device.forget(memory),
    "redacted": lambda device, memory: device.forget(memory, ForgetMode.REDACT),
}


@pytest.mark.parametrize("cleaned_first", [True, False])
@pytest.mark.parametrize("act", ACTS)
def test_what_somebody_did_meanwhile_counts_and_the_cleaning_does_not(
    world: LedgerWorld, act: str, cleaned_first: bool
) -> None:
    token = token_of(8)
    left, right, third = (world.device() for _ in range(3))
    with older_rules():
        memory = left.remember(f"use {token}", metadata={"tags": ["t"]})
        world.settle()
    for number, device in enumerate((right, left) if cleaned_first else (left, right)):
        device.clock_ms = 1_900_000_000_000 + number
        if device is right:
            right.clean()
        else:
            with older_rules():
                ACTS[act](left, memory)
    shown = agreed(world)
    assert (memory in shown) == (act != "deleted")
    for device in world.devices:
        device.clean()
    assert agreed(world).keys() == shown.keys()
    expected = {"edited": "rotated", "redacted": "[REDACTED]", "deleted": None}
    for device in (left, right, third):
        assert device.content(memory) == expected.get(act, "use [REDACTED:github-token]")
        row = device.row(memory)
        assert row is None or row.metadata["tags"] == (["a"] if act == "tagged" else ["t"])
        assert token not in "".join(device.sealed_texts(memory))


def test_devices_that_clean_differently_ask_nobody(world: LedgerWorld) -> None:
    left, right = world.device(), world.device()
    with older_rules():
        memory = left.remember(f"use {token_of(9)}, write to jane.doe@harbour-works.pt")
        world.settle()
    right.write(lambda tx: settings.change_setting(tx, "auto_redact_pii", True, writer()))
    right.write(lambda tx: cleaning.start(tx, whole=True))
    for device in (left, right):
        device.clean()
    world.settle()
    assert (left.in_conflict(), right.in_conflict()) == ({}, {})
    assert "jane.doe" not in (right.content(memory) or "")
    assert "github-token" in (left.content(memory) or "")


def test_what_was_not_sent_yet_reaches_the_others_and_then_goes(world: LedgerWorld) -> None:
    token = token_of(3)
    left, right = world.device(), world.device()
    world.settle()
    with older_rules():
        memory = left.remember(f"use {token}")
    left.clean()
    assert (left.waiting(), sealed_rows_of(left)) == (2, 2)
    assert [token in text for text in left.sealed_texts(memory)] == [False]
    agreed(world)
    assert not any(token in text for text in left.sealed_texts(memory))
    assert sealed_rows_of(left) == len(left.sealed_texts(memory)), "none is kept unread"
    assert right.content(memory) == left.content(memory) == "use [REDACTED:github-token]"


def test_both_sides_of_a_conflict_stay_and_are_shown_cleaned(world: LedgerWorld) -> None:
    tokens = [token_of(4), token_of(5)]
    left, right = world.device(), world.device()
    with older_rules():
        memory = left.remember("the key")
        world.settle()
        for device, token in zip((left, right), tokens, strict=True):
            device.update(memory, content=f"{device is left} {token}")
        world.settle()
    for device in (left, right):
        device.clean()
    world.settle()
    for device in (left, right):
        record = device.conflict(memory)
        assert record is not None
        said = [sibling.contents.content for sibling in record.siblings if sibling.contents]
        assert sorted(text.split()[0] for text in said) == ["False", "True"]
        assert not any(token in text for text in said for token in tokens)
    record = left.conflict(memory)
    assert record is not None
    kept = record.siblings[1].dot
    left.write(lambda tx: conflicts.keep(tx, left.memories, memory, kept, writer()))
    assert not any(token in str(agreed(world)) for token in tokens)


def test_a_deleted_record_is_cleaned_and_comes_back_clean(world: LedgerWorld) -> None:
    token = token_of(6)
    left, right = world.device(), world.device()
    with older_rules():
        memory = left.remember(f"use {token}")
        left.forget(memory, ForgetMode.SOFT_DELETE)
        world.settle()
    assert token in "".join(left.sealed_texts(memory))
    left.clean()
    assert token not in "".join(left.sealed_texts(memory))
    left.restore(memory)
    shown = agreed(world)
    assert memory in shown
    assert token not in str(shown)
    assert right.content(memory) == left.content(memory)


def test_what_a_device_of_older_rules_goes_on_writing_all_come_to_show_cleaned(
    world: LedgerWorld,
) -> None:
    token = token_of(7)
    older, *newer = [world.device() for _ in range(3)]
    world.settle()
    with older_rules():
        memory = older.remember(f"use {token}", semantic_key="slot")
        older.push()
    for device in newer:
        device.pull()
        assert (device.waiting(), device.content(memory)) == (1, "use [REDACTED:github-token]")
        assert token not in "".join(device.sealed_texts(memory))
    for device in newer:
        device.push()
    with older_rules():
        older.pull()
        assert older.content(memory) == "use [REDACTED:github-token]"
        assert older.waiting() == 0
    assert token not in str(agreed(world))
    assert [device.waiting() for device in world.devices] == [0, 0, 0]


def test_contact_data_that_one_device_takes_out_stays_on_the_others(world: LedgerWorld) -> None:
    left, right = world.device(), world.device()
    right.write(lambda tx: settings.change_setting(tx, "auto_redact_pii", True, writer()))
    memory = left.remember("write to jane.doe@harbour-works.pt")
    world.settle()
    assert left.content(memory) == "write to jane.doe@harbour-works.pt"
    assert "jane.doe" not in (right.content(memory) or "")
    assert right.waiting() == 0


def test_a_copy_for_the_index_is_taken_back_when_its_original_was_cleaned(
    world: LedgerWorld,
) -> None:
    left, right = world.device(), world.device()
    with older_rules():
        memory = left.remember("harmless", metadata={"k": token_of(10)})
        copy = left.write(lambda tx: copies.seal_copy(tx, memory, lambda record, dot: {}))
        world.settle()
    assert right.read(lambda c: copies.copies_of(c, memory)) == [copy.record]
    left.clean()
    agreed(world)
    for device in (left, right):
        assert device.read(lambda c: copies.copies_of(c, memory)) == []
        assert device.read(lambda c: sealed_rows.stored(c, copy.dot)) is None
