"""What a roster from the server means next to ours: nothing new, new entries, less, or a fork.

Contract: sync.md 5, 7.1. Pure. Who may change what is decided by ``wire.roster``; here only
whether the owner is asked first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container
from typing import Any, Final

from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.wire import canonical
from memory_manager.sync.wire.roster import Operation, SignedEntry

WORDS: Final = "words"
"""Stands for a device of recovery words where an author is told."""
HARMLESS: Final = frozenset({Operation.LEAVE, Operation.ROTATE})
"""They add nobody and take nothing from anybody but their author."""


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One entry that another device made: its author, position and what it did to whom."""

    by: bytes
    idx: int
    op: Operation
    target: bytes | None

    @property
    def is_harmless(self) -> bool:
        return self.op in HARMLESS

    def said(self, recovery: Container[bytes]) -> str:
        """One line of hex ids: ``add TARGET by AUTHOR``, ``by words`` for one of ``recovery``."""
        by = WORDS if self.by in recovery else self.by.hex()
        target = "" if self.target is None else f" {self.target.hex()}"
        return f"{self.op.value}{target} by {by}"


def changes(entries: tuple[SignedEntry, ...], us: bytes) -> tuple[Change, ...]:
    """Those of a verified piece of the chain that are not ours."""
    found = (_change(canonical.decode(entry.document)) for entry in entries)
    return tuple(change for change in found if change.by != us)


def newer_entries(
    ours: tuple[SignedEntry, ...], theirs: tuple[SignedEntry, ...]
) -> tuple[SignedEntry, ...]:
    """What the server's whole chain adds to our whole chain.

    SyncRefused: ROLLBACK where it is a beginning of ours, ROSTER_FORK where it differs.
    """
    shared = min(len(ours), len(theirs))
    for position in range(shared):
        if ours[position].hash != theirs[position].hash:
            raise SyncRefused(SyncCode.ROSTER_FORK, n=position)
    if len(theirs) < len(ours):
        raise SyncRefused(SyncCode.ROLLBACK, n=len(theirs) - 1)
    return theirs[shared:]


def _change(document: dict[str, Any]) -> Change:
    target: Any = document.get("target")
    if target is None:
        added = document.get("device") or document.get("new_device")
        target = added["id"] if isinstance(added, dict) else None
    return Change(
        bytes.fromhex(document["by"]),
        document["idx"],
        Operation(document["op"]),
        None if target is None else bytes.fromhex(target),
    )
