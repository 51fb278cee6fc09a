"""A device as a process of its own that writes by itself until it is killed or told to stop.

``python sync_writer.py ROOT SEED ACTS``: opens the vault in ROOT, syncs, and does acts until ACTS
of them are acknowledged, over all its lives. An acknowledged act is one line of ROOT.acts, written
after the vault said it is durable. ROOT.stop ends it; then it waits until the outbox is empty.
Whenever the deletion breaker asks, it confirms. After a third of its acts the device TIDIES deletes
every memory in OLD.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from pathlib import Path

from small_vault import writer
from sync_devices import EAGER, SyncDevice
from vault_harness import VaultHome

from memory_manager.base.errors import NotFound
from memory_manager.base.identifiers import MemoryId
from memory_manager.vault.errors import Conflict
from memory_manager.vault.rows import ForgetMode, MemoryChange, MemoryDraft
from memory_manager.vault.transaction import Transaction

WAVE = 12
SETTLE_SECONDS = 90
TIDIES = "one"
OLD = "old"
DELETE = 0.95


class Writer:
    def __init__(self, root: Path, seed: int) -> None:
        self.device = SyncDevice(VaultHome(root), EAGER)
        self.source = random.Random(f"{seed} {os.getpid()}")
        self.name = root.name
        path = root.with_suffix(".acts")
        whole = path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []
        self.done = len(whole)
        path.write_text("".join(f"{line}\n" for line in whole))  # a line cut short goes
        self.log = path.open("a")
        self.serial = 0

    async def run(self, stop: Path, acts: int) -> None:
        await self.device.open()
        while self.done < acts and not await asyncio.to_thread(stop.exists):
            await self.device.answer_breaker()
            old = await self.known(OLD) if self.name == TIDIES and self.done > acts // 3 else []
            known = old or await self.known("%")
            made = await asyncio.gather(*(self.act(known, tidy=bool(old)) for _ in range(WAVE)))
            for line in made:
                if line is not None:
                    self.log.write(json.dumps(line) + "\n")
                    self.done += 1
            self.log.flush()
            os.fsync(self.log.fileno())
        while not await asyncio.to_thread(stop.exists):
            await self.device.answer_breaker()
            await asyncio.sleep(0.02)
        await self.settle()
        await self.device.close()

    async def settle(self) -> None:
        """Until everything is pushed; says what stands in the way."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            said = await self.device.answer_breaker()
            if said["outbox"] == 0 and said["state"] == "ok":
                return
            if time.monotonic() > deadline:
                raise SystemExit(f"never settled: {said}")
            await asyncio.sleep(0.05)

    async def known(self, path: str) -> list[MemoryId]:
        return await self.device.store.read(
            lambda c: [
                MemoryId(f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}")
                for (h,) in c.execute(
                    "SELECT lower(hex(id)) FROM record WHERE status <> 'deleted' AND path LIKE ?"
                    " ORDER BY random() LIMIT 50",
                    (path,),
                )
            ]
        )

    async def act(self, known: list[MemoryId], *, tidy: bool) -> list[str] | None:
        """One act: ``[what, memory id, text]`` once it is durable, None when another came first."""
        self.serial += 1
        text = f"{self.name} {os.getpid()} {self.serial}"
        chance = DELETE if tidy else self.source.random()
        memories, who = self.device.memories, writer(self.name)

        def work(transaction: Transaction) -> list[str]:
            if chance < 0.8 or not known:
                draft = MemoryDraft(text, "notes")
                return ["remember", memories.remember(transaction, draft, who).row.id, text]
            memory_id = self.source.choice(known)
            if chance < DELETE:
                change = MemoryChange(content=text)
                memories.update(transaction, memory_id, change, who)
                return ["update", memory_id, text]
            mode = ForgetMode.HARD_DELETE if chance > 0.99 else ForgetMode.SOFT_DELETE
            final = mode is ForgetMode.HARD_DELETE
            memories.forget(transaction, memory_id, mode, who, owner_confirmed=final)
            return ["forget" if final else "delete", memory_id, ""]

        try:
            return await self.device.store.write(work)
        except (NotFound, Conflict):
            return None


if __name__ == "__main__":
    root, seed, acts = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    asyncio.run(Writer(root, seed).run(root.with_suffix(".stop"), acts))
