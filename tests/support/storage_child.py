"""A server process that pushes to its storage and says what was acknowledged, until it is killed.

Arguments: kind, place, seed of the vault, devices of it, numbers of those that push here, batches.
It says ``ready`` and begins when its standard input ends. Every further line on standard output is
one acknowledged push: device number, seq, n, G in hex.
"""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from stored_vault import StoredVault, opener

from memory_manager.sync.server.storage import Storage

MAX_ROWS = 3


class Acknowledged(NamedTuple):
    who: int
    seq: int
    n: int
    g: bytes


def start_child(
    kind: str, place: str, seed: str, devices: int, pushing: Sequence[int], batches: int
) -> subprocess.Popen[str]:
    """A process of this file."""
    numbers = ",".join(map(str, pushing))
    return subprocess.Popen(
        [sys.executable, __file__, kind, place, seed, str(devices), numbers, str(batches)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def let_go(children: Sequence[subprocess.Popen[str]]) -> None:
    """They all begin once the last of them is ready."""
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.close()


def read_line(line: str) -> Acknowledged:
    who, seq, n, g = line.split()
    return Acknowledged(int(who), int(seq), int(n), bytes.fromhex(g))


async def push(storage: Storage, vault: StoredVault, who: int, batches: int) -> None:
    for _ in range(batches):
        pushed = vault.batch(who, vault.source.randrange(MAX_ROWS) + 1)
        answer = await vault.push(storage, pushed)
        seq = pushed.rows[-1].entry.seq
        print(who, seq, answer.head.n, answer.head.g.hex(), flush=True)


async def main(kind: str, place: str, seed: str, devices: str, who: str, batches: str) -> None:
    vault = StoredVault(seed, int(devices))
    # what this process writes is new each time it runs
    vault.founded.source = vault.source = random.Random()
    async with opener(kind, Path(place), place)() as storage:
        stored = (await vault.pull(storage)).rows
        for device in vault.devices:
            device.own = [row for row in stored if row.entry.device == device.keys.id]
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        async with asyncio.TaskGroup() as group:
            for number in who.split(","):
                group.create_task(push(storage, vault, int(number), int(batches)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
