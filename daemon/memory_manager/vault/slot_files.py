"""``vault.slots`` and ``vault.slots.prev``: safe rewriting and the rule which one counts.

Contract: vault.md 4.1. The file counts whose salt equals the first 16 bytes of ``vault.db``.
"""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path

from memory_manager.base.private_files import read_private, write_private
from memory_manager.vault import slots
from memory_manager.vault.connection import is_write_failure
from memory_manager.vault.errors import PlaintextDatabase, ReadOnly, SlotDamaged, WrongFile
from memory_manager.vault.paths import PLAINTEXT_MAGIC, VaultPaths, read_head
from memory_manager.vault.slots import SlotFile


@dataclasses.dataclass(frozen=True, slots=True)
class Selected:
    """The slot file that belongs to the database, and whether it is the previous one."""

    slot_file: SlotFile
    from_previous: bool


def read_slot_file(path: Path) -> SlotFile | None:
    """One slot file, None when it is absent; SlotDamaged or UnsafeFile otherwise."""
    try:
        return slots.parse(read_private(path, slots.MAX_SLOT_FILE_BYTES))
    except FileNotFoundError:
        return None


def select(paths: VaultPaths) -> Selected:
    """The slot file of this database by its salt.

    A damaged current file does not hide a good previous one. PlaintextDatabase, WrongFile or
    SlotDamaged when neither fits.
    """
    head = read_head(paths.database)
    if head == PLAINTEXT_MAGIC:
        raise PlaintextDatabase
    damaged: SlotDamaged | None = None
    for path in (paths.slots, paths.slots_previous):
        try:
            candidate = read_slot_file(path)
        except SlotDamaged as error:
            damaged = damaged or error
            continue
        if candidate is not None and candidate.salt == head:
            return Selected(candidate, from_previous=path == paths.slots_previous)
    if damaged is not None:
        raise damaged
    raise WrongFile


def rewrite(paths: VaultPaths, new: SlotFile) -> None:
    """Put ``new`` in place and keep the old file as ``.prev``, durable at each step.

    ReadOnly when the disk refuses; the old file counts then.
    """
    try:
        with contextlib.suppress(FileNotFoundError):
            current = read_private(paths.slots, slots.MAX_SLOT_FILE_BYTES)
            write_private(paths.slots_previous, current)
        write_private(paths.slots, slots.encode(new))
    except OSError as error:
        if is_write_failure(error):
            raise ReadOnly("The key slots could not be written; the old ones count.") from None
        raise
