"""The sync server as devices meet it, over HTTP: rows per second, octets per row, and verifying.

    python tests/bench/sync_http_speed.py [--rows 5120] [--vaults 1 10 100] [--json]

A real server process on 127.0.0.1 with each storage. Rows are sealed and pages are verified outside
of the measured time; verifying has figures of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import aiohttp
import psutil
from figures import ProcessCost, latency, machine, show
from postgres_server import PostgresServer, database_of, find_postgres, running_postgres
from sync_server import ServerProcess, World, create_vault
from sync_storage_speed import MEDIAN_OCTETS, PUSH_ROWS, SIGMA, storage_options

from memory_manager.sync.wire.framing import LogRow, unpack_page

SINGLE_REQUESTS = 300
ROWS_OF_A_VAULT = 256
AT_ONCE = 16
_QUOTAS = {"ENTRIES_PER_MINUTE": "100000000", "REQUESTS_PER_MINUTE": "10000000"}


@dataclasses.dataclass
class Served:
    """A server process and where it keeps its rows."""

    process: ServerProcess
    postgres: PostgresServer | None
    database: str

    def octets(self) -> int:
        if self.postgres is not None:
            return int(self.postgres.sql(f"SELECT pg_database_size('{self.database}')"))
        return sum(path.stat().st_size for path in self.process.data.glob("*.db*"))

    def cpu_seconds(self) -> float:
        assert self.process.process is not None
        return ProcessCost([psutil.Process(self.process.process.pid)]).cpu_seconds()


@contextlib.contextmanager
def served(folder: Path, postgres: PostgresServer | None) -> Iterator[Served]:
    url = None if postgres is None else postgres.new_database()
    options = ("--open-registration", *(() if url is None else ("--database-url", url)))
    limits = {f"MEMLOCKET_SERVER_QUOTA_{name}": value for name, value in _QUOTAS.items()}
    with ServerProcess(folder / "server", options, limits) as process:
        yield Served(process, postgres, database_of(url or ""))


async def founded(http: aiohttp.ClientSession, place: Served, seed: int) -> World:
    server = place.process
    return await create_vault(http, server.url, "", seed=seed, host=server.public_host)


def sized_rows(world: World, count: int) -> list[LogRow]:
    """Sealed rows with the sizes of real memories."""
    source = world.founded.source
    made: list[LogRow] = []
    for _ in range(count):
        record = bytes([source.randrange(128)]) + source.randbytes(15)
        size = int(source.lognormvariate(0, SIGMA) * MEDIAN_OCTETS)
        made.append(world.device.write(record, "x" * size))
    return made


async def push(world: World, bodies: Sequence[bytes]) -> list[float]:
    """Seconds of each request, one after the other."""
    seconds: list[float] = []
    for body in bodies:
        begun = time.perf_counter()
        said = await world.caller.call("POST", "/v1/log/push", body=body)
        seconds.append(time.perf_counter() - begun)
        assert said.status == 200, said.body
    return seconds


async def pull(world: World, after: int, until: int, limit: int) -> tuple[list[float], list[bytes]]:
    """Seconds and octets of each page from ``after`` to ``until``."""
    seconds: list[float] = []
    pages: list[bytes] = []
    while after < until:
        begun = time.perf_counter()
        said = await world.caller.call("GET", f"/v1/log/pull?after={after}&limit={limit}")
        seconds.append(time.perf_counter() - begun)
        assert said.status == 200, said.body
        pages.append(said.body)
        after += min(limit, until - after)
    return seconds, pages


def batches(world: World, rows: Sequence[LogRow], per_request: int) -> list[bytes]:
    starts = range(0, len(rows), per_request)
    return [world.caller.push_body(rows[start : start + per_request]) for start in starts]


def _rates(name: str, rows: int, seconds: Sequence[float], octets: int) -> dict[str, object]:
    spread = latency(seconds)
    return {
        f"{name}_rows_per_s": round(rows / sum(seconds)),
        f"{name}_p50_ms": spread.p50_ms,
        f"{name}_p99_ms": spread.p99_ms,
        f"{name}_octets_per_row": round(octets / rows),
    }


async def per_request_speed(
    http: aiohttp.ClientSession, place: Served, seed: int, rows: int, per_request: int
) -> dict[str, object]:
    """One device of a fresh vault pushes, then pulls, one request after the other."""
    world = await founded(http, place, seed)
    count = min(rows, SINGLE_REQUESTS * per_request) // per_request * per_request
    bodies = batches(world, sized_rows(world, count), per_request)
    before = place.cpu_seconds()
    pushed = await push(world, bodies)
    between = place.cpu_seconds()
    pulled, pages = await pull(world, 0, count, per_request)
    return {
        **_rates("push", count, pushed, sum(map(len, bodies))),
        "push_server_cpu_ms_a_row": round((between - before) / count * 1000, 3),
        **_rates("pull", count, pulled, sum(map(len, pages))),
        "pull_server_cpu_ms_a_row": round((place.cpu_seconds() - between) / count * 1000, 3),
    }


async def verifying(http: aiohttp.ClientSession, place: Served, rows: int) -> dict[str, object]:
    """What one device's thread unpacks and verifies: entries, chains, heads, signatures."""
    world = await founded(http, place, 1)
    rows = max(rows // 256, 1) * 256
    await push(world, batches(world, sized_rows(world, rows), 256))
    report: dict[str, object] = {}
    for limit in PUSH_ROWS[1:]:
        _, pages = await pull(world, 0, rows, limit)
        begun = time.thread_time()
        unpacked = [unpack_page(page) for page in pages]
        opened = time.thread_time()
        device, log = world.device, world.device.log
        rules, heads = device.verifier(), [*device.global_heads]
        rules = dataclasses.replace(rules, global_head=heads.__getitem__)
        for page in unpacked:
            accepted = rules.accept(log, page)
            log = accepted.log
            heads.extend(accepted.global_heads)
        assert log.n == rows
        report[f"unpacked_rows_per_s_by_{limit}"] = round(rows / (opened - begun))
        report[f"accepted_rows_per_s_by_{limit}"] = round(rows / (time.thread_time() - opened))
    return report


async def many_vaults(
    http: aiohttp.ClientSession, place: Served, seed: int, rows: int, vaults: int
) -> dict[str, object]:
    """The same rows spread over so many vaults, up to 16 pushing at once."""
    empty = place.octets()
    worlds = [await founded(http, place, seed + number) for number in range(vaults)]
    per_vault = max(1, rows // vaults)
    waiting = [
        (world, batches(world, sized_rows(world, per_vault), min(100, per_vault)))
        for world in worlds
    ]
    before, begun = place.cpu_seconds(), time.perf_counter()

    async def pusher() -> None:
        while waiting:
            world, bodies = waiting.pop()
            await push(world, bodies)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(AT_ONCE, vaults)):
            group.create_task(pusher())
    seconds, used = time.perf_counter() - begun, place.cpu_seconds() - before
    total = per_vault * vaults
    return {
        "rows": total,
        "push_rows_per_s": round(total / seconds),
        "push_server_cpu_ms_a_row": round(used / total * 1000, 3),
        "disk_octets_per_row": round((place.octets() - empty) / total),
    }


async def http_speed(
    folder: Path, postgres: PostgresServer | None, options: argparse.Namespace
) -> dict[str, object]:
    report: dict[str, object] = {}
    seed = 1_000
    with served(folder, postgres) as place:
        async with aiohttp.ClientSession() as http:
            for per_request in PUSH_ROWS:
                seed += 1
                report[f"{per_request} rows a request"] = await per_request_speed(
                    http, place, seed, options.rows, per_request
                )
            report["verifying"] = await verifying(http, place, options.rows)
    for vaults in options.vaults:
        with served(folder / f"vaults-{vaults}", postgres) as place:
            async with aiohttp.ClientSession() as http:
                report[f"{vaults} vaults"] = await many_vaults(
                    http, place, 2_000, options.rows, vaults
                )
    return report


def run(options: argparse.Namespace) -> dict[str, object]:
    report: dict[str, object] = {"machine": machine(), "rows": options.rows}
    with tempfile.TemporaryDirectory(prefix="memlocket-bench-", dir=options.folder) as name:
        for kind in options.kinds:
            folder = Path(name) / kind
            for part in (".", *(f"vaults-{vaults}" for vaults in options.vaults)):
                (folder / part).mkdir(parents=True, exist_ok=True)
            if kind == "sqlite":
                report[kind] = asyncio.run(http_speed(folder, None, options))
                continue
            binaries = find_postgres()
            if binaries is None:
                report[kind] = "not installed"
                continue
            with running_postgres(binaries, durable=True) as server:
                report[kind] = asyncio.run(http_speed(folder, server, options))
    return report


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    return storage_options(__doc__, 5_120, arguments)


def main() -> int:
    options = parse()
    print(show(run(options), options.json))
    return 0


if __name__ == "__main__":
    sys.exit(main())
