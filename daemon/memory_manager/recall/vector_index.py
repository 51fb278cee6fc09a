"""All vectors of one model in memory: sign bits pick candidates, int8 codes order them.

Blocks of 65 536 slots, so growth copies nothing. Writers hold one lock; a search takes a snapshot
of the blocks and works without it. Vectors count as plaintext: ``wipe`` overwrites them.
Contract: recall.md 6.2.
"""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable, Collection, Mapping

import numpy as np
import numpy.typing as npt

from memory_manager.recall.rowid_lookup import RowidLookup
from memory_manager.recall.vector_codes import (
    Codes,
    Floats,
    SignBits,
    centre_of,
    cosines,
    hamming,
    nearest_by_histogram,
    query_bits,
    sign_bits,
    words_per_row,
)
from memory_manager.recall.vector_gate import GateColumns, GateFacts, Mask, PlaceBook
from memory_manager.vault.filters import RowFilter

BLOCK_SLOTS = 65_536
HIDDEN_DISTANCE = 10_000
GATHER_SHARE = 0.03
"""Below this share of visible slots their codes are compared directly."""
RESCORE_SMALL, RESCORE_LARGE, SMALL_INDEX_SLOTS = 400, 1600, 50_000

CENTRE_SAMPLE_SLOTS, FIRST_CENTRING_SLOTS = 4096, 1024
"""The centre of the sign bits: taken from a sample, anew whenever the index has doubled."""
SAMPLE_SLOTS = 1024
PRIOR_SLOTS, PRIOR_DEVIATION = 10, 0.08
"""A handful of vectors does not tell how much cosines vary; typical values stand in for ten."""

Rowids = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True, slots=True)
class Nearest:
    """Best rows first, one entry per row: the maximum over its pieces.

    ``mean`` and ``deviation`` say what cosine an unrelated visible vector has to this query.
    """

    rowids: Rowids
    cosines: Floats
    mean: float = 0.0
    deviation: float = 1.0


class _Block:
    __slots__ = ("codes", "gate", "n", "rowids", "scales", "signs")

    def __init__(self, dim: int, centre: Floats) -> None:
        self.n = 0
        # Bits and the centre they were taken around change together: one attribute, one snapshot.
        self.signs: tuple[Floats, SignBits] = (centre, _no_bits(dim))
        self.codes: Codes = np.zeros((BLOCK_SLOTS, dim), np.int8)
        self.scales: Floats = np.zeros(BLOCK_SLOTS, np.float32)
        self.rowids: Rowids = np.zeros(BLOCK_SLOTS, np.int64)
        self.gate = GateColumns.empty(BLOCK_SLOTS)

    def wipe(self) -> None:
        for array in (*self.signs, self.codes, self.scales, self.rowids):
            array.fill(0)
        self.gate.wipe()


def _no_bits(dim: int) -> SignBits:
    return np.zeros((words_per_row(dim), BLOCK_SLOTS), np.uint64)


