"""What a batch of log rows must be, and what of it is new: pure rules that both storages share."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from memory_manager.sync.server.refusals import (
    BrokenBatch,
    DeviceCut,
    Fork,
    Gap,
    Quantity,
    QuotaExceeded,
)
from memory_manager.sync.server.storage import DeviceState, Quota
from memory_manager.sync.wire import labels
from memory_manager.sync.wire.envelope import WRAP_BYTES, body_hash, wrap_epoch
from memory_manager.sync.wire.framing import (
    PAGE_CHECKPOINT_BYTES,
    PAGE_FRAME_BYTES,
    PAGE_ROW_BYTES,
    LogRow,
    Signed,
)
from memory_manager.sync.wire.log import (
    Checkpoint,
    ServerHead,
    next_global_head,
    unpack_entry,
)

WRAP_OCTETS: Final = labels.HASH_BYTES + WRAP_BYTES


@dataclasses.dataclass(frozen=True, slots=True)
class BatchRow:
    """One row as it is stored; ``epoch`` is the one of its wrap, ``head`` its entry's."""

    seq: int
    entry: bytes
    head: bytes
    body_hash: bytes
    body: bytes
    wrap: bytes

    @property
    def epoch(self) -> int:
        return wrap_epoch(self.wrap)

    @property
    def octets(self) -> int:
        """What the row counts for in the quota."""
        return len(self.entry) + len(self.body) + WRAP_OCTETS


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """Contiguous, chained rows of one author, ending where its checkpoint says."""

    author: bytes
    previous: bytes
    rows: tuple[BatchRow, ...]
    checkpoint: Signed[Checkpoint]

    @property
    def first_seq(self) -> int:
        return self.rows[0].seq

    @property
    def last_seq(self) -> int:
        return self.rows[-1].seq


def prepare(vault: bytes, rows: Sequence[LogRow], checkpoint: Signed[Checkpoint]) -> Batch:
    """The batch, checked in itself; BrokenBatch. Hashes every body, so it belongs on a thread."""
    said = checkpoint.value
    if not rows or said.vault != vault:
        raise BrokenBatch
    prepared: list[BatchRow] = []
    seq, head = rows[0].entry.seq - 1, rows[0].entry.previous
    if seq < 0:
        raise BrokenBatch
    for row in rows:
        entry, body = row.entry, row.row.body
        own = entry.vault == vault and entry.device == said.device
        if not own or entry.seq != seq + 1 or entry.previous != head:
            raise BrokenBatch
        # a forgotten row comes back to a server that lost it as its entry alone
        if (body and body_hash(body) != entry.body_hash) or len(row.row.wrap) != WRAP_BYTES:
            raise BrokenBatch
        seq, head = entry.seq, entry.head
        prepared.append(BatchRow(seq, entry.pack(), head, entry.body_hash, body, row.row.wrap))
    if (said.seq, said.head) != (seq, head):
        raise BrokenBatch
    return Batch(said.device, rows[0].entry.previous, tuple(prepared), checkpoint)


def new_rows(batch: Batch, author: DeviceState, stored: Sequence[bytes]) -> tuple[BatchRow, ...]:
    """The rows of ``batch`` that the log does not have. ``stored`` are the author's entries from
    the batch's first position on, as far as the log and the batch both go.

    Fork, Gap, DeviceCut.
    """
    if batch.first_seq > author.seq + 1:
        raise Gap(author.seq, author.head)
    for row, entry in zip(batch.rows, stored, strict=False):
        if row.entry != entry:
            raise Fork(row.seq, unpack_entry(entry).head, row.head)
    if batch.first_seq == author.seq + 1 and batch.previous != author.head:
        raise Gap(author.seq, author.head)
    fresh = batch.rows[len(stored) :]
    if fresh and author.cut is not None and fresh[-1].seq > author.cut:
        raise DeviceCut
    return fresh


def check_quota(quota: Quota, *, rows: int = 0, octets: int = 0, devices: int = 0) -> None:
    """QuotaExceeded when one of the totals would be over its limit."""
    for what, total, limit in (
        (Quantity.ROWS, rows, quota.rows),
        (Quantity.BYTES, octets, quota.bytes),
        (Quantity.DEVICES, devices, quota.devices),
    ):
        if total > limit:
            raise QuotaExceeded(what, limit)


def positions(head: ServerHead, author: bytes, rows: Sequence[BatchRow]) -> list[ServerHead]:
    """``(n, G)`` after each of the rows on top of ``head``."""
    n, g = head.n, head.g
    found: list[ServerHead] = []
    for row in rows:
        n, g = n + 1, next_global_head(g, author, row.head)
        found.append(ServerHead(n, g))
    return found


class PageSize:
    """Counts the framed octets of a page; the first row fits always."""

    def __init__(self, max_bytes: int) -> None:
        self._left = max_bytes - PAGE_FRAME_BYTES
        self._empty = True

    def takes(self, body_bytes: int, has_checkpoint: bool) -> bool:
        """Whether one more row fits; it is counted if so."""
        size = PAGE_ROW_BYTES + body_bytes + (PAGE_CHECKPOINT_BYTES if has_checkpoint else 0)
        if size > self._left and not self._empty:
            return False
        self._left -= size
        self._empty = False
        return True
