"""What the daemon knows of an embedder: a capability behind a protocol, never a model library.

Contract: recall.md 2 and 3.5. Vectors are float32, unit length, already centred. Prefixes, cutting
into pieces, truncation, pooling, centring and normalisation all happen in the worker.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float32]

MAX_BATCH_TEXTS = 32
"""Texts in one ``embed_documents`` call."""
MAX_PIECES = 64
"""Pieces of one long text that get a vector; what lies behind them is found by words only."""


class EmbedderState(enum.StrEnum):
    ABSENT = "absent"
    STOPPED = "stopped"
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    FAILED = "failed"


class TextKind(enum.StrEnum):
    """Which prefix of the model a text gets."""

    QUERY = "query"
    DOCUMENT = "document"


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
    """Lazily started, killable at any time; every call may raise EmbedderUnavailable.

    All methods belong to the daemon's event loop. The properties are cheap and start no worker.
    """

    @property
    def model_key(self) -> str | None:
        """Key of the model that is used now, from its manifest; None when there is none."""
        ...

    @property
    def dim(self) -> int | None: ...

    @property
    def manifest_json(self) -> str | None: ...

    def status(self) -> EmbedderStatus: ...

    async def refresh(self, *, retry: bool = False) -> str | None:
        """Look again for a prepared model (after an install, a change of settings, a repair).

        Returns the model key, which may differ from the one before: vectors of the two never mix.
        Cheap when nothing changed; the caller may poll it every few seconds. ``retry`` (a command
        of the user) also ends the ``failed`` state, which otherwise lasts ten minutes.
        """
        ...

    def sibling(self, model_key: str) -> Embedder | None:
        """An embedder for another prepared model still on disk, with a worker of its own.

        For queries by the old model while a new one is built (recall.md 3.4). None when its
        files are gone. The caller stops it.
        """
        ...

    async def embed_query(
        self, text: str, timeout_seconds: float, *, kind: TextKind = TextKind.QUERY
    ) -> Vector:
        """One vector of shape ``(dim,)``, ahead of every batch.

        EmbedderUnavailable at the deadline; a vector that comes too late is kept for the next equal
        query. ``kind`` is DOCUMENT for a hypothetical answer.
        """
        ...

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector | TextRefused]:
        """At most MAX_BATCH_TEXTS whole texts of any length on the batch lane.

        Per text, in order: an array of shape ``(pieces, dim)``, 1 <= pieces <= MAX_PIECES (a text
        of up to 400 tokens has one piece), or a refusal. A text with MAX_PIECES pieces may have
        been longer. Survives crashes of the worker: waits for the restart and goes on.
        """
        ...

    async def stop(self) -> None:
        """Kill the worker now and wipe cached query vectors (lock, shutdown); nothing is lost.

        The embedder can be used again afterwards: the next call starts a new worker.
        """
        ...
