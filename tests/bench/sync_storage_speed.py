"""The sync server's storages: rows per second pushed and pulled, octets per row, cost with vaults.

    python tests/bench/sync_storage_speed.py [--rows 20000] [--vaults 1 10 100] [--json]

Both wait for the disk at every commit. Without the network and without signatures, which the
server adds; bodies have the sizes of real memories and are made before the clock runs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from figures import latency, machine, show
from postgres_server import PostgresServer, database_of, find_postgres, running_postgres
from stored_vault import Pushed, StoredVault, opener

from memory_manager.sync.server.storage import Storage
from memory_manager.sync.wire.envelope import SealedRow, body_hash, padme
from memory_manager.sync.wire.framing import MAX_PULL_BYTES, LogRow, Signed
from memory_manager.sync.wire.log import Checkpoint, Entry

KINDS = ("sqlite", "postgres")
PUSH_ROWS = (1, 100, 256)
PAGE_ROWS = (100, 500)
MEDIAN_OCTETS, SIGMA = 491, 0.9  # of a memory with its members, log-normal
ENVELOPE_OCTETS = 172
PUSHERS = 16
SINGLE_PUSHES = 2_000  # one row each: a commit each


class Author:
    """The first device of a vault, with rows that only look sealed: no storage opens them."""

    def __init__(self, vault: StoredVault) -> None:
        self.vault = vault
        self._source = random.Random(vault.id)
        self._device = vault.devices[0].keys.id
        self._seq, self._head = 0, bytes(32)

    def batch(self, rows: int) -> Pushed:
        made = tuple(self._row() for _ in range(rows))
        said = Checkpoint(self.vault.id, self._device, self._seq, self._head, 0, bytes(32))
        return Pushed(made, Signed(said, bytes(64)))

    def _row(self) -> LogRow:
        size = int(self._source.lognormvariate(0, SIGMA) * MEDIAN_OCTETS)
        body = self._source.randbytes(ENVELOPE_OCTETS + padme(size + 4))
        roster = self.vault.founded.roster.head
        self._seq += 1
        entry = Entry(self.vault.id, self._device, self._seq, self._head, body_hash(body), roster)
        self._head = entry.head
        return LogRow(entry, SealedRow(body, b"\x00\x00\x00\x01" + self._source.randbytes(88)))


class Places:
    """Fresh storages of one kind, and how large they are on the disk."""

    def __init__(self, kind: str, folder: Path, server: PostgresServer | None) -> None:
        self._kind, self._folder, self._server = kind, folder, server
        self._number = 0
        self._empty = 0

    @contextlib.asynccontextmanager
    async def storage(self) -> AsyncIterator[Storage]:
        """An empty storage at a new place."""
        self._number += 1
        url = None if self._server is None else self._server.new_database()
        self._database = database_of(url or "")
        async with opener(self._kind, self._place(), url)() as storage:
            self._empty = self._octets()
            yield storage

    def grown_octets(self) -> int:
        """By how much the last place is larger than when it was empty; after its end."""
        return self._octets() - self._empty

    def _octets(self) -> int:
        if self._server is None:
            return (self._place() / "sync.db").stat().st_size
        return int(self._server.sql(f"SELECT pg_database_size('{self._database}')"))

    def _place(self) -> Path:
        return self._folder / f"place-{self._number}"


async def new_authors(storage: Storage, count: int) -> list[Author]:
    """Each of a vault of its own that has no rows yet."""
    known = len(await storage.heads())
    authors = [Author(StoredVault(f"bench {known + number}", 1)) for number in range(count)]
    for author in authors:
        await author.vault.create(storage)
    return authors


async def push_all(storage: Storage, author: Author, pushes: Sequence[Pushed]) -> list[float]:
    """One after the other; seconds of each."""
    seconds: list[float] = []
    for pushed in pushes:
        begun = time.perf_counter()
        await author.vault.push(storage, pushed)
        seconds.append(time.perf_counter() - begun)
    return seconds


async def push_speed(storage: Storage, rows: int, per_push: int) -> dict[str, object]:
    """One device pushes."""
    count = max(1, min(rows, SINGLE_PUSHES if per_push == 1 else rows) // per_push)
    (author,) = await new_authors(storage, 1)
    seconds = await push_all(storage, author, [author.batch(per_push) for _ in range(count)])
    milliseconds = latency(seconds)
    return {
        "rows_per_s": round(count * per_push / sum(seconds)),
        "p50_ms": milliseconds.p50_ms,
        "p99_ms": milliseconds.p99_ms,
    }


async def together(storage: Storage, rows: int, vaults: int, per_push: int) -> dict[str, float]:
    """All vaults push at once, at most ``PUSHERS`` at a time; then each is pulled whole."""
    per_vault = max(1, rows // vaults // per_push)
    authors = await new_authors(storage, vaults)
    waiting = [(author, [author.batch(per_push) for _ in range(per_vault)]) for author in authors]
    bodies = [
        len(row.row.body) for _, pushes in waiting for pushed in pushes for row in pushed.rows
    ]
    seconds: list[float] = []

    async def pusher() -> None:
        while waiting:
            author, pushes = waiting.pop()
            seconds.extend(await push_all(storage, author, pushes))

    begun = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(min(PUSHERS, vaults)):
            group.create_task(pusher())
    pushed_in = time.perf_counter() - begun
    begun = time.perf_counter()
    for author in authors:
        await pull_all(storage, author.vault, PAGE_ROWS[-1])
    pulled_in = time.perf_counter() - begun
    return {
        "rows": len(bodies),
        "pushed_rows_per_s": round(len(bodies) / pushed_in),
        "push_p50_ms": latency(seconds).p50_ms,
        "pulled_rows_per_s": round(len(bodies) / pulled_in),
        "body_octets_per_row": round(sum(bodies) / len(bodies)),
    }


async def pull_all(storage: Storage, vault: StoredVault, limit: int) -> int:
    after = 0
    while True:
        page = await storage.page(vault.id, after, limit, MAX_PULL_BYTES)
        if not page.rows:
            return after
        after = page.rows[-1].n


async def pull_speed(storage: Storage, rows: int) -> dict[str, object]:
    (author,) = await new_authors(storage, 1)
    await push_all(storage, author, [author.batch(100) for _ in range(max(1, rows // 100))])
    report: dict[str, object] = {}
    for limit in PAGE_ROWS:
        begun = time.perf_counter()
        pulled = await pull_all(storage, author.vault, limit)
        report[f"rows_per_s_by_{limit}"] = round(pulled / (time.perf_counter() - begun))
    return report


@contextlib.contextmanager
def places_of(kind: str, folder: Path) -> Iterator[Places | None]:
    """None where there is no PostgreSQL."""
    if kind == "sqlite":
        yield Places(kind, folder, None)
        return
    binaries = find_postgres()
    if binaries is None:
        yield None
        return
    with running_postgres(binaries, durable=True) as server:
        yield Places(kind, folder, server)


async def storage_speed(places: Places, options: argparse.Namespace) -> dict[str, object]:
    report: dict[str, object] = {}
    singles = min(options.rows, SINGLE_PUSHES)
    async with places.storage() as storage:
        for per_push in PUSH_ROWS:
            report[f"push {per_push}"] = await push_speed(storage, options.rows, per_push)
        report[f"push 1, {PUSHERS} vaults at once"] = await together(storage, singles, PUSHERS, 1)
        report["pull"] = await pull_speed(storage, options.rows)
    for vaults in options.vaults:
        async with places.storage() as storage:
            part = await together(storage, options.rows, vaults, 100)
        part["octets_per_row"] = round(places.grown_octets() / part["rows"])
        report[f"{vaults} vaults"] = part
    return report


def run(options: argparse.Namespace) -> dict[str, object]:
    report: dict[str, object] = {"machine": machine(), "rows": options.rows}
    with tempfile.TemporaryDirectory(prefix="memlocket-bench-", dir=options.folder) as name:
        for kind in options.kinds:
            with places_of(kind, Path(name)) as places:
                if places is None:
                    report[kind] = "not installed"
                else:
                    report[kind] = asyncio.run(storage_speed(places, options))
    return report


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    return storage_options(__doc__, 20_000, arguments)


def storage_options(
    description: str | None, rows: int, arguments: Sequence[str] | None
) -> argparse.Namespace:
    """The options of a bench of both storages."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rows", type=int, default=rows)
    parser.add_argument("--vaults", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--folder", type=Path, help="where to put the databases")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


def main() -> int:
    options = parse()
    print(show(run(options), options.json))
    return 0


if __name__ == "__main__":
    sys.exit(main())
