"""Random stories that three devices live through: acts, meetings, and newer rules of the sanitizer
that they come to at different times.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from typing import Any

from ledger_world import LedgerDevice, LedgerWorld
from made_up_token import token_of
from older_rules import older_rules
from small_vault import writer

from memory_manager.base.errors import MemlocketError
from memory_manager.base.identifiers import MemoryId, new_memory_id
from memory_manager.security.redact import sanitize_row
from memory_manager.sync.ledger import conflicts
from memory_manager.vault.rows import ForgetMode, MemoryRow, RowStatus

DEVICES = 3
RECORDS = 2
MEETINGS = ("sync", "sync", "pull") * 3  # a push by itself may pull as well, or not
RULES = ("upgrade", "clean some", "clean all") * 3
SKEWS_MS = (0, -3_600_000, 30_000)
START_MS = 1_800_000_000_000

Step = tuple[int, str, int, bool]


def story(seed: int, acts: Sequence[str]) -> list[Step]:
    """Who does what to which record, and whether with a secret."""
    source = random.Random(seed)
    steps: list[Step] = [(0, "remember", 0, True), (1, "remember", 1, False)]
    for _ in range(source.randint(10, 34)):
        act = source.choice((*acts, *MEETINGS, *RULES))
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
    elif act == "pin":
        device.update(memory, metadata={**row.metadata, "pinned": len(text) % 2 == 0})
    elif act == "add tag":
        device.update(memory, metadata={**row.metadata, "tags": [*tags_of(row), text[5:]]})
    elif act == "drop tag":
        device.update(memory, metadata={**row.metadata, "tags": tags_of(row)[1:]})
    elif act == "keep":
        keep_the_last(device, memory)


def tags_of(row: MemoryRow) -> list[Any]:
    found = row.metadata.get("tags")
    return list(found) if isinstance(found, list) else []


def keep_the_last(device: LedgerDevice, memory: MemoryId) -> None:
    record = device.conflict(memory)
    if record is not None:
        dot = record.siblings[-1].dot
        device.write(lambda tx: conflicts.keep(tx, device.memories, memory, dot, writer()))


class Told:
    """The story as it was on the devices; ``with_rules`` False: all keep the older program."""

    def __init__(
        self, world: LedgerWorld, *, with_rules: bool, tags: Sequence[str] | None = None
    ) -> None:
        self.world, self.with_rules = world, with_rules
        self.metadata: dict[str, Any] = {} if tags is None else {"tags": list(tags)}
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
            device.remember(text, id=self.ids[place], metadata=self.metadata)
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
