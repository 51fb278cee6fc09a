"""The two ways the worker turns texts into vectors. Runs only inside the worker process.

Contract: recall.md 2 and 3. Prefixes, cutting, pooling, centring and normalisation happen here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from memory_manager.recall.centring import Centring, read_centring
from memory_manager.recall.embedder import TextKind, Vector
from memory_manager.recall.models.installed import PreparedModel
from memory_manager.recall.models.manifest import Backend, Manifest


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


def usable_rows(rows: Vector) -> Vector:
    """Drop rows that are not finite."""
    return rows[np.isfinite(rows).all(axis=1)]


def centring_of(model: PreparedModel) -> Centring | None:
    """None for a model that is not centred."""
    manifest = model.manifest
    if manifest.centring is None:
        return None
    return read_centring(model.folder / manifest.centring.file, manifest.dim)


def prompt_of(manifest: Manifest, kind: TextKind) -> str:
    return manifest.query_prompt if kind is TextKind.QUERY else manifest.document_prompt


def load_backend(model: PreparedModel) -> WorkerBackend:
    """Load the files of a verified model; ImportError when its runtime is missing."""
    if model.manifest.backend is Backend.ORT:
        from memory_manager.recall.worker_ort import OrtBackend

        return OrtBackend(model)
    from memory_manager.recall.worker_st import StBackend

    return StBackend(model)
