"""The embedder that a sync server's index gets: a real prepared model, or none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from memory_manager.recall.models.installed import PreparedModel
from memory_manager.service.index_embedder import index_embedder
from memory_manager.sync.server.index.vectors import EmbedderFailed


@pytest.mark.embed
async def test_texts_of_one_topic_stand_nearer(minilm: PreparedModel, models_folder: Path) -> None:
    async with index_embedder(models_folder) as embedder:
        assert embedder.model is not None
        texts = ["lunch costs nine euros", "the automobile stands in bay 4"] * 20
        documents = await embedder.documents(texts)  # waits for the worker, which a query does not
        query = await embedder.query("where is my car?")
    assert len(documents) == 40
    lunch, automobile = (float(np.max(d @ query)) for d in documents[:2] if d is not None)
    assert automobile > lunch
    assert np.linalg.norm(query) == pytest.approx(1.0, abs=1e-3)


async def test_a_folder_without_a_model_leaves_recall_to_the_words(tmp_path: Path) -> None:
    async with index_embedder(tmp_path) as embedder:
        assert embedder.model is None
        with pytest.raises(EmbedderFailed):
            await embedder.query("where is my car?")
        with pytest.raises(EmbedderFailed):
            await embedder.documents(["the automobile stands in bay 4"])
