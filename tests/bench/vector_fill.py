"""Synthetic vectors in a real vault, through the product's own segment code.

Embedding 100 000 texts takes half an hour; what a search costs does not depend on what they mean.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from vector_speed import synthetic_vectors

from memory_manager.recall import embedding_models, vector_segments
from memory_manager.recall.vector_codes import quantise


def fill_vectors(connection: Any, model_key: str, dim: int) -> int:
    """One vector for every live row, the model active, nothing queued; how many there are."""
    connection.execute("BEGIN IMMEDIATE")
    model = embedding_models.enter(connection, model_key, dim, None, int(time.time() * 1000))
    rowids = np.array(
        [r for (r,) in connection.execute("SELECT rowid FROM record WHERE status <> 'deleted'")],
        np.int64,
    )
    connection.execute("DELETE FROM vector_tail")
    connection.execute("DELETE FROM vector_slot")
    connection.execute("DELETE FROM vector_segment")
    step = vector_segments.SEGMENT_SLOTS
    for start in range(0, len(rowids), step):
        part = rowids[start : start + step]
        vectors = synthetic_vectors(len(part), seed=start)
        scales, codes = quantise(vectors, dim)
        vector_segments.write_segment(
            connection,
            model.rowid,
            vector_segments.StoredVectors(part, np.zeros(len(part), np.int64), scales, codes),
        )
    connection.execute("DELETE FROM embedding_queue")
    embedding_models.activate(connection, model.rowid)
    connection.execute("COMMIT")
    return len(rowids)
