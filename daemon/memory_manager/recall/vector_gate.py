"""Which vectors a caller may get, decided before selection and without asking the database.

Per slot: one number that names a combination of bucket, scope, agent, type and path, and three
times. A filter is decided once per combination, then per slot by one table look-up. It must agree
with ``RowFilter.condition``; a test compares both. Contract: recall.md 6.2.
"""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import numpy.typing as npt

from memory_manager.vault.filters import RowFilter, TimeAxis
from memory_manager.vault.rows import MemoryRow

NEVER_MS = np.iinfo(np.int64).max
_CACHED_FILTERS = 32

Mask = npt.NDArray[np.bool_]


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """What a filter compares besides times."""

    bucket: str
    scope: str | None
    agent_id: str | None
    memory_type: str
    path: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class GateFacts:
    """The gate's view of one row; ``place`` is a number of the index's PlaceBook."""

    place: int
    created_at_ms: int
    updated_at_ms: int
    expires_at_ms: int


class PlaceBook:
    """Numbers the places and remembers which of them a filter admits. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._number: dict[Place, int] = {}
        self._places: list[Place] = []
        self._admitted: dict[RowFilter, Mask] = {}

    def number(self, place: Place) -> int:
        with self._lock:
            found = self._number.get(place)
            if found is None:
                found = self._number[place] = len(self._places)
                self._places.append(place)
            return found

    def admitted(self, row_filter: RowFilter) -> Mask | None:
        """By place number whether the filter admits it; None when it admits every place."""
        key = dataclasses.replace(
            row_filter, since_ms=None, until_ms=None, time_axis=TimeAxis.CREATED_AT
        )
        if key == RowFilter():
            return None
        with self._lock:
            known = self._admitted.pop(key, None)
            count = 0 if known is None else len(known)
            if known is None or count < len(self._places):
                fresh = np.fromiter(
                    (_admits(key, place) for place in self._places[count:]), dtype=np.bool_
                )
                known = fresh if known is None else np.concatenate([known, fresh])
            self._admitted[key] = known
            while len(self._admitted) > _CACHED_FILTERS:
                self._admitted.pop(next(iter(self._admitted)))
            return known

    def forget(self) -> None:
        with self._lock:
            self._number.clear()
            self._places.clear()
            self._admitted.clear()


def _admits(row_filter: RowFilter, place: Place) -> bool:
    for wanted, value in (
        (row_filter.bucket, place.bucket),
        (row_filter.scope, place.scope),
        (row_filter.agent_id, place.agent_id),
        (row_filter.memory_type, place.memory_type),
    ):
        if wanted is not None and wanted != value:
            return False
    path = row_filter.path
    if path is None:
        return True
    if path.prefix_only:
        return place.path.startswith(path.text)
    return place.path == path.text or place.path.startswith(path.text + "/")


def facts_of_row(row: MemoryRow, book: PlaceBook) -> GateFacts:
    place = Place(
        row.bucket, row.scope, row.writer.identity.agent_id, row.memory_type.value, row.path
    )
    expires = NEVER_MS if row.expires_at_ms is None else row.expires_at_ms
    return GateFacts(book.number(place), row.created_at_ms, row.updated_at_ms, expires)


@dataclasses.dataclass(slots=True)
class GateColumns:
    """Columns of a block of slots, all of one length."""

    place: npt.NDArray[np.uint32]
    created: npt.NDArray[np.int64]
    updated: npt.NDArray[np.int64]
    expires: npt.NDArray[np.int64]
    alive: Mask

    @classmethod
    def empty(cls, size: int) -> GateColumns:
        return cls(
            np.zeros(size, np.uint32),
            np.zeros(size, np.int64),
            np.zeros(size, np.int64),
            np.zeros(size, np.int64),
            np.zeros(size, np.bool_),
        )

    def put(self, slot: int, facts: GateFacts) -> None:
        self.place[slot] = facts.place
        self.created[slot] = facts.created_at_ms
        self.updated[slot] = facts.updated_at_ms
        self.expires[slot] = facts.expires_at_ms

    def mask(self, n: int, row_filter: RowFilter, admitted: Mask | None, now_ms: int) -> Mask:
        """Which of the first ``n`` slots may be seen."""
        mask = self.alive[:n] & (self.expires[:n] > now_ms)
        if admitted is not None:
            place = self.place[:n]
            # A slot may name a place that was numbered after the table was made: not admitted yet.
            known = place < len(admitted)
            mask &= known
            if len(admitted):
                mask &= admitted[np.where(known, place, 0)]
        axis = self.created if row_filter.time_axis is TimeAxis.CREATED_AT else self.updated
        if row_filter.since_ms is not None:
            mask &= axis[:n] >= row_filter.since_ms
        if row_filter.until_ms is not None:
            mask &= axis[:n] < row_filter.until_ms
        return mask

    def wipe(self) -> None:
        for column in (self.place, self.created, self.updated, self.expires, self.alive):
            column.fill(0)
