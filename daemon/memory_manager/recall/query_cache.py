"""Vectors of recent queries, in memory only and wiped on lock. Contract: recall.md 2."""

from __future__ import annotations

import collections
import unicodedata

from memory_manager.recall.embedder import TextKind, Vector

CAPACITY = 256
_Key = tuple[str, TextKind, str]


class QueryVectorCache:
    """Least recently used of 256; key = model key, kind and normalised query."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._vectors: collections.OrderedDict[_Key, Vector] = collections.OrderedDict()

    def get(self, model_key: str, kind: TextKind, text: str) -> Vector | None:
        key = (model_key, kind, normalised_query(text))
        vector = self._vectors.get(key)
        if vector is None:
            return None
        self._vectors.move_to_end(key)
        return vector.copy()

    def put(self, model_key: str, kind: TextKind, text: str, vector: Vector) -> None:
        """Keeps a copy of its own, so that wiping reaches it and touches nobody else's."""
        key = (model_key, kind, normalised_query(text))
        self._discard(self._vectors.pop(key, None))
        self._vectors[key] = vector.copy()
        while len(self._vectors) > self._capacity:
            self._discard(self._vectors.popitem(last=False)[1])

    def wipe(self) -> None:
        """Overwrite every vector with zeros, then forget it."""
        for vector in self._vectors.values():
            self._discard(vector)
        self._vectors.clear()

    def __len__(self) -> int:
        return len(self._vectors)

    @staticmethod
    def _discard(vector: Vector | None) -> None:
        if vector is not None:
            vector.fill(0.0)


def normalised_query(text: str) -> str:
    """NFKC, trimmed, white space collapsed: texts that the tokeniser cannot tell apart."""
    return " ".join(unicodedata.normalize("NFKC", text).split())
