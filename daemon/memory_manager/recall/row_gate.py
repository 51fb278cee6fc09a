"""Which rows a filter admits, held in memory for all rows that recall may show.

Statistics of a filtered search must be those of the rows it can see, and asking the database which
those are would cost more than the search. This mirror follows every commit; what a caller gets is
still decided by the database (``RowFilter.condition``). Contract: recall.md 7, 8.
"""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from memory_manager.recall.vector_gate import (
    NEVER_MS,
    GateColumns,
    GateFacts,
    Mask,
    Place,
    PlaceBook,
    facts_of_row,
)
from memory_manager.vault.errors import LockReason, VaultLocked
from memory_manager.vault.filters import RowFilter

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.rows import MemoryRow

_GROWTH_ROWS = 4096

Rowids = npt.NDArray[np.int64]
Change = Callable[[], None]


class RowGate:
    """The gate's columns by rowid. Thread-safe; ``forget`` empties it when the vault is locked.

    Loading: ``expect``, then ``load`` inside a read snapshot that begins after it. Changes that
    commit in between are kept back and applied on top; each is idempotent.
    """

    def __init__(self) -> None:
        self.book = PlaceBook()
        self._lock = threading.Lock()
        self._loading = threading.Lock()
        self._columns: GateColumns | None = None
        self._held_back: list[Change] | None = None

    @property
    def loaded(self) -> bool:
        return self._columns is not None

    @property
    def _expecting(self) -> bool:
        return self._held_back is not None

    def expect(self) -> None:
        """From now on changes are kept for the rows that are about to be loaded."""
        with self._lock:
            if self._columns is None and self._held_back is None:
                self._held_back = []

    def load(self, connection: Connection) -> None:
        """Read the facts of all recallable rows, once; a second caller waits for the first.

        Runs on a reader's thread. Raises VaultLocked when nobody expects them any more.
        """
        with self._loading:
            if self.loaded:
                return
            try:
                self._take(_read(connection))
            except BaseException:
                with self._lock:
                    self._held_back = None
                raise

    def _take(self, raw: _Raw) -> None:
        if not self._expecting:  # locked meanwhile: the book is not to be filled again
            raise VaultLocked(LockReason.USER)
        columns = _columns(raw, self.book)
        with self._lock:
            held_back, self._held_back = self._held_back, None
            if held_back is None:
                raise VaultLocked(LockReason.USER)
            self._columns = columns
            for change in held_back:
                change()

    def row_changed(self, rowid: int, after: MemoryRow | None) -> None:
        """After COMMIT: the row as recall may show it now, or None."""
        facts = None if after is None else facts_of_row(after, self.book)
        with self._lock:
            if self._columns is not None:
                self._put(rowid, facts)
            elif self._held_back is not None:
                self._held_back.append(lambda: self._put(rowid, facts))

    def _put(self, rowid: int, facts: GateFacts | None) -> None:
        columns = self._columns
        if columns is None:
            return
        if rowid >= len(columns.alive):
            if facts is None:
                return
            columns = self._columns = _grown(columns, rowid + _GROWTH_ROWS)
        columns.alive[rowid] = facts is not None
        if facts is not None:
            columns.put(rowid, facts)

    def visible(self, row_filter: RowFilter, now_ms: int) -> Mask | None:
        """By rowid whether the filter admits the row; None while nothing is loaded, and for filters
        that ask for deleted or hidden rows.
        """
        columns = self._columns
        if columns is None or row_filter.include_deleted or row_filter.include_hidden:
            return None
        return columns.mask(len(columns.alive), row_filter, self.book.admitted(row_filter), now_ms)

    def columns_of(self, rowids: Rowids) -> GateColumns:
        """A copy of the facts of these rows; a row that recall may not show is not alive."""
        gate = GateColumns.empty(len(rowids))
        columns = self._columns
        if columns is None:
            return gate
        known = (rowids >= 0) & (rowids < len(columns.alive))
        place = np.where(known, rowids, 0)
        for field in dataclasses.fields(GateColumns):
            getattr(gate, field.name)[:] = getattr(columns, field.name)[place]
        gate.alive &= known
        return gate

    def forget(self) -> None:
        """Overwrite and release everything (lock)."""
        with self._lock:
            columns, self._columns = self._columns, None
            self._held_back = None
        if columns is not None:
            columns.wipe()
        self.book.forget()


def _grown(columns: GateColumns, size: int) -> GateColumns:
    grown = GateColumns.empty(max(size, len(columns.alive) + len(columns.alive) // 4))
    grown.fill(slice(len(columns.alive)), columns, slice(None))
    return grown


_Raw = tuple[str | None, str | None, str | None]


def _read(connection: Connection) -> _Raw:
    # Three long texts instead of 100 000 tuples: half the time. JSON escapes control characters, so
    # no value can contain the separator.
    condition, parameters = RowFilter().condition(-1)
    numbers, places, paths = connection.execute(
        "SELECT group_concat(rowid || ' ' || created_at_ms || ' '"
        " || (updated_at_ms - created_at_ms) || ' ' || ifnull(expires_at_ms, -1), ' '),"
        " group_concat(json_array(bucket, scope, agent_id, memory_type, kind), char(30)),"
        f" group_concat(json_quote(path), char(30)) FROM record WHERE {condition}",
        parameters,
    ).fetchone()
    return numbers, places, paths


def _columns(raw: _Raw, book: PlaceBook) -> GateColumns:
    numbers, places, paths = raw
    facts = np.fromstring(numbers or "", np.int64, sep=" ").reshape(-1, 4)
    rowids, created, updated, expires = facts.T
    columns = GateColumns.empty((int(rowids.max()) if len(rowids) else 0) + _GROWTH_ROWS)
    columns.created[rowids] = created
    columns.updated[rowids] = created + updated
    columns.expires[rowids] = np.where(expires == -1, NEVER_MS, expires)
    columns.place[rowids] = _numbers(
        places, lambda found: [book.number(Place(*values)) for values in found]
    )
    columns.path[rowids] = _numbers(paths, book.numbers_of_paths)
    columns.alive[rowids] = True
    return columns


def _numbers(texts: str | None, number: Callable[[list[Any]], list[int]]) -> npt.NDArray[np.uint32]:
    """The numbers of JSON values joined by U+001E; every different one is parsed once."""
    keys = texts.split("\x1e") if texts else []
    different = list(dict.fromkeys(keys))
    numbers = number(json.loads(f"[{','.join(different)}]"))
    number_of = dict(zip(different, numbers, strict=True))
    return np.fromiter(map(number_of.__getitem__, keys), np.uint32, len(keys))