class VectorIndex:
    def __init__(self, dim: int, book: PlaceBook, rescore: int | None = None) -> None:
        self.dim = dim
        self.book = book
        self._rescore = rescore
        self._lock = threading.Lock()
        self._blocks: list[_Block] = []
        self._dead = 0
        self._rows = 0
        self._centre: Floats = np.zeros(dim, np.float32)
        self._centred_at = FIRST_CENTRING_SLOTS
        self._lookup = RowidLookup(BLOCK_SLOTS)

    @property
    def slots(self) -> int:
        """Slots in use, dead ones included."""
        return sum(block.n for block in self._blocks)

    @property
    def vectors(self) -> int:
        return self.slots - self._dead

    @property
    def rows(self) -> int:
        """Rows with at least one living vector."""
        return self._rows

    @property
    def allocated_bytes(self) -> int:
        per_slot = words_per_row(self.dim) * 8 + self.dim + 4 + 8 + 33
        return len(self._blocks) * BLOCK_SLOTS * per_slot

    def extend(self, rowids: Rowids, scales: Floats, codes: Codes, gate: GateColumns) -> None:
        """Append slots; ``gate.alive`` is used as it is. The rows must not be in the index yet."""
        with self._lock:
            for block, here, there in self._append(rowids, scales, codes):
                bits = sign_bits(codes[there], scales[there], self._centre)
                block.signs[1][:, here] = bits
                block.gate.fill(here, gate, there)
            self._dead += len(rowids) - int(np.count_nonzero(gate.alive))
            if self.slots >= 2 * self._centred_at:
                self._take_centre()

    def append_loaded(self, rowids: Rowids, scales: Floats, codes: Codes) -> None:
        """Append stored vectors of which nothing is visible until ``settle``."""
        with self._lock:
            self._append(rowids, scales, codes)
            self._dead += len(rowids)

    def settle(self, columns_of: Callable[[Rowids], GateColumns] | None = None) -> None:
        """After bulk loads: what the gate knows of every row (None: as it is), exact counts, and
        the sign bits around the centre of them all.
        """
        with self._lock:
            living = [np.empty(0, np.int64)]
            for block in self._blocks:
                used = slice(0, block.n)
                if columns_of is not None:
                    block.gate.fill(used, columns_of(block.rowids[used]), slice(None))
                living.append(block.rowids[used][block.gate.alive[used]])
            alive = np.sort(np.concatenate(living))
            self._dead = self.slots - len(alive)
            self._rows = int(np.count_nonzero(np.diff(alive, prepend=-1)))
            self._take_centre()

    def _append(
        self, rowids: Rowids, scales: Floats, codes: Codes
    ) -> list[tuple[_Block, slice, slice]]:
        """Where they went: block, slots there, and the part of what was given."""
        parts: list[tuple[_Block, slice, slice]] = []
        start = 0
        while start < len(rowids):
            block = self._room()
            count = min(BLOCK_SLOTS - block.n, len(rowids) - start)
            here, there = slice(block.n, block.n + count), slice(start, start + count)
            block.codes[here] = codes[there]
            block.scales[here] = scales[there]
            block.rowids[here] = rowids[there]
            parts.append((block, here, there))
            block.n += count
            start += count
        return parts

    def put(self, rowid: int, scales: Floats, codes: Codes, facts: GateFacts) -> None:
        """The vectors of a row, one per piece, in place of those it had."""
        count = len(scales)
        gate = GateColumns(
            np.full(count, facts.place, np.uint32),
            np.full(count, facts.path, np.uint32),
            np.full(count, facts.created_at_ms, np.int64),
            np.full(count, facts.updated_at_ms, np.int64),
            np.full(count, facts.expires_at_ms, np.int64),
            np.ones(count, np.bool_),
        )
        self.drop(rowid)
        self.extend(np.full(count, rowid, np.int64), scales, codes, gate)
        with self._lock:
            self._rows += 1

    def drop(self, rowid: int) -> None:
        """A row's vectors die and are overwritten; unknown rows are no error."""
        with self._lock:
            slots = self._slots_of([rowid])
            self._rows -= int(any(block.gate.alive[slot] for block, slot in slots))
            for block, slot in slots:
                self._dead += int(block.gate.alive[slot])
                block.gate.alive[slot] = False
                block.codes[slot] = 0
                block.scales[slot] = 0
                block.signs[1][:, slot] = 0
                block.rowids[slot] = 0

    def move(self, rowid: int, facts: GateFacts) -> None:
        """The row's text is the same; its place or times are not."""
        with self._lock:
            for block, slot in self._slots_of([rowid]):
                block.gate.put(slot, facts)

    def _slots_of(self, rowids: Collection[int]) -> list[tuple[_Block, int]]:
        wanted = np.fromiter(rowids, np.int64, len(rowids))
        columns = [(block.rowids, block.n) for block in self._blocks]
        found = self._lookup.find(columns, wanted) if columns else np.empty(0, np.int64)
        return [(self._blocks[s // BLOCK_SLOTS], int(s % BLOCK_SLOTS)) for s in found.tolist()]

    def search(self, query: Floats, row_filter: RowFilter, now_ms: int, limit: int) -> Nearest:
        """The ``limit`` rows nearest to a unit query among those that the filter admits.

        Hidden slots are out before anything is counted or selected.
        """
        blocks = self._snapshot()
        admitted = self.book.admitted(row_filter)
        masks = [
            block.gate.mask(n, row_filter, admitted, now_ms)
            for block, n in ((block, block.n) for block in blocks)
        ]
        total = sum(len(mask) for mask in masks)
        visible = sum(int(np.count_nonzero(mask)) for mask in masks)
        if not visible:
            return Nearest(np.empty(0, np.int64), np.empty(0, np.float32))
        if visible < GATHER_SHARE * total or visible <= limit:
            chosen = [np.flatnonzero(mask) for mask in masks]
        else:
            chosen = self._candidates(blocks, masks, query, max(self._depth(total), limit))
        mean, deviation = _background(blocks, masks, query, visible)
        best = _best_rows(blocks, chosen, query, limit)
        return dataclasses.replace(best, mean=mean, deviation=deviation)

    def cosines_of(self, query: Floats, rowids: Collection[int]) -> Mapping[int, float]:
        """Cosine by rowid for those rows that have a vector, whatever their rank."""
        with self._lock:
            blocks = list(self._blocks)
            places = self._slots_of(rowids)
        chosen = [
            np.array([slot for owner, slot in places if owner is block], np.intp)
            for block in blocks
        ]
        found = _best_rows(blocks, chosen, query, len(rowids))
        return dict(zip(found.rowids.tolist(), found.cosines.tolist(), strict=True))

    def wipe(self) -> None:
        """Overwrite everything and let go of it; the index is empty afterwards."""
        with self._lock:
            for block in self._blocks:
                block.wipe()
            self._blocks = []
            self._dead = self._rows = 0
            self._centre = np.zeros(self.dim, np.float32)
            self._centred_at = FIRST_CENTRING_SLOTS
            self._lookup.clear()

    def _take_centre(self) -> None:
        """Sign bits anew, around the mean of an even sample; running searches keep the old ones."""
        if not self.slots:
            return
        step = -(-self.slots // CENTRE_SAMPLE_SLOTS)
        samples = [(b.codes[: b.n : step], b.scales[: b.n : step]) for b in self._blocks]
        codes = np.concatenate([part[0] for part in samples])
        scales = np.concatenate([part[1] for part in samples])
        if self.slots >= FIRST_CENTRING_SLOTS:
            self._centre = centre_of(codes, scales)
        self._centred_at = max(self.slots, FIRST_CENTRING_SLOTS)
        for block in self._blocks:
            bits = _no_bits(self.dim)
            used = slice(0, block.n)
            bits[:, used] = sign_bits(block.codes[used], block.scales[used], self._centre)
            block.signs = (self._centre, bits)

    def _room(self) -> _Block:
        if not self._blocks or self._blocks[-1].n == BLOCK_SLOTS:
            self._blocks.append(_Block(self.dim, self._centre))
        return self._blocks[-1]

    def _snapshot(self) -> list[_Block]:
        with self._lock:
            return list(self._blocks)

    def _depth(self, slots: int) -> int:
        if self._rescore is not None:
            return self._rescore
        return RESCORE_SMALL if slots <= SMALL_INDEX_SLOTS else RESCORE_LARGE

    def _candidates(
        self, blocks: list[_Block], masks: list[Mask], query: Floats, depth: int
    ) -> list[npt.NDArray[np.intp]]:
        parts: list[npt.NDArray[np.uint16]] = []
        for block, mask in zip(blocks, masks, strict=True):
            centre, bits = block.signs
            distances = hamming(bits, query_bits(query, centre), len(mask))
            distances[~mask] = HIDDEN_DISTANCE
            parts.append(distances)
        found = nearest_by_histogram(np.concatenate(parts), HIDDEN_DISTANCE, depth)
        borders = np.cumsum([0, *(len(part) for part in parts)])
        cuts = np.searchsorted(found, borders)
        return [found[cuts[i] : cuts[i + 1]] - borders[i] for i in range(len(parts))]


def _background(
    blocks: list[_Block], masks: list[Mask], query: Floats, visible: int
) -> tuple[float, float]:
    """Mean and standard deviation of the cosines of visible vectors, from an even sample."""
    step = -(-visible // SAMPLE_SLOTS)
    parts = [
        cosines(block.codes[slots], block.scales[slots], query)
        for block, slots in (
            (b, np.flatnonzero(m)[::step]) for b, m in zip(blocks, masks, strict=True)
        )
    ]
    sample = np.concatenate(parts)
    n = len(sample)
    variance = (n * float(sample.var()) + PRIOR_SLOTS * PRIOR_DEVIATION**2) / (n + PRIOR_SLOTS)
    return float(sample.mean()), math.sqrt(variance)


def _best_rows(
    blocks: list[_Block], chosen: list[npt.NDArray[np.intp]], query: Floats, limit: int
) -> Nearest:
    rowids = np.concatenate(
        [np.empty(0, np.int64), *(b.rowids[c] for b, c in zip(blocks, chosen, strict=True))]
    )
    scores = np.concatenate(
        [
            np.empty(0, np.float32),
            *(cosines(b.codes[c], b.scales[c], query) for b, c in zip(blocks, chosen, strict=True)),
        ]
    )
    order = np.argsort(-scores, kind="stable")
    unique, first = np.unique(rowids[order], return_index=True)
    first = first[unique != 0]  # 0: a slot that died while we looked
    best = order[np.sort(first)[:limit]]
    return Nearest(rowids[best], scores[best])
