"""What syncing costs a device: sealing, pushing, pulling, and doing nothing for an hour.

    python tests/bench/sync_engine_speed.py [--rows 5000 | --first-sync 100000]

Real vaults and the real server, in one process on 127.0.0.1: rates are those of both ends together.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from first_sync import first_sync
from sync_devices import Devices, SyncDevice, devices
from sync_server import server_in_process

from memory_manager.sync.engine.loop import Pace
from memory_manager.sync.server.running import RunningServer

TEXT = "The build of the parser needs the flag for old tables; ask before changing it. " * 4
WAVE = 200
IDLE_ROUNDS = 50
SESSION_RENEWALS_AN_HOUR = 4  # sessions last 15 minutes
REQUESTS_OF_A_RENEWAL = 4  # a refused call, two of the login, a new connection for pokes


async def write(device: SyncDevice, rows: int) -> float:
    """Rows per second, in waves that the writer commits in groups."""
    begun = time.perf_counter()
    for start in range(0, rows, WAVE):
        await device.remember_many(min(WAVE, rows - start), f"{start} {TEXT}")
    return rows / (time.perf_counter() - begun)


async def rate(rows: int, work: Awaitable[object]) -> tuple[float, float]:
    """Rows per second, and CPU milliseconds a row of this process."""
    begun, cpu = time.perf_counter(), time.process_time()
    await work
    seconds, used = time.perf_counter() - begun, time.process_time() - cpu
    return round(rows / seconds, 1), round(used / rows * 1000, 3)


async def idle(device: SyncDevice) -> dict[str, object]:
    """Rounds in which nothing happens, and the time between them with a connection for pokes."""
    begun, before = time.process_time(), device.sync.client.requests
    for _ in range(IDLE_ROUNDS):
        await device.sync.sync_now()
    round_cpu = (time.process_time() - begun) / IDLE_ROUNDS
    requests = (device.sync.client.requests - before) / IDLE_ROUNDS
    begun, wall = time.process_time(), time.perf_counter()
    await asyncio.sleep(10.0)
    waiting = (time.process_time() - begun) / (time.perf_counter() - wall)
    rounds = 3600 / Pace().poll + SESSION_RENEWALS_AN_HOUR
    renewals = SESSION_RENEWALS_AN_HOUR * REQUESTS_OF_A_RENEWAL
    return {
        "requests_of_a_round": requests,
        "cpu_ms_of_a_round": round(round_cpu * 1000, 2),
        "requests_an_hour": round(requests * rounds + renewals),
        "cpu_seconds_an_hour": round(round_cpu * (rounds + renewals) + waiting * 3600, 2),
    }


async def measure(folder: Path, rows: int) -> dict[str, object]:
    report: dict[str, object] = {"rows": rows}
    async with server_in_process(folder / "server") as server, devices(folder) as made:
        await _measure(report, made, server, rows)
    return report


async def _measure(
    report: dict[str, object], made: Devices, server: RunningServer, rows: int
) -> None:
    alone = await made.new("alone")
    report["write_without_sync_rows_s"] = round(await write(alone, rows), 1)
    one = await made.found(server)
    report["write_with_sync_rows_s"] = round(await write(one, rows), 1)
    report["push_rows_s"], report["push_cpu_ms_a_row"] = await rate(rows, one.sync.sync_now())
    two = await made.new("two")
    begun = time.perf_counter()
    await made.let_in(one, two, server.url)
    report["join_seconds"] = round(time.perf_counter() - begun, 2)
    report["pull_rows_s"], report["pull_cpu_ms_a_row"] = await rate(rows, two.sync.sync_now())
    assert await two.count("record") == rows
    seeded = await made.new("seeded")
    await write(seeded, rows)
    await made.found_with(seeded, server)
    report["seal_and_push_existing_rows_s"], _ = await rate(rows, seeded.sync.sync_now())
    await two.close()
    report["idle"] = await idle(await made.take(two.home, Pace()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--first-sync", type=int, metavar="ROWS", help="instead: one large vault")
    options = parser.parse_args()
    os.umask(0o077)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.first_sync:
            report = asyncio.run(first_sync(folder, options.first_sync, TEXT))
        else:
            report = asyncio.run(measure(folder, options.rows))
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
