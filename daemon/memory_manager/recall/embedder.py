"""What the daemon knows of an embedder: a capability behind a protocol, never a model library.

Contract: recall.md 2. Vectors are float32, unit length, already centred, shape ``(n, dim)``.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]


class EmbedderState(enum.StrEnum):
    ABSENT = "absent"
    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"


@dataclasses.dataclass(frozen=True, slots=True)
class EmbedderStatus:
    """For ``status`` and ``/health``: no text, only states, codes and sizes."""

    state: EmbedderState
    model_key: str | None
    backend: str | None  # "ort" or "st"
    worker_rss_bytes: int | None
    last_error: str | None  # a stable code
    remedy: str | None  # a fixed sentence with the command that mends it


class TextRefused(Exception):
    """The worker cannot embed this very text (it died on it twice, or it is invalid)."""


class EmbedderUnavailable(Exception):
    """No model, no runtime, or the worker is down: answer by words and say so."""


class Embedder(Protocol):
    """Lazily started, killable at any time; every call may raise EmbedderUnavailable."""

    @property
    def model_key(self) -> str | None: ...

    @property
    def dim(self) -> int | None: ...

    @property
    def manifest_json(self) -> str | None: ...

    def status(self) -> EmbedderStatus: ...

    async def embed_query(self, text: str, timeout_seconds: float) -> Vector:
        """One query vector, shape ``(dim,)``; raises EmbedderUnavailable when the deadline passes."""
        ...

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector | TextRefused]:
        """At most 32 texts on the batch lane; one vector of shape ``(dim,)`` or a refusal per text."""
        ...

    async def stop(self) -> None:
        """Kill the worker now (lock, idle, shutdown); nothing is lost."""
        ...
