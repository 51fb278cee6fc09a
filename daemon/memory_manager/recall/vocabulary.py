"""In how many indexed rows a term stands, cached between writes.

Contract: recall.md 7.3 step 2: refreshed per 1 000 writes. Reads the vocabulary table of the word
index.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from memory_manager.recall.porter import stem

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

REFRESH_AFTER_WRITES = 1000
_MAX_CACHED_TERMS = 20_000


class Vocabulary:
    """Thread-safe; holds terms of the vault, so ``forget`` empties it when the vault is locked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writes = 0
        self._frequency: dict[str, int] = {}
        self._rows: int | None = None

    def note_write(self) -> None:
        """One row was indexed or removed; after a thousand of them every count is read anew."""
        with self._lock:
            self._writes += 1
            if self._writes >= REFRESH_AFTER_WRITES or (self._rows or 0) < REFRESH_AFTER_WRITES:
                self._reset()

    def forget(self) -> None:
        with self._lock:
            self._reset()

    def _reset(self) -> None:
        self._writes = 0
        self._rows = None
        self._frequency = {}

    def rows(self, connection: Connection) -> int:
        """Indexed rows, as of at most a thousand writes ago."""
        with self._lock:
            known = self._rows
        if known is not None:
            return known
        count = indexed_rows(connection)
        with self._lock:
            self._rows = count
        return count

    def frequencies(self, connection: Connection, terms: Iterable[str]) -> dict[str, int]:
        """Stem -> number of rows that hold it in any column; 0 for a term nobody wrote."""
        wanted = {stem(term) for term in terms}
        with self._lock:
            known = {term: self._frequency[term] for term in wanted if term in self._frequency}
        for term in wanted - known.keys():
            row = connection.execute(
                "SELECT doc FROM memory_vocab WHERE term = ?", (term,)
            ).fetchone()
            known[term] = int(row[0]) if row else 0
        with self._lock:
            if len(self._frequency) > _MAX_CACHED_TERMS:
                self._frequency = {}
            self._frequency.update(known)
        return known


def indexed_rows(connection: Connection) -> int:
    """Rows of the word index now, from the averages record that FTS5 keeps under id 1."""
    found = connection.execute("SELECT block FROM memory_fts_data WHERE id = 1").fetchone()
    return _first_varint(bytes(found[0])) if found and found[0] else 0


def inverse_frequency(rows: float, holding: float) -> float:
    """The idf that FTS5's bm25 gives a term: log((N - n + 0.5) / (n + 0.5)), at least 1e-6.

    Both numbers are remembered for a while, so ``holding`` may already count newer rows.
    """
    if holding >= rows:
        return 1e-6
    return max(math.log((rows - holding + 0.5) / (holding + 0.5)), 1e-6)


def _first_varint(raw: bytes) -> int:
    value = 0
    for position, byte in enumerate(raw[:9]):
        if position == 8:
            return value << 8 | byte
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return value
