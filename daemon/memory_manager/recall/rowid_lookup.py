"""Where a row's slots are, without a dictionary entry per row. Pure numpy, not thread-safe by
itself.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_REBUILD_AFTER = 8_192

Rowids = npt.NDArray[np.int64]


class RowidLookup:
    """A sorted copy of the rowids up to a border; what came later is scanned.

    ``columns`` are the rowid columns of the blocks with the number of slots in use. A slot that
    died since the copy was made holds rowid 0 and is not found.
    """

    def __init__(self, block_slots: int) -> None:
        self._block_slots = block_slots
        self._ordered: Rowids = np.empty(0, np.int64)
        self._slots: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def find(self, columns: list[tuple[Rowids, int]], wanted: Rowids) -> npt.NDArray[np.int64]:
        """Global slot numbers (block * block_slots + slot) that hold one of ``wanted``."""
        total = sum(n for _, n in columns)
        if total - len(self._slots) > _REBUILD_AFTER:
            self._build(columns)
        left = np.searchsorted(self._ordered, wanted, "left")
        right = np.searchsorted(self._ordered, wanted, "right")
        runs = [self._slots[a:b] for a, b in zip(left, right, strict=True) if b > a]
        runs.append(self._scan(columns, wanted))
        found = np.unique(np.concatenate(runs))
        return found[np.isin(self._values(columns, found), wanted)]

    def clear(self) -> None:
        self._ordered.fill(0)
        self._ordered, self._slots = np.empty(0, np.int64), np.empty(0, np.int64)

    def _build(self, columns: list[tuple[Rowids, int]]) -> None:
        every = np.concatenate([column[:n] for column, n in columns])
        self._slots = np.argsort(every, kind="stable")
        self._ordered = every[self._slots]

    def _scan(self, columns: list[tuple[Rowids, int]], wanted: Rowids) -> npt.NDArray[np.int64]:
        covered = len(self._slots)
        parts = [np.empty(0, np.int64)]
        for number, (column, n) in enumerate(columns):
            base = number * self._block_slots
            start = min(max(covered - base, 0), n)
            if start < n:
                parts.append(np.flatnonzero(np.isin(column[start:n], wanted)) + start + base)
        return np.concatenate(parts)

    def _values(self, columns: list[tuple[Rowids, int]], slots: npt.NDArray[np.int64]) -> Rowids:
        values = np.empty(len(slots), np.int64)
        block = slots // self._block_slots
        for number in np.unique(block):
            here = block == number
            values[here] = columns[number][0][slots[here] - number * self._block_slots]
        return values
