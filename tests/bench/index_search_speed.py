"""A search in one vault's opted-in rows on PostgreSQL, with pgvector and without it.

    python tests/bench/index_search_speed.py [--rows 2000] [--dimensions 384] [--json]

One PostgreSQL, two databases. Besides the time: what comes from the database for one more search,
counted on the way, and the processor time of the searching process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from urllib.parse import quote

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import numpy as np
from figures import latency, machine, show
from index_rows import NOW_MS, VAULT, new_row
from postgres_server import (
    NO_PGVECTOR,
    ROLE,
    PostgresServer,
    database_of,
    find_pgvector,
    running_postgres,
)

from memory_manager.sync.server.index.postgres import PostgresIndex, open_postgres_index
from memory_manager.sync.server.index.search import Query
from memory_manager.sync.server.index.service import IndexService
from memory_manager.sync.server.index.storage import Comparing, Matrix
from memory_manager.sync.wire.roster import Member

MODEL = "random/1"
SOCKET = ".s.PGSQL.5432"
MAX_PIECES = 3
WORDS_IN_ROW = 60
VOCABULARY = [f"word{number}" for number in range(2_000)]


class Counter:
    """A socket before PostgreSQL's, which counts what it answers."""

    def __init__(self, server: PostgresServer, folder: Path) -> None:
        self._behind = server.data.parent / SOCKET
        self._folder = folder
        self.rows = 0
        self.octets = 0

    def url(self, database: str) -> str:
        return f"postgresql://{ROLE}@/{database}?host={quote(str(self._folder))}"

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        server = await asyncio.start_unix_server(self._serve, self._folder / SOCKET)
        async with server:
            yield

    async def _serve(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        answers, ahead = await asyncio.open_unix_connection(self._behind)
        async with asyncio.TaskGroup() as group:
            group.create_task(_pass_on(client, ahead))
            group.create_task(self._count(answers, back))

    async def _count(self, answers: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        """Message by message: a letter, then a length that counts itself."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await answers.readexactly(5)
                body = await answers.readexactly(int.from_bytes(head[1:], "big") - 4)
                self.rows += head[:1] == b"D"
                self.octets += len(head) + len(body)
                back.write(head + body)
                await back.drain()
        back.close()


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while chunk := await source.read(1 << 16):
            target.write(chunk)
            await target.drain()
    target.close()


class RandomMeanings:
    """An embedder whose vectors are as good as any for figures."""

    model: str | None = MODEL

    def __init__(self, dimensions: int) -> None:
        self._dimensions = dimensions
        self._source = np.random.default_rng(5)

    def _units(self, count: int) -> Matrix:
        found = self._source.normal(size=(count, self._dimensions)).astype(np.float32)
        units: Matrix = found / np.linalg.norm(found, axis=1, keepdims=True)
        return units

    async def query(self, text: str) -> Matrix:
        first: Matrix = self._units(1)[0]
        return first

    async def documents(self, texts: Sequence[str]) -> list[Matrix | None]:
        return [self._units(1 + len(text) % MAX_PIECES) for text in texts]


async def _nobody(_vault: bytes, _device: bytes) -> Member | None:
    return None


def service_of(storage: PostgresIndex, dimensions: int) -> IndexService:
    return IndexService(
        storage,
        server_key=bytes(32),
        find_member=_nobody,
        clock_ms=lambda: NOW_MS,
        embedder=RandomMeanings(dimensions),
    )


async def search_speed(
    server: PostgresServer, folder: Path, options: argparse.Namespace, *, pgvector: bool
) -> dict[str, object]:
    """Figures of one search after the other in a vault of its own database."""
    name = database_of(server.new_database(pgvector=pgvector))
    source = random.Random(3)
    storage = await open_postgres_index(server.url(name))
    assert (storage.comparing is Comparing.DATABASE) == pgvector
    for number in range(options.rows):
        content = " ".join(source.choices(VOCABULARY, k=WORDS_IN_ROW))
        await storage.put(new_row(number, content=content), NOW_MS, options.rows)
    service = service_of(storage, options.dimensions)
    begun = time.perf_counter()
    while await service.fill():
        pass
    filled = time.perf_counter() - begun
    server.sql("ANALYZE", name)
    queries = [Query(" ".join(source.choices(VOCABULARY, k=4))) for _ in range(options.searches)]
    await service.search(VAULT, queries[0])  # statements are prepared
    seconds: list[float] = []
    cpu = time.process_time()
    for query in queries:
        begun = time.perf_counter()
        await service.search(VAULT, query)
        seconds.append(time.perf_counter() - begun)
    cpu = time.process_time() - cpu
    await storage.close()
    counter = Counter(server, folder)
    async with counter.listening():
        counted = await open_postgres_index(counter.url(name))
        service = service_of(counted, options.dimensions)
        await service.search(VAULT, queries[0])
        counter.rows = counter.octets = 0
        await service.search(VAULT, queries[-1])
        await counted.close()
    milliseconds = latency(seconds)
    return {
        "p50_ms": milliseconds.p50_ms,
        "p95_ms": milliseconds.p95_ms,
        "own_cpu_ms": round(cpu / len(queries) * 1000, 2),
        "rows_per_search": counter.rows,
        "octets_per_search": counter.octets,
        "fill_ms_per_row": round(filled / options.rows * 1000, 2),
    }


def run(options: argparse.Namespace) -> dict[str, object]:
    report: dict[str, object] = {
        "machine": machine(),
        "rows": options.rows,
        "dimensions": options.dimensions,
    }
    binaries = find_pgvector()
    if binaries is None:
        return {**report, "pgvector": NO_PGVECTOR}
    with running_postgres(binaries) as server:
        for kind in ("process", "pgvector"):
            with tempfile.TemporaryDirectory(prefix="mlk-count-") as folder:
                report[kind] = asyncio.run(
                    search_speed(server, Path(folder), options, pgvector=kind == "pgvector")
                )
    return report


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--searches", type=int, default=40)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


def main() -> int:
    options = parse()
    print(show(run(options), options.json))
    return 0


if __name__ == "__main__":
    sys.exit(main())
