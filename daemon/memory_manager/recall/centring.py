"""Centring: what all vectors of a model share is taken away, and much of what a language shares.

Contract: recall.md 5. ``v' = normalise(w - s * P w)``, ``w = normalise(v) - mean``; P projects on
the span of the language means of the neutral texts, s is LANGUAGE_SHARE_REMOVED. Without P a text
prefers its own language to its own subject: an English question met English noise before a Chinese
answer. Queries and documents are moved alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from memory_manager.recall.embedder import Vector

# Vectors alone, e5 int8, share removed 0, .5, .6, .8: an English question finds its memory in es,
# pt, mr or zh on our own probe (hit@1) .55, .80, .81, .84; LoCoMo development set hit@5 .586, .575,
# .574, .567.
LANGUAGE_SHARE_REMOVED = 0.6
_MAX_ROWS = 64


class Centring:
    """Mean, shape ``(dim,)``, and orthonormal language directions, shape ``(k, dim)``."""

    def __init__(self, mean: Vector, directions: Vector) -> None:
        self._mean = mean
        self._directions = directions

    def apply(self, unit: Vector) -> Vector:
        """Rows of unit length to centred rows of unit length."""
        moved = unit - self._mean
        shared = (moved @ self._directions.T) @ self._directions
        return normalise(np.asarray(moved - LANGUAGE_SHARE_REMOVED * shared, dtype=np.float32))

    def as_bytes(self) -> bytes:
        rows = np.concatenate([self._mean[None], self._directions])
        return np.ascontiguousarray(rows, dtype="<f4").tobytes()

    @property
    def mean_length(self) -> float:
        """How much all vectors share, from 0 to 1."""
        return float(np.linalg.norm(self._mean))


def measure_centring(groups: Sequence[Vector]) -> Centring:
    """From the unit vectors of the neutral texts, one array ``(n, dim)`` per language."""
    means = np.stack([group.mean(axis=0, dtype=np.float64) for group in groups])
    mean = means.mean(axis=0)
    _, values, directions = np.linalg.svd(means - mean, full_matrices=False)
    kept = directions[values > values[0] * 1e-3]  # the means minus their mean: rank one less
    return Centring(np.asarray(mean, np.float32), np.asarray(kept, np.float32))


def read_centring(path: Path, dim: int) -> Centring:
    """The file that ``as_bytes`` wrote; ValueError for anything else."""
    rows = np.asarray(np.fromfile(path, dtype="<f4"), dtype=np.float32)
    if len(rows) == 0 or len(rows) % dim or len(rows) > _MAX_ROWS * dim:
        raise ValueError("centring file")
    if not np.isfinite(rows).all():
        raise ValueError("centring file")
    matrix = rows.reshape(-1, dim)
    return Centring(matrix[0], matrix[1:])


def normalise(rows: Vector) -> Vector:
    """Unit length per row in float32; NaN where the length is zero or not finite."""
    lengths = np.linalg.norm(rows.astype(np.float32), axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = np.asarray(rows / lengths, dtype=np.float32)
    unit[~np.isfinite(lengths[:, 0]) | (lengths[:, 0] <= 1e-12)] = np.nan
    return unit


def finish_vectors(raw: Vector, centring: Centring | None) -> Vector:
    """Pooled rows to finished ones; a row that is no vector becomes NaN."""
    unit = normalise(raw)
    return unit if centring is None else centring.apply(unit)
