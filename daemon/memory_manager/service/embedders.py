"""Which embedder a daemon gets: the prepared model's worker, or none."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NoReturn

from memory_manager.base.directories import Directories
from memory_manager.recall.embedder import (
    Embedder,
    EmbedderState,
    EmbedderStatus,
    EmbedderUnavailable,
    TextKind,
)
from memory_manager.recall.models.installed import InstalledModels
from memory_manager.recall.models.settings import EmbeddingSettings
from memory_manager.recall.worker_embedder import WorkerEmbedder, WorkerOptions


class EmbeddingsMode(enum.StrEnum):
    """``off`` answers by words only, whatever is installed."""

    AUTO = "auto"
    OFF = "off"


class NoEmbedder:
    """An Embedder that was switched off: recall answers by words and says so."""

    model_key = None
    dim = None
    manifest_json = None

    def status(self) -> EmbedderStatus:
        return EmbedderStatus(
            state=EmbedderState.ABSENT,
            model_key=None,
            backend=None,
            worker_rss_bytes=None,
            last_error="embeddings_off",
            remedy="Embeddings are switched off for this run; restart without that option.",
        )

    async def refresh(self, *, retry: bool = False) -> None:
        return None

    def sibling(self, model_key: str) -> None:
        return None

    async def embed_query(
        self, text: str, timeout_seconds: float, *, kind: TextKind = TextKind.QUERY
    ) -> NoReturn:
        raise EmbedderUnavailable

    async def embed_documents(self, texts: Sequence[str]) -> NoReturn:
        raise EmbedderUnavailable

    async def stop(self) -> None:
        return None


def choose_embedder(mode: EmbeddingsMode, directories: Directories) -> Embedder:
    """The embedder for this run; which model it finds may change while the daemon runs."""
    if mode is EmbeddingsMode.OFF:
        return NoEmbedder()
    settings = EmbeddingSettings()
    options = WorkerOptions(idle_stop_seconds=settings.idle_stop_seconds)
    return WorkerEmbedder(InstalledModels(directories.models, settings), options)
