"""What sealing costs a write, and applying a page: figures beside the same vault without sync."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

from ledger_world import LedgerDevice, LedgerWorld
from small_vault import writer

from memory_manager.recall.fulltext import FullTextIndex
from memory_manager.vault.rows import MemoryDraft
from memory_manager.vault.transaction import Transaction

TEXT = "The deploy of the billing service waits for the migration of the ledger table. " * 6


@dataclasses.dataclass(frozen=True, slots=True)
class SyncFigures:
    """Microseconds of processor time a row, in one transaction; ``*_write_ms``: by the clock, a
    write with its own commit.
    """

    plain_us: float
    sealed_us: float
    applied_us: float
    plain_write_ms: float
    sealed_write_ms: float

    @property
    def ratio(self) -> float:
        return self.sealed_us / self.plain_us

    @property
    def write_ratio(self) -> float:
        return self.sealed_write_ms / self.plain_write_ms


def measure(folder: Path, rows: int) -> SyncFigures:
    world = LedgerWorld(folder)
    try:
        index = [FullTextIndex()]
        plain = world.device(turned_on=False, indexers=index)
        sealed = world.device(indexers=index)
        other = world.device(indexers=index)
        plain_us, sealed_us = (in_one(device, rows) for device in (plain, sealed))
        singles = max(20, rows // 20)
        plain_ms, sealed_ms = (one_by_one(device, singles) for device in (plain, sealed))
        sealed.push()
        started = time.process_time()
        other.pull()
        applied_us = (time.process_time() - started) / (rows + singles) * 1e6
        return SyncFigures(plain_us, sealed_us, applied_us, plain_ms, sealed_ms)
    finally:
        world.close()


def in_one(device: LedgerDevice, rows: int) -> float:
    """The better of two transactions of half the rows each."""

    def work(tx: Transaction) -> float:
        started = time.thread_time()
        for number in range(rows // 2):
            draft = MemoryDraft(f"{number} {TEXT}", "bench")
            device.memories.remember(tx, draft, writer())
        return (time.thread_time() - started) / (rows // 2) * 1e6

    return min(device.write(work), device.write(work))


def one_by_one(device: LedgerDevice, rows: int) -> float:
    """Median milliseconds of a write that is durable when it returns."""
    taken: list[float] = []
    for number in range(rows):
        draft = MemoryDraft(f"single {number} {TEXT}", "bench")
        started = time.perf_counter()
        device.write(lambda tx, d=draft: device.memories.remember(tx, d, writer()))
        taken.append((time.perf_counter() - started) * 1e3)
    return sorted(taken)[len(taken) // 2]
