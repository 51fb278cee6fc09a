"""Random acts on three devices that come to newer rules at different times: cleaning changes
nothing but what is found. The oracle is the same story without it.
"""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

import pytest
from ledger_stories import DEVICES, Told, story
from ledger_world import LedgerWorld
from made_up_token import token_of
from older_rules import older_rules
from small_vault import writer

from memory_manager.sync.ledger import conflicts
from memory_manager.vault.rows import RowStatus

ACTS = ("edit", "edit", "edit", "tag", "mark", "delete", "restore", "redact", "destroy")


def compare(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as closing:
        told: list[Told] = []
        for with_rules in (False, True):
            world = LedgerWorld(Path(folder) / str(with_rules))
            closing.callback(world.close)
            for _ in range(DEVICES):
                world.device()
            told.append(Told(world, with_rules=with_rules))
            told[-1].tell(story(seed, ACTS))
        without, with_rules_ = told
        with older_rules():
            without.world.settle()
            expected = without.shown(without.world.devices[0])
            disputed = without.in_conflict(without.world.devices[0])
        with_rules_.world.settle()
        for _ in range(2):
            for device in with_rules_.world.devices:
                device.clean()
            with_rules_.world.settle()
        check(with_rules_, expected, disputed)
        decide(with_rules_)


def check(told: Told, expected: dict[int, Any], disputed: set[int]) -> None:
    first, *_ = told.world.devices
    tokens = [token_of(number) for number in range(40)]
    for device in told.world.devices:
        assert device.quarantined() == {}
        assert device.waiting() == 0
        assert device.shown() == first.shown()
        assert told.shown(device) == expected
        assert told.in_conflict(device) <= disputed
        dump = device.vault.dump()
        assert not any(token.encode() in dump for token in tokens)


def decide(told: Told) -> None:
    """What stood in conflict is sealed as it was until then; after it nothing is."""
    first, *_ = told.world.devices
    redacted = {row.id for row in first.vault.listed() if row.status is RowStatus.REDACTED}
    for memory in told.ids:
        record = first.conflict(memory)
        if record is not None:
            dot = record.siblings[0].dot
            first.write(
                lambda tx, memory=memory, dot=dot: conflicts.keep(
                    tx, first.memories, memory, dot, writer()
                )
            )
    told.world.settle()
    for device in told.world.devices:
        assert (device.in_conflict(), device.quarantined()) == ({}, {})
        assert device.shown() == first.shown()
        for memory in told.ids:
            if memory in redacted:  # no version tells of an edit beside the redaction
                continue
            texts = "".join(device.sealed_texts(memory))
            assert not any(token_of(number) in texts for number in range(40))


@pytest.mark.timeout(3_600)  # 400 stories when thorough
def test_cleaning_in_any_order_changes_nothing_else(thorough: bool) -> None:
    for seed in range(400 if thorough else 8):
        compare(seed)
