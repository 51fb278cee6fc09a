"""The recall package's embedder as the index of a sync server wants it.

The one place where the two meet: the server's package may not know recall.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Final

from memory_manager.recall.embedder import (
    MAX_BATCH_TEXTS,
    Embedder,
    EmbedderUnavailable,
    TextRefused,
)
from memory_manager.recall.models.installed import InstalledModels
from memory_manager.recall.models.settings import EmbeddingSettings
from memory_manager.recall.worker_embedder import WorkerEmbedder, WorkerOptions
from memory_manager.sync.server.index.storage import Matrix
from memory_manager.sync.server.index.vectors import EmbedderFailed

QUERY_SECONDS: Final = 3.0


class IndexEmbedder:
    """Vectors of texts that were opted in, from a worker process that starts at the first one."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    @property
    def model(self) -> str | None:
        return self._embedder.model_key

    async def query(self, text: str) -> Matrix:
        """Shape ``(dim,)``; EmbedderFailed also when it takes longer than QUERY_SECONDS."""
        try:
            return await self._embedder.embed_query(text, QUERY_SECONDS)
        except (EmbedderUnavailable, TextRefused):
            raise EmbedderFailed from None

    async def documents(self, texts: Sequence[str]) -> list[Matrix | None]:
        """Per text shape ``(pieces, dim)``, None for one that the model refuses; EmbedderFailed."""
        found: list[Matrix | None] = []
        for at in range(0, len(texts), MAX_BATCH_TEXTS):
            try:
                batch = await self._embedder.embed_documents(texts[at : at + MAX_BATCH_TEXTS])
            except EmbedderUnavailable:
                raise EmbedderFailed from None
            found += [None if isinstance(vector, TextRefused) else vector for vector in batch]
        return found


@contextlib.asynccontextmanager
async def index_embedder(models: Path) -> AsyncGenerator[IndexEmbedder]:
    """The embedder of the prepared model in the folder ``models``, stopped at the end."""
    settings = EmbeddingSettings()
    options = WorkerOptions(idle_stop_seconds=settings.idle_stop_seconds)
    embedder = WorkerEmbedder(InstalledModels(models, settings), options)
    await embedder.refresh()
    try:
        yield IndexEmbedder(embedder)
    finally:
        await embedder.stop()
