"""Which vectors a caller may get, decided before selection and without asking the database.

Per slot: a number that names a combination of bucket, scope, agent, type and kind, another for the
path (there are far more of them), and three times. A filter is decided once per combination and
path, then per slot by table look-ups. It must agree with ``RowFilter.condition``; a test compares
both. Contract: recall.md 6.2.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from memory_manager.base.path_filter import PathFilter
from memory_manager.vault.filters import RowFilter, TimeAxis
from memory_manager.vault.rows import MemoryRow

NEVER_MS = np.iinfo(np.int64).max
_CACHED_FILTERS = 32

Mask = npt.NDArray[np.bool_]
Key = TypeVar("Key")
Asked = TypeVar("Asked")


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """What a filter compares besides path and times."""

    bucket: str
    scope: str | None
    agent_id: str | None
    memory_type: str
    kind: str = "memory"


@dataclasses.dataclass(frozen=True, slots=True)
class GateFacts:
    """The gate's view of one row; ``place`` and ``path`` are numbers of the index's PlaceBook."""

    place: int
    path: int
    created_at_ms: int
    updated_at_ms: int
    expires_at_ms: int


class _Numbering(Generic[Key, Asked]):
    """Numbers keys and remembers which of them a filter admits. Not thread-safe by itself."""

    def __init__(self, admits: Callable[[Asked, Key], bool]) -> None:
        self._admits = admits
        self._number: dict[Key, int] = {}
        self._keys: list[Key] = []
        self._masks: dict[Asked, Mask] = {}

    def number(self, key: Key) -> int:
        found = self._number.get(key)
        if found is None:
            found = self._number[key] = len(self._keys)
            self._keys.append(key)
        return found

    def mask(self, asked: Asked) -> Mask:
        """By number whether a key is admitted; a key numbered since the last time is decided now.

        What was returned before is never changed.
        """
        known = self._masks.pop(asked, np.empty(0, np.bool_))
        if len(known) < len(self._keys):
            fresh = [self._admits(asked, key) for key in self._keys[len(known) :]]
            known = np.concatenate([known, np.array(fresh, np.bool_)])
        self._masks[asked] = known
        while len(self._masks) > _CACHED_FILTERS:
            self._masks.pop(next(iter(self._masks)))
        return known

    def forget(self) -> None:
        self._number.clear()
        self._keys.clear()
        self._masks.clear()


@dataclasses.dataclass(frozen=True, slots=True)
class Admitted:
    """By number of place and of path whether a filter admits it; None when it does not ask."""

    places: Mask | None = None
    paths: Mask | None = None


class PlaceBook:
    """Places and paths of an open vault, by number. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: _Numbering[Place, RowFilter] = _Numbering(_admits)
        self._paths: _Numbering[str, PathFilter] = _Numbering(PathFilter.admits)

    def number(self, place: Place) -> int:
        with self._lock:
            return self._places.number(place)

    def number_of_path(self, path: str) -> int:
        with self._lock:
            return self._paths.number(path)

    def numbers_of_paths(self, paths: Iterable[str]) -> list[int]:
        with self._lock:
            return [self._paths.number(path) for path in paths]

    def admitted(self, row_filter: RowFilter) -> Admitted:
        """What a filter admits, times aside."""
        of_places = dataclasses.replace(
            row_filter, path=None, since_ms=None, until_ms=None, time_axis=TimeAxis.CREATED_AT
        )
        path = row_filter.path
        with self._lock:
            return Admitted(
                None if of_places == RowFilter() else self._places.mask(of_places),
                None if path is None else self._paths.mask(path),
            )

    def forget(self) -> None:
        with self._lock:
            self._places.forget()
            self._paths.forget()


def _admits(row_filter: RowFilter, place: Place) -> bool:
    if row_filter.kinds is not None and place.kind not in row_filter.kinds:
        return False
    return all(
        wanted is None or wanted == value
        for wanted, value in (
            (row_filter.bucket, place.bucket),
            (row_filter.scope, place.scope),
            (row_filter.agent_id, place.agent_id),
            (row_filter.memory_type, place.memory_type),
        )
    )


def facts_of_row(row: MemoryRow, book: PlaceBook) -> GateFacts:
    place = Place(
        row.bucket,
        row.scope,
        row.writer.identity.agent_id,
        row.memory_type.value,
        row.kind.value,
    )
    return GateFacts(
        book.number(place),
        book.number_of_path(row.path),
        row.created_at_ms,
        row.updated_at_ms,
        NEVER_MS if row.expires_at_ms is None else row.expires_at_ms,
    )


@dataclasses.dataclass(slots=True)
class GateColumns:
    """Columns of a block of slots, all of one length."""

    place: npt.NDArray[np.uint32]
    path: npt.NDArray[np.uint32]
    created: npt.NDArray[np.int64]
    updated: npt.NDArray[np.int64]
    expires: npt.NDArray[np.int64]
    alive: Mask

    @classmethod
    def empty(cls, size: int) -> GateColumns:
        return cls(
            np.zeros(size, np.uint32),
            np.zeros(size, np.uint32),
            np.zeros(size, np.int64),
            np.zeros(size, np.int64),
            np.zeros(size, np.int64),
            np.zeros(size, np.bool_),
        )

    def put(self, slot: int, facts: GateFacts) -> None:
        self.place[slot] = facts.place
        self.path[slot] = facts.path
        self.created[slot] = facts.created_at_ms
        self.updated[slot] = facts.updated_at_ms
        self.expires[slot] = facts.expires_at_ms

    def fill(self, here: slice, other: GateColumns, there: slice) -> None:
        """Copy a part of other columns into a part of these."""
        for field in dataclasses.fields(self):
            getattr(self, field.name)[here] = getattr(other, field.name)[there]

    def mask(self, n: int, row_filter: RowFilter, admitted: Admitted, now_ms: int) -> Mask:
        """Which of the first ``n`` slots may be seen."""
        mask = self.alive[:n] & (self.expires[:n] > now_ms)
        for table, numbers in ((admitted.places, self.place[:n]), (admitted.paths, self.path[:n])):
            if table is not None:
                mask &= _look_up(table, numbers)
        axis = self.created if row_filter.time_axis is TimeAxis.CREATED_AT else self.updated
        if row_filter.since_ms is not None:
            mask &= axis[:n] >= row_filter.since_ms
        if row_filter.until_ms is not None:
            mask &= axis[:n] < row_filter.until_ms
        return mask

    def wipe(self) -> None:
        for field in dataclasses.fields(self):
            getattr(self, field.name).fill(0)


def _look_up(table: Mask, numbers: npt.NDArray[np.uint32]) -> Mask:
    # A slot may name something that was numbered after the table was made: not admitted yet.
    admitted: Mask = np.append(table, False)[np.minimum(numbers, len(table))]
    return admitted
