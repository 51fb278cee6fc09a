"""The first sync of a large vault: both devices in this process, the server in one of its own.

Seconds, CPU and peak memory of both sides for sealing and sending everything, then for a second
device that takes it all in; and whether the progress in the status moved.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import time
from collections.abc import Awaitable
from pathlib import Path

import psutil
from figures import ProcessCost
from small_vault import writer
from sync_devices import Devices, SyncDevice, devices
from sync_server import ServerProcess

from memory_manager.sync.engine.transport import Limits
from memory_manager.sync.membership.founding import ServerAddress
from memory_manager.vault.rows import MemoryDraft
from memory_manager.vault.transaction import Transaction

FILLED_AT_ONCE = 500
LOOK_SECONDS = 0.25
_RESET_PEAK = "5"  # of /proc/PID/clear_refs


async def first_sync(folder: Path, rows: int, text: str) -> dict[str, object]:
    report: dict[str, object] = {"rows": rows}
    with ServerProcess(folder / "server") as server:
        async with devices(folder) as made:
            made.limits = Limits()
            one = await _filled(made, rows, text)
            print(f"filled with {rows} rows", file=sys.stderr)
            token = await asyncio.to_thread(server.registration_token)
            address = ServerAddress(server.url)
            await one.membership.set_up(address, token, name="one", grant=None, words=None)
            report["seal and push"] = await _watched(one, server, rows, one.sync.sync_now())
            two = await made.new("two")
            await made.let_in(one, two, server.url)
            report["pull"] = await _watched(two, server, rows, two.sync.sync_now())
            assert await two.count("record") == rows
            report["heads_agree"] = (await one.verified()) == (await two.verified())
            await one.close()
            await two.close()
        report["device_octets_per_row"] = round(_octets(folder / "two") / rows)
        report["server_octets_per_row"] = round(_octets(server.data) / rows)
    return report


async def _filled(made: Devices, rows: int, text: str) -> SyncDevice:
    device = await made.new("one")

    def fill(transaction: Transaction, numbers: range) -> None:
        for number in numbers:
            draft = MemoryDraft(f"{number} {text}", "notes")
            device.memories.remember(transaction, draft, writer())

    for start in range(0, rows, FILLED_AT_ONCE):
        numbers = range(start, min(start + FILLED_AT_ONCE, rows))
        await device.store.write(lambda tx, numbers=numbers: fill(tx, numbers))
    return device


@dataclasses.dataclass
class _Watch:
    """What the status said of progress while it was looked at."""

    device: SyncDevice
    seen: dict[str, list[tuple[int, int]]] = dataclasses.field(default_factory=dict)

    async def look(self) -> None:
        while True:
            said = self.device.sync.status()["progress"]
            if isinstance(said, dict):
                done = (said["done"], said["total"])
                places = self.seen.setdefault(said["phase"], [])
                if not places or places[-1] != done:
                    places.append(done)
            await asyncio.sleep(LOOK_SECONDS)

    def moves(self) -> dict[str, object]:
        return {
            phase: {
                "values": len(places),
                "forward": places == sorted(places),
                "last": places[-1],
            }
            for phase, places in self.seen.items()
        }


async def _watched(
    device: SyncDevice, server: ServerProcess, rows: int, work: Awaitable[object]
) -> dict[str, object]:
    assert server.process is not None
    sides = {"device": psutil.Process(), "server": psutil.Process(server.process.pid)}
    for process in sides.values():
        _forget_peak(process.pid)
    costs = {name: ProcessCost([process]) for name, process in sides.items()}
    before = {name: cost.cpu_seconds() for name, cost in costs.items()}
    watch = _Watch(device)
    looking = asyncio.ensure_future(watch.look())
    begun = time.perf_counter()
    try:
        await work
    finally:
        looking.cancel()
    seconds = time.perf_counter() - begun
    report: dict[str, object] = {"seconds": round(seconds, 1), "rows_per_s": round(rows / seconds)}
    for name, cost in costs.items():
        report[f"{name}_cpu_seconds"] = round(cost.cpu_seconds() - before[name], 1)
        report[f"{name}_peak_mb"] = _peak_mb(sides[name].pid)
    report["progress"] = watch.moves()
    print(json.dumps(report), file=sys.stderr)  # the run is long: each part as soon as it is there
    return report


def _forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text(_RESET_PEAK)


def _peak_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return round(int(line.split()[1]) / 1000, 1)
    raise LookupError("this system does not say how much memory a process had at most")


def _octets(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.db*"))
