"""A process that writes through the store until it is killed, and says what was acknowledged.

Run as ``python store_load.py FOLDER SEED``. One line per event on standard output, each in a single
``write`` call: ``ready``, ``generation N``, ``ack ID VERSION DIGEST``.
"""

from __future__ import annotations

import hashlib
import os
import random
import sys
import threading
from pathlib import Path

from small_vault import SmallVault, writer

from memory_manager.base.identifiers import MemoryId
from memory_manager.vault.rows import (
    ForgetMode,
    MemoryChange,
    MemoryDraft,
    MemoryRow,
    WriteOutcome,
)
from memory_manager.vault.transaction import Transaction

WRITERS = 4


class ShadowIndex:
    """A derived index in a table of its own: it must never differ from the live rows."""

    def row_changed(
        self, transaction: Transaction, before: MemoryRow | None, after: MemoryRow | None
    ) -> None:
        execute = transaction.connection.execute
        if before is not None:
            execute("DELETE FROM shadow WHERE record_rowid = ?", (before.rowid,))
        if after is not None:
            execute("INSERT INTO shadow VALUES(?, ?)", (after.rowid, digest(after.content)))


def digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def acknowledge(outcome: WriteOutcome) -> MemoryId:
    row = outcome.row
    say(f"ack {row.id} {row.version} {digest(row.content)}")
    return row.id


def write_for_ever(vault: SmallVault, rng: random.Random) -> None:
    own: list[MemoryId] = []
    memories = vault.memories
    while True:
        text = f"{rng.random()} " + "padding " * rng.choice((1, 50, 2_000))
        choice = rng.random()
        if not own or choice < 0.5:
            batch = [
                vault.store.submit(
                    lambda tx, text=text, n=n: memories.remember(
                        tx, MemoryDraft(f"{text}{n}", "load"), writer()
                    )
                )
                for n in range(rng.choice((1, 1, 5)))
            ]
            own += [acknowledge(future.result()) for future in batch]
        elif choice < 0.8:
            chosen, change = rng.choice(own), MemoryChange(content=text)
            acknowledge(
                vault.write(
                    lambda tx, chosen=chosen, change=change: memories.update(
                        tx, chosen, change, writer()
                    )
                )
            )
        else:
            chosen = rng.choice(own)
            mode = rng.choice((ForgetMode.SOFT_DELETE, ForgetMode.REDACT))
            acknowledge(
                vault.write(
                    lambda tx, chosen=chosen, mode=mode: memories.forget(tx, chosen, mode, writer())
                )
            )
            own.remove(chosen)


def main() -> None:
    folder, seed = Path(sys.argv[1]), int(sys.argv[2])
    vault = SmallVault(
        folder, [ShadowIndex()], on_commit=lambda generation, _: say(f"generation {generation}")
    )
    vault.write(
        lambda tx: tx.connection.execute(
            "CREATE TABLE IF NOT EXISTS shadow(record_rowid INTEGER PRIMARY KEY, digest TEXT)"
        )
    )
    say("ready")
    for number in range(WRITERS):
        rng = random.Random(seed * WRITERS + number)
        threading.Thread(target=write_for_ever, args=(vault, rng), daemon=True).start()
    threading.Event().wait()


if __name__ == "__main__":
    main()
