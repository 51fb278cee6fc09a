"""Stands for a daemon that is killed: starts a worker, prints its pid, waits.

``python worker_parent.py PROGRAM FOLDER``
"""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from pathlib import Path

from memory_manager.recall.models.installed import PreparedModel, read_model
from memory_manager.recall.worker_embedder import WorkerEmbedder, WorkerOptions


@dataclasses.dataclass
class OneFolder:
    """Locator whose answer tests change."""

    model: PreparedModel | None

    def find(self) -> PreparedModel | None:
        return self.model

    def by_key(self, model_key: str) -> PreparedModel | None:
        return self.model if self.model and self.model.model_key == model_key else None


async def main(program: str, folder: str) -> None:
    options = WorkerOptions(command=(sys.executable, program))
    embedder = WorkerEmbedder(OneFolder(read_model(Path(folder))), options)
    await embedder.embed_query("a", 20)
    print(embedder.worker_pid, flush=True)
    await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
