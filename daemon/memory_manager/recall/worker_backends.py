"""The two ways the worker turns texts into vectors. Runs only inside the worker process.

Contract: recall.md 2 and 3. Prefixes, cutting, pooling, centring and normalisation happen here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from memory_manager.recall.embedder import TextKind, Vector
from memory_manager.recall.models.installed import PreparedModel
from memory_manager.recall.models.manifest import Backend, Manifest

Progress = Iterator[None]


class WorkerBackend(Protocol):
    """A loaded model. Methods may be called from two threads at once."""

    @property
    def name(self) -> str: ...

    @property
    def model_key(self) -> str: ...

    @property
    def dim(self) -> int: ...

    def plan(self, texts: Sequence[str], kind: TextKind) -> EmbeddingPlan:
        """Tokenise and cut; the vectors come by running the plan step by step."""
        ...


class EmbeddingPlan(Protocol):
    """One request, run in steps of bounded cost so that a query can go between two of them."""

    def steps(self) -> Iterator[None]:
        """Each step embeds a few pieces."""
        ...

    def result(self) -> list[Vector]:
        """After all steps: per text an array ``(pieces, dim)``; zero rows = not embeddable."""
        ...


def finish_vectors(raw: Vector, mean: Vector | None) -> Vector:
    """``normalise(normalise(v) - mean)`` row by row; a row that is no vector becomes NaN."""
    unit = normalise(raw)
    return unit if mean is None else normalise(unit - mean)


def normalise(rows: Vector) -> Vector:
    """Unit length per row in float32; NaN where the length is zero or not finite."""
    lengths = np.linalg.norm(rows.astype(np.float32), axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = rows / lengths
    unit[~np.isfinite(lengths[:, 0]) | (lengths[:, 0] <= 1e-12)] = np.nan
    return np.asarray(unit, dtype=np.float32)


def usable_rows(rows: Vector) -> Vector:
    """Drop rows that are not finite."""
    return rows[np.isfinite(rows).all(axis=1)]


def read_mean(model: PreparedModel) -> Vector | None:
    """The centring vector, shape ``(dim,)``, or None for a model that is not centred."""
    centring = model.manifest.centring
    if centring is None:
        return None
    mean = np.fromfile(model.folder / centring.file, dtype="<f4")
    if mean.shape != (model.manifest.dim,) or not np.isfinite(mean).all():
        raise ValueError("mean vector")
    return np.asarray(mean, dtype=np.float32)


def prompt_of(manifest: Manifest, kind: TextKind) -> str:
    return manifest.query_prompt if kind is TextKind.QUERY else manifest.document_prompt


def load_backend(model: PreparedModel) -> WorkerBackend:
    """Load the files of a verified model; ImportError when its runtime is missing."""
    if model.manifest.backend is Backend.ORT:
        from memory_manager.recall.worker_ort import OrtBackend

        return OrtBackend(model)
    from memory_manager.recall.worker_st import StBackend

    return StBackend(model)
