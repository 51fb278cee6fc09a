"""From a float vector to int8 codes and sign bits, and back to cosines. Pure numpy. Contract:
recall.md 6.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from memory_manager.recall.errors import VectorRefused

Codes = npt.NDArray[np.int8]
Floats = npt.NDArray[np.float32]
SignBits = npt.NDArray[np.uint64]

_BITS = 64
_CHUNK_ROWS = 1024
_UNIT_TOLERANCE = 0.02


def quantise(vectors: npt.ArrayLike, dim: int) -> tuple[Floats, Codes]:
    """Scales ``(n,)`` and codes ``(n, dim)`` of unit vectors ``(n, dim)``; one scale per vector.

    Raises VectorRefused for a wrong shape and for zero, infinite or NaN vectors or a wrong length.
    """
    array = np.asarray(vectors, dtype=np.float32)
    if array.ndim != 2 or array.shape[1] != dim or not array.shape[0]:
        raise VectorRefused
    if not np.isfinite(array).all():
        raise VectorRefused
    lengths = np.linalg.norm(array, axis=1)
    if (np.abs(lengths - 1.0) > _UNIT_TOLERANCE).any():
        raise VectorRefused
    scales = (np.abs(array).max(axis=1) / 127.0).astype(np.float32)
    codes = np.rint(array / scales[:, None]).astype(np.int8)
    return scales, codes


def words_per_row(dim: int) -> int:
    return -(-dim // _BITS)


def sign_bits(codes: Codes, scales: Floats, centre: Floats) -> SignBits:
    """Bit = value > centre; shape ``(n, dim)`` becomes columns ``(words, n)`` of uint64.

    Vectors of one vault lean to one side (its writers, its dates); signs around their own centre
    tell them apart far better than signs around zero.
    """
    n, dim = codes.shape
    columns = np.empty((words_per_row(dim), n), np.uint64)
    for start in range(0, n, _CHUNK_ROWS):  # the float border of every value: not all at once
        part = slice(start, start + _CHUNK_ROWS)
        with np.errstate(divide="ignore", invalid="ignore"):
            columns[:, part] = _columns(codes[part] > centre / scales[part, None])
    return columns


def query_bits(query: Floats, centre: Floats) -> SignBits:
    """Sign bits of one float query, shape ``(words,)``."""
    return _columns((query > centre)[None, :])[:, 0]


def centre_of(codes: Codes, scales: Floats) -> Floats:
    """The mean vector of int8 rows."""
    return (codes.T.astype(np.float32) @ scales / max(len(scales), 1)).astype(np.float32)


def _columns(bits: npt.NDArray[np.bool_]) -> SignBits:
    n, dim = bits.shape
    packed = np.packbits(bits, axis=1, bitorder="little")
    wide = np.zeros((n, words_per_row(dim) * 8), dtype=np.uint8)
    wide[:, : packed.shape[1]] = packed
    return np.ascontiguousarray(wide.view("<u8").astype(np.uint64, copy=False).T)


def hamming(
    columns: Sequence[SignBits] | SignBits, query: SignBits, n: int
) -> npt.NDArray[np.uint16]:
    """Distances of the first ``n`` rows to the query bits."""
    distances = np.zeros(n, dtype=np.uint16)
    buffer = np.empty(n, dtype=np.uint64)
    counts = np.empty(n, dtype=np.uint8)
    for column, word in zip(columns, query, strict=True):
        np.bitwise_xor(column[:n], word, out=buffer)
        np.bitwise_count(buffer, out=counts)
        distances += counts
    return distances


def nearest_by_histogram(
    distances: npt.NDArray[np.uint16], hidden: int, wanted: int
) -> npt.NDArray[np.intp]:
    """Positions of at least ``wanted`` smallest distances below ``hidden``, in place order.

    A counting selection, O(n): every row of the last distance that is needed comes along.
    """
    counts = np.bincount(distances, minlength=hidden + 1)[:hidden]
    reached = np.cumsum(counts)
    if not reached.size or not reached[-1]:
        return np.empty(0, dtype=np.intp)
    limit = int(np.searchsorted(reached, min(wanted, int(reached[-1]))))
    return np.flatnonzero(distances <= limit)


def cosines(codes: Codes, scales: Floats, query: Floats) -> Floats:
    """Cosines of int8 rows to a unit query."""
    return (codes.astype(np.float32) @ query) * scales
