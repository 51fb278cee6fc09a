"""The in-memory indexes of an open vault, kept in step with commits. Contract: recall.md 6.2.

Changes arrive on the writer's thread after COMMIT, in commit order. While an index is being
loaded from the vault they are kept back and applied in that order on top of what was loaded; each
is idempotent, so it does no harm when the load has seen it already.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from memory_manager.recall import vector_segments
from memory_manager.recall.embedding_models import StoredModel
from memory_manager.recall.row_gate import RowGate
from memory_manager.recall.vector_codes import Codes, Floats
from memory_manager.recall.vector_gate import GateFacts, facts_of_row
from memory_manager.recall.vector_index import VectorIndex

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.rows import MemoryRow

Change = Callable[[VectorIndex], None]


_PIECE_BITS = 16


@dataclasses.dataclass(frozen=True, slots=True)
class LoadReport:
    """What was wrong with stored vectors: segments that do not fit together, rows with two of a
    kind.
    """

    damaged_segments: tuple[int, ...]
    doubled_rows: tuple[int, ...]

    @property
    def clean(self) -> bool:
        return not (self.damaged_segments or self.doubled_rows)


class LiveVectors:
    """``gate`` knows the rows and is kept up to date and emptied by its owner."""

    def __init__(self, gate: RowGate, rescore: int | None = None) -> None:
        self._gate = gate
        self.book = gate.book
        self._rescore = rescore
        self._lock = threading.Lock()
        self._ready: dict[int, VectorIndex] = {}
        self._held_back: dict[int, list[Change]] = {}

    def index_of(self, model_rowid: int) -> VectorIndex | None:
        """The loaded index of a model, or None while there is none."""
        with self._lock:
            return self._ready.get(model_rowid)

    def load(self, connection: Connection, model: StoredModel) -> LoadReport:
        """Read a model's vectors into memory.

        To be called inside one read snapshot that begins after ``expect``. Runs on a reader's
        thread.
        """
        damaged: list[int] = []
        index = VectorIndex(model.dim, self.book, self._rescore)
        keys: list[npt.NDArray[np.int64]] = [np.empty(0, np.int64)]
        for stored in vector_segments.read_all(connection, model.rowid, model.dim, damaged):
            index.append_loaded(stored.rowids, stored.scales, stored.codes)
            keys.append(stored.rowids << _PIECE_BITS | stored.pieces)
        twice = vector_segments.repeated(np.concatenate(keys))
        doubled = np.unique(twice >> _PIECE_BITS).tolist()
        self._gate.load(connection)
        index.settle(self._gate.columns_of)
        for rowid in doubled:
            index.drop(rowid)  # nobody can tell which one is of this version
        with self._lock:
            for change in self._held_back.pop(model.rowid, []):
                change(index)
            self._ready[model.rowid] = index
        return LoadReport(tuple(damaged), tuple(doubled))

    def expect(self, model_rowid: int) -> None:
        """From now on changes are kept for the index that is about to be loaded."""
        self._gate.expect()
        with self._lock:
            self._held_back.setdefault(model_rowid, [])

    def put(
        self, model_rowid: int, rowid: int, scales: Floats, codes: Codes, facts: GateFacts
    ) -> None:
        self._apply(lambda index: index.put(rowid, scales, codes, facts), model_rowid)

    def drop(self, rowid: int) -> None:
        self._apply(lambda index: index.drop(rowid))

    def move(self, row: MemoryRow) -> None:
        facts = facts_of_row(row, self.book)
        self._apply(lambda index: index.move(row.rowid, facts))

    def _apply(self, change: Change, model_rowid: int | None = None) -> None:
        with self._lock:
            for key, index in self._ready.items():
                if model_rowid in (None, key):
                    change(index)
            for key, changes in self._held_back.items():
                if model_rowid in (None, key):
                    changes.append(change)

    def discard(self, model_rowid: int) -> None:
        """Wipe one model's index, if it is loaded."""
        with self._lock:
            self._held_back.pop(model_rowid, None)
            index = self._ready.pop(model_rowid, None)
        if index is not None:
            index.wipe()

    def wipe(self) -> None:
        """Overwrite and release everything (lock)."""
        with self._lock:
            indexes = list(self._ready.values())
            self._ready.clear()
            self._held_back.clear()
        for index in indexes:
            index.wipe()
