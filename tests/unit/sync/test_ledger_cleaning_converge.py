"""Random acts on three devices that come to newer rules at different times: cleaning changes
nothing but what is found. The oracle is the same story without it.
"""

from __future__ import annotations

import contextlib
import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from ledger_world import LedgerDevice, LedgerWorld
from older_rules import older_rules, token_of
from small_vault import writer

from memory_manager.base.errors import MemlocketError
from memory_manager.base.identifiers import MemoryId, new_memory_id
from memory_manager.security.redact import sanitize_row
from memory_manager.sync.ledger import conflicts
from memory_manager.vault.rows import ForgetMode, RowStatus

DEVICES = 3
RECORDS = 2
ACTS = ("edit", "edit", "edit", "tag", "mark", "delete", "restore", "redact", "destroy")
MEETINGS = ("sync", "sync", "pull") * 3  # a push by itself may pull as well, or not
RULES = ("upgrade", "clean some", "clean all") * 3
SKEWS_MS = (0, -3_600_000, 30_000)
START_MS = 1_800_000_000_000

Step = tuple[int, str, int, bool]


def story(seed: int) -> list[Step]:
    """Who does what to which record, and whether with a secret."""
    source = random.Random(seed)
    steps: list[Step] = [(0, "remember", 0, True), (1, "remember", 1, False)]
    for _ in range(source.randint(10, 34)):
        act = source.choice(ACTS + MEETINGS + RULES)
        steps.append(
            (source.randrange(DEVICES), act, source.randrange(RECORDS), source.random() < 0.6)
        )
    return steps


def change(device: LedgerDevice, act: str, memory: MemoryId, text: str) -> None:
    row = device.vault.row(memory, include_deleted=True)
    if row is None:
        return
    if act == "edit":
        device.update(memory, content=text)
    elif act == "tag":
        device.update(memory, metadata={"tags": [text[-1], text[-2:]]})
    elif act == "mark":
        device.update(memory, importance=len(text) / 1000)
    elif act == "delete":
        device.forget(memory)
    elif act == "restore" and row.status is RowStatus.DELETED:
        device.restore(memory)
    elif act == "redact":
        device.forget(memory, ForgetMode.REDACT)
    elif act == "destroy":
        device.forget(memory, ForgetMode.HARD_DELETE)


class Told:
    """The story as it was on the devices; ``with_rules`` False: all keep the older program."""

    def __init__(self, world: LedgerWorld, *, with_rules: bool) -> None:
        self.world, self.with_rules = world, with_rules
        self.upgraded: set[int] = set()
        self.ids = [new_memory_id() for _ in range(RECORDS)]

    def tell(self, steps: list[Step]) -> None:
        for number, (which, act, place, secret) in enumerate(steps):
            device = self.world.devices[which]
            device.clock_ms = START_MS + number * 1000 + SKEWS_MS[which]
            with contextlib.nullcontext() if which in self.upgraded else older_rules():
                text = f"text {number}" + (f" with {token_of(number)}" if secret else "")
                self._act(device, which, act, place, text)
        for device in self.world.devices:
            device.clock_ms = START_MS + 1_000_000

    def _act(self, device: LedgerDevice, which: int, act: str, place: int, text: str) -> None:
        if act in MEETINGS:
            getattr(device, act)()
        elif act == "remember":
            device.remember(text, id=self.ids[place])
        elif act in RULES:
            if self.with_rules and act == "upgrade":
                self.upgraded.add(which)
            elif which in self.upgraded:
                device.clean(steps=None if act == "clean all" else 1)
        else:
            with contextlib.suppress(MemlocketError):  # it was deleted, or is not known here
                change(device, act, self.ids[place], text)

    def shown(self, device: LedgerDevice) -> dict[int, Any]:
        rows = {row.id: row for row in device.vault.listed()}
        return {
            place: (
                clean_text(row.content),
                row.status,
                row.importance,
                row.updated_at_ms - START_MS,
            )
            for place, memory in enumerate(self.ids)
            if (row := rows.get(memory)) is not None
        }

    def in_conflict(self, device: LedgerDevice) -> set[int]:
        return {self.ids.index(MemoryId(memory)) for memory in device.in_conflict()}


def clean_text(text: str) -> str:
    return str(sanitize_row({"content": text}).row["content"])


def compare(seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as closing:
        told: list[Told] = []
        for with_rules in (False, True):
            world = LedgerWorld(Path(folder) / str(with_rules))
            closing.callback(world.close)
            for _ in range(DEVICES):
                world.device()
            told.append(Told(world, with_rules=with_rules))
            told[-1].tell(story(seed))
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
