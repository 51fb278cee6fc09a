"""A tiny deterministic embedder: words hashed to fixed random directions. No model, same
protocol.

Texts that share words point the same way, which is all that tests of storage, filters and queues
need.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

import numpy as np

from memory_manager.recall.embedder import (
    Embedder,
    EmbedderState,
    EmbedderStatus,
    EmbedderUnavailable,
    TextKind,
    TextRefused,
    Vector,
)


class HashEmbedder:
    """``synonyms`` maps a word to the one it shall mean; ``refused`` are texts it dies on."""

    def __init__(
        self,
        key: str | None = "hash/0/none/64",
        dim: int = 64,
        synonyms: dict[str, str] | None = None,
        siblings: dict[str, HashEmbedder] | None = None,
    ) -> None:
        self.key = key
        self._dim = dim
        self.synonyms = synonyms or {}
        self.siblings = siblings or {}
        self.refused: set[str] = set()
        self.broken = False  # answers with NaN
        self.down = False
        self.embedded: list[str] = []
        self.queries: list[str] = []
        self.stops = 0

    @property
    def model_key(self) -> str | None:
        return self.key

    @property
    def dim(self) -> int | None:
        return self._dim if self.key else None

    @property
    def manifest_json(self) -> str | None:
        return "{}"

    def status(self) -> EmbedderStatus:
        state = EmbedderState.READY if self.key else EmbedderState.ABSENT
        return EmbedderStatus(state, self.key, "ort", None, None, None)

    async def refresh(self) -> str | None:
        return self.key

    def sibling(self, model_key: str) -> Embedder | None:
        return self.siblings.get(model_key)

    async def embed_query(
        self, text: str, timeout_seconds: float, *, kind: TextKind = TextKind.QUERY
    ) -> Vector:
        if self.down or not self.key:
            raise EmbedderUnavailable
        self.queries.append(text)
        return self.vector(text)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector | TextRefused]:
        if self.down or not self.key:
            raise EmbedderUnavailable
        answers: list[Vector | TextRefused] = []
        for text in texts:
            self.embedded.append(text)
            if any(part in text for part in self.refused):
                answers.append(TextRefused())
            else:
                answers.append(self.vector(text)[None, :])
        return answers

    async def stop(self) -> None:
        self.stops += 1

    def vector(self, text: str) -> Vector:
        if self.broken:
            return np.full(self._dim, np.nan, np.float32)
        total = np.zeros(self._dim, np.float64)
        for word in re.findall(r"\w+", text.lower()):
            total += self._direction(self.synonyms.get(word, word))
        if not total.any():
            total = self._direction("(empty)")
        return (total / np.linalg.norm(total)).astype(np.float32)

    def _direction(self, word: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        seed = hashlib.sha256(f"{self.key}:{word}".encode()).digest()[:8]
        return np.random.default_rng(int.from_bytes(seed, "big")).standard_normal(self._dim)
