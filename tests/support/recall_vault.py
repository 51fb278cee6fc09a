"""A small vault with recall around it, driven from an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from hash_embedder import HashEmbedder
from small_vault import SmallVault

from memory_manager.recall.embedder import Embedder
from memory_manager.recall.requests import SearchRequest, SearchResult
from memory_manager.recall.service import RecallService
from memory_manager.recall.settings import RecallSettings
from memory_manager.vault.filters import RowFilter

DEADLINE_SECONDS = 15.0


class RecallVault:
    def __init__(self, vault: SmallVault, recall: RecallService, embedder: Embedder) -> None:
        self.vault = vault
        self.recall = recall
        self.embedder = embedder

    def remember(self, content: str, path: str = "notes", **draft: Any) -> Any:
        return self.vault.remember(content, path, **draft).row

    async def search(
        self, query: str, row_filter: RowFilter | None = None, **more: Any
    ) -> SearchResult:
        return await self.recall.search(SearchRequest(query, row_filter or RowFilter(), **more))

    async def contents(
        self, query: str, row_filter: RowFilter | None = None, **more: Any
    ) -> list[str]:
        found = await self.search(query, row_filter, **more)
        return [hit.row.content for hit in found.hits]

    async def until(self, condition: Callable[[], Any]) -> None:
        """Poll until the condition holds; fails at the deadline."""
        limit = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            if time.monotonic() > limit:
                raise AssertionError("the condition did not come true")
            await asyncio.sleep(0.01)

    async def vectors_ready(self, rows: int) -> None:
        await self.until(
            lambda: (
                self.recall.status()["covered"] == rows
                and self.recall.status()["queued"] == 0
                and not self.recall.status()["building"]
            )
        )


@contextlib.asynccontextmanager
async def recall_vault(
    folder: Path, embedder: Embedder | None = None, settings: RecallSettings | None = None
) -> AsyncIterator[RecallVault]:
    """Opens (or creates) the vault in ``folder``; without an embedder only words answer."""
    used = embedder or HashEmbedder(key=None)
    recall = RecallService(used, settings)
    vault = SmallVault(folder, recall.indexers)
    try:
        await recall.open(vault.store)
        yield RecallVault(vault, recall, used)
    finally:
        await recall.close()
        vault.close()
