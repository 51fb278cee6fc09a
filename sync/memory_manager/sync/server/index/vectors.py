"""Vectors of opted-in rows: of words, always; of meaning, where the server has an embedder.

A vault row that was opted in allows vector recall and no content index (redaction.md 11.3), so
there is no full-text table: the words of a row become one set of hashes, a vector of zeros and
ones. Without an embedder only rows that share words with the query are found, and the answer says
so.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final, Protocol

import numpy as np

from memory_manager.sync.server.index.storage import Matrix, Words

MIN_WORD_SCORE: Final = 0.2
"""The least share of a query's words, weighed by how rare they are, that makes a row a hit."""
MIN_MEANING_SCORE: Final = 0.3
"""The least cosine that does."""
MAX_FEATURES: Final = 20_000

_WORD: Final = re.compile(r"\w+")
_DENSE: Final = re.compile("[\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_BEGINNING: Final = 5
_BEGINNING_WEIGHT: Final = 0.4
_SHORT: Final = 3
_SHORT_WEIGHT: Final = 0.3
"""Short words join sentences more often than they name something."""


class Embedder(Protocol):
    """Unit vectors of whole texts, given by whoever composes the server.

    ``query`` and ``documents`` raise EmbedderFailed for whatever keeps them from answering.
    """

    @property
    def model(self) -> str | None:
        """Which model; vectors of two models are never compared. None: there is none now."""
        ...

    async def query(self, text: str) -> Matrix:
        """Shape ``(dim,)``."""
        ...

    async def documents(self, texts: Sequence[str]) -> list[Matrix | None]:
        """Per text an array of shape ``(pieces, dim)``; None for one that has no vector."""
        ...


class EmbedderFailed(Exception):
    """No vector now; the answer goes by words and says so."""


def word_set(text: str) -> Words:
    """The hashes of a text's words, sorted and distinct, as uint32."""
    hashes = {_hash(feature) for feature, _ in _features(text)}
    return np.array(sorted(hashes)[:MAX_FEATURES], np.uint32)


def word_scores(query: str, rows: Sequence[Words]) -> Matrix:
    """Per row the share of the query's words that it has, rare words counting more; 0 to 1."""
    weights: dict[int, float] = {}
    for feature, weight in _features(query):
        weights[_hash(feature)] = weight
    scores = np.zeros(len(rows), np.float32)
    if not weights or not rows:
        return scores
    wanted = np.array(sorted(weights), np.uint32)
    every = np.concatenate(rows)
    ends = np.cumsum([len(row) for row in rows])
    place = np.minimum(np.searchsorted(wanted, every), len(wanted) - 1)
    hits = np.flatnonzero(wanted[place] == every)
    present = np.zeros((len(rows), len(wanted)), np.float32)
    present[np.searchsorted(ends, hits, side="right"), place[hits]] = 1.0
    rarity = np.log1p(len(rows) / np.maximum(present.sum(axis=0), 1))
    worth = rarity * np.array([weights[int(feature)] for feature in wanted])
    shares: Matrix = (present @ (worth / worth.sum())).astype(np.float32)
    return shares


def meaning_scores(query: Matrix, rows: Sequence[Matrix]) -> Matrix:
    """Per row the cosine of its nearest piece; 0 where the vectors are of another length."""
    scores = np.zeros(len(rows), np.float32)
    numbers = [
        number
        for number, pieces in enumerate(rows)
        if pieces.shape[1] == query.shape[0] and len(pieces)
    ]
    if numbers:
        kept = [rows[number] for number in numbers]
        starts = np.cumsum([0, *(len(pieces) for pieces in kept[:-1])])
        best = np.maximum.reduceat(np.concatenate(kept) @ query, starts)
        scores[numbers] = np.maximum(best, 0.0)
    return scores


def meanings_of(query: Matrix, packed: Sequence[tuple[bytes, int, bytes]]) -> dict[bytes, float]:
    """``meaning_scores`` by record, of rows of ``(record, dimensions, pieces)``."""
    rows = [unpack_pieces(pieces, dimensions) for _, dimensions, pieces in packed]
    scores: list[float] = meaning_scores(query, rows).tolist()
    return {bytes(record): score for (record, *_), score in zip(packed, scores, strict=True)}


def pack_words(words: Words) -> bytes:
    return words.astype("<u4").tobytes()


def unpack_words(raw: bytes) -> Words:
    return np.frombuffer(raw, "<u4")


def pack_pieces(pieces: Matrix) -> bytes:
    """Row after row, float32, little-endian; the dimension is kept beside it."""
    return np.ascontiguousarray(pieces, "<f4").tobytes()


def unpack_pieces(raw: bytes, dimensions: int) -> Matrix:
    return np.frombuffer(raw, "<f4").reshape(-1, dimensions)


def _hash(feature: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(feature, digest_size=4).digest(), "big")


def _features(text: str) -> Iterator[tuple[bytes, float]]:
    for match in _WORD.finditer(unicodedata.normalize("NFKC", text).casefold()):
        word = match[0]
        if _DENSE.search(word):  # scripts without spaces: pairs of characters
            yield from ((word[i : i + 2].encode(), 1.0) for i in range(max(1, len(word) - 1)))
            continue
        yield word.encode(), _SHORT_WEIGHT if len(word) <= _SHORT and word.isascii() else 1.0
        if len(word) >= _BEGINNING:  # forms of one word share their beginning
            yield b"^" + word[:_BEGINNING].encode(), _BEGINNING_WEIGHT
