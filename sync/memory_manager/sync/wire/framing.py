"""Push and pull bodies, byte by byte; checked against their length before anything is allocated.

Contract: sync.md 9.3. A BODY of length 0 stands for one that was compacted away.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import Final, Generic, TypeVar

from memory_manager.sync.errors import MalformedMessage
from memory_manager.sync.wire.envelope import MAX_PADDED_BYTES, WRAP_BYTES, SealedRow
from memory_manager.sync.wire.labels import SIGNATURE_BYTES
from memory_manager.sync.wire.log import (
    CHECKPOINT_BYTES,
    ENTRY_BYTES,
    STATEMENT_BYTES,
    Checkpoint,
    Entry,
    ServerHead,
    unpack_checkpoint,
    unpack_entry,
    unpack_server_head,
)

T = TypeVar("T")

MAX_PUSH_ROWS: Final = 256
MAX_PUSH_BYTES: Final = 1 << 20
MAX_PULL_BYTES: Final = 8 << 20

_PUSH_MAGIC: Final = b"MLKP\x01\x00\x00\x00"
_PULL_MAGIC: Final = b"MLKQ\x01\x00\x00\x00"
_U32: Final = struct.Struct(">I")
_U64: Final = struct.Struct(">Q")
_MAX_BODY_BYTES: Final = MAX_PADDED_BYTES + 172

ROW_FRAME_BYTES: Final = ENTRY_BYTES + _U32.size + WRAP_BYTES
"""A row in a push, without its BODY."""
PUSH_FRAME_BYTES: Final = (
    len(_PUSH_MAGIC) + _U64.size + CHECKPOINT_BYTES + SIGNATURE_BYTES + _U32.size
)
"""A push without its rows; it ends with their count."""
PAGE_ROW_BYTES: Final = _U64.size + ROW_FRAME_BYTES
PAGE_CHECKPOINT_BYTES: Final = CHECKPOINT_BYTES + SIGNATURE_BYTES
PAGE_FRAME_BYTES: Final = len(_PULL_MAGIC) + 2 * _U32.size + 2 * (STATEMENT_BYTES + SIGNATURE_BYTES)
"""A page without rows and checkpoints."""
COUNT_BYTES: Final = _U32.size


@dataclasses.dataclass(frozen=True, slots=True)
class LogRow:
    """One row as it travels; ``n`` is the server's position, 0 in a push."""

    entry: Entry
    row: SealedRow
    n: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Signed(Generic[T]):
    value: T
    signature: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Push:
    session_epoch: int
    checkpoint: Signed[Checkpoint]
    rows: tuple[LogRow, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Page:
    """One pulled page: rows, checkpoints of other devices, and two statements of the server."""

    rows: tuple[LogRow, ...]
    checkpoints: tuple[Signed[Checkpoint], ...]
    page_head: Signed[ServerHead]
    tip: Signed[ServerHead]


def pack_push(push: Push) -> bytes:
    return b"".join(
        (
            _PUSH_MAGIC,
            _U64.pack(push.session_epoch),
            push.checkpoint.value.pack(),
            push.checkpoint.signature,
            _U32.pack(len(push.rows)),
            *(_pack_row(row) for row in push.rows),
        )
    )


def unpack_push(data: bytes) -> Push:
    """The push in ``data``; MalformedMessage for anything that is not exactly one."""
    reader = _Reader(data, _PUSH_MAGIC, MAX_PUSH_BYTES)
    epoch = reader.u64()
    checkpoint = Signed(
        unpack_checkpoint(reader.take(CHECKPOINT_BYTES)), reader.take(SIGNATURE_BYTES)
    )
    rows = tuple(_row(reader, 0) for _ in range(reader.count(ROW_FRAME_BYTES, MAX_PUSH_ROWS)))
    reader.end()
    return Push(epoch, checkpoint, rows)


def pack_page(page: Page) -> bytes:
    return b"".join(
        (
            _PULL_MAGIC,
            _U32.pack(len(page.rows)),
            *(_U64.pack(row.n) + _pack_row(row) for row in page.rows),
            _U32.pack(len(page.checkpoints)),
            *(signed.value.pack() + signed.signature for signed in page.checkpoints),
            page.page_head.value.pack() + page.page_head.signature,
            page.tip.value.pack() + page.tip.signature,
        )
    )


def unpack_page(data: bytes) -> Page:
    """The page in ``data``; MalformedMessage for anything that is not exactly one."""
    reader = _Reader(data, _PULL_MAGIC, MAX_PULL_BYTES)
    rows = tuple(_row(reader, reader.u64()) for _ in range(reader.count(PAGE_ROW_BYTES)))
    checkpoints = tuple(
        Signed(unpack_checkpoint(reader.take(CHECKPOINT_BYTES)), reader.take(SIGNATURE_BYTES))
        for _ in range(reader.count(PAGE_CHECKPOINT_BYTES))
    )
    page_head, tip = (
        Signed(unpack_server_head(reader.take(STATEMENT_BYTES)), reader.take(SIGNATURE_BYTES))
        for _ in range(2)
    )
    reader.end()
    return Page(rows, checkpoints, page_head, tip)


def _pack_row(row: LogRow) -> bytes:
    return row.entry.pack() + _U32.pack(len(row.row.body)) + row.row.body + row.row.wrap


def _row(reader: _Reader, n: int) -> LogRow:
    entry = unpack_entry(reader.take(ENTRY_BYTES))
    length = reader.u32()
    if length > _MAX_BODY_BYTES:
        raise MalformedMessage
    return LogRow(entry, SealedRow(reader.take(length), reader.take(WRAP_BYTES)), n)


class _Reader:
    """A cursor that never reads past the end and never believes a count without its bytes."""

    def __init__(self, data: bytes, magic: bytes, max_bytes: int) -> None:
        if len(data) > max_bytes or not data.startswith(magic):
            raise MalformedMessage
        self._data = data
        self._at = len(magic)

    def take(self, size: int) -> bytes:
        end = self._at + size
        if end > len(self._data):
            raise MalformedMessage
        part = self._data[self._at : end]
        self._at = end
        return part

    def u32(self) -> int:
        return int(_U32.unpack(self.take(_U32.size))[0])

    def u64(self) -> int:
        return int(_U64.unpack(self.take(_U64.size))[0])

    def count(self, item_bytes: int, limit: int | None = None) -> int:
        """A count of items that have at least ``item_bytes`` each and still fit."""
        count = self.u32()
        if count * item_bytes > len(self._data) - self._at:
            raise MalformedMessage
        if limit is not None and count > limit:
            raise MalformedMessage
        return count

    def end(self) -> None:
        if self._at != len(self._data):
            raise MalformedMessage
