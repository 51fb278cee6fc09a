"""A process with sync on that writes and takes in pages until it is killed.

Run as ``python sync_load.py FOLDER SEED``. The folder holds the vault of ``founder`` and numbered
page files of another device's rows. One line per event: ``ready``, ``ack ID VERSION``, ``page N``.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from pathlib import Path

from ledger_world import BatchServer, LedgerDevice
from small_vault import writer
from sync_world import Founded, Keys

from memory_manager.base.identifiers import MemoryId
from memory_manager.sync.wire.framing import unpack_page
from memory_manager.vault.rows import ForgetMode, MemoryChange, MemoryDraft

WRITERS = 3
PAGE_ROWS = 5


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def members() -> tuple[Founded, Keys, BatchServer]:
    """A vault whose keys follow from a number, with the keys of its second device."""
    founded = Founded(random.Random(11))
    return founded, founded.add(), BatchServer(founded.vault, random.Random(12))


def founder(folder: Path) -> LedgerDevice:
    """The first device; its server is empty."""
    founded, _, server = members()
    return LedgerDevice(folder, founded, founded.first, server)


def write_for_ever(device: LedgerDevice, rng: random.Random) -> None:
    own: list[MemoryId] = []
    while True:
        choice = rng.random()
        text = f"{rng.random()} " + "padding " * rng.choice((1, 50, 1_000))
        if not own or choice < 0.6:
            draft = MemoryDraft(text, "load")
            outcome = device.write(lambda tx, d=draft: device.memories.remember(tx, d, writer()))
        elif choice < 0.85:
            chosen, change = rng.choice(own), MemoryChange(content=text)
            outcome = device.write(
                lambda tx, c=chosen, d=change: device.memories.update(tx, c, d, writer())
            )
        else:
            chosen = own.pop()
            mode = rng.choice(list(ForgetMode))
            outcome = device.write(
                lambda tx, c=chosen, m=mode: device.memories.forget(
                    tx, c, m, writer(), owner_confirmed=True
                )
            )
        row = outcome.row
        say(f"ack {row.id} {row.version}")
        if choice < 0.6:
            own.append(row.id)


def take_pages(device: LedgerDevice, folder: Path) -> None:
    while True:
        path = folder / f"page-{device.state.n // PAGE_ROWS}"
        if not path.exists():
            return
        device.take(unpack_page(path.read_bytes()))
        say(f"page {device.state.n}")


def main() -> None:
    folder, seed = Path(sys.argv[1]), int(sys.argv[2])
    os.umask(0o077)
    device = founder(folder)
    say("ready")
    for number in range(WRITERS):
        rng = random.Random(seed * WRITERS + number)
        threading.Thread(target=write_for_ever, args=(device, rng), daemon=True).start()
    threading.Thread(target=take_pages, args=(device, folder), daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
