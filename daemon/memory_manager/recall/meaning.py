"""The meaning leg of recall: which model answers queries, which one is being built, and their
indexes.

Owns the in-memory vectors and the queue that fills them. Contract: recall.md 2, 3.4, 6.2, 11.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from typing import TYPE_CHECKING

import numpy as np

from memory_manager.base.errors import MemlocketError
from memory_manager.recall import embedding_models, vector_segments
from memory_manager.recall.embedder import Embedder, EmbedderUnavailable, TextKind
from memory_manager.recall.embedding_models import ModelState, StoredModel
from memory_manager.recall.embedding_queue import POLL_SECONDS, EmbeddingQueue, QueryTraffic
from memory_manager.recall.live_vectors import LiveVectors
from memory_manager.recall.requests import Degraded, Leg, SearchRequest
from memory_manager.recall.row_gate import RowGate
from memory_manager.recall.settings import RecallSettings
from memory_manager.recall.vector_codes import Floats
from memory_manager.recall.vector_index import Nearest, VectorIndex
from memory_manager.recall.vector_indexer import VectorIndexer
from memory_manager.vault.store import Store

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

log = logging.getLogger(__name__)

HYPOTHETICAL_WEIGHT = 0.3
_HOUSEKEEPING_PAUSE_SECONDS = 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class MeaningQuery:
    """A query vector together with the index of the same model."""

    vector: Floats
    index: VectorIndex
    nearest: Nearest


@dataclasses.dataclass(frozen=True, slots=True)
class _Answering:
    model: StoredModel
    embedder: Embedder


class MeaningLeg:
    """``gate`` belongs to the caller, who loads it, follows commits with it and empties it."""

    def __init__(self, embedder: Embedder, settings: RecallSettings, gate: RowGate) -> None:
        self._embedder = embedder
        self._settings = settings
        self.live = LiveVectors(gate, settings.rescore)
        self.traffic = QueryTraffic()
        self.queue = EmbeddingQueue(self.live, self.traffic, settings)
        self.indexer = VectorIndexer(self.live, self.queue.changed)
        self._answering: _Answering | None = None
        self._target: StoredModel | None = None
        self._error: str | None = None
        self.first_loaded: float | None = None  # monotonic, since this process began

    @property
    def switched_off(self) -> bool:
        return not self._settings.ranking.semantic_weight

    @property
    def model_key(self) -> str | None:
        """Key of the model whose vectors answer queries now."""
        return self._answering.model.key if self._answering else None

    async def run(self, store: Store) -> None:
        """Load, serve and fill until cancelled. A model that appears later is taken up."""
        while True:
            try:
                key = self._embedder.model_key or await self._embedder.refresh()
                if key is not None and self._embedder.dim is not None:
                    await self._serve(store, key, self._embedder.dim)
                    continue  # the embedder has another model now
            except Exception as error:  # words go on; the reason is shown and the next try comes
                self._error = error.code if isinstance(error, MemlocketError) else "internal_error"
                log.warning(
                    "recall_vectors_unavailable",
                    extra={"code": self._error, "error_type": type(error).__name__},
                )
            await asyncio.sleep(POLL_SECONDS)

    async def _serve(self, store: Store, key: str, dim: int) -> None:
        target = await self._enter(store, key, dim)
        self._target = target
        answering = _Answering(target, self._embedder)
        if target.state is ModelState.BUILDING:
            active = await store.read(embedding_models.active_model)
            old = self._embedder.sibling(active.key) if active and active.key != key else None
            if active is not None and old is not None:
                answering = _Answering(active, old)
        await self._load(store, answering.model)
        await self.queue.prepare(store)
        self._answering, self._error = answering, None
        self.first_loaded = self.first_loaded or time.monotonic()
        try:
            await self.queue.run(store, self._embedder, target, lambda: self._complete(store))
        finally:
            await self._stop_answering()

    async def _stop_answering(self) -> None:
        answering, self._answering = self._answering, None
        if answering is None:
            return
        if answering.embedder is not self._embedder:
            await answering.embedder.stop()
        self.live.discard(answering.model.rowid)

    async def _enter(self, store: Store, key: str, dim: int) -> StoredModel:
        models = await store.read(embedding_models.stored_models)
        usable = [m for m in models if m.state is not ModelState.RETIRED]
        if [m.key for m in usable] == [key]:
            return usable[0]  # nothing to note: unlocking writes nothing
        manifest = self._embedder.manifest_json

        def enter(transaction: Transaction) -> StoredModel:
            return embedding_models.enter(
                transaction.connection, key, dim, manifest, transaction.now_ms
            )

        return await store.write(enter)

    async def _load(self, store: Store, model: StoredModel) -> None:
        self.live.expect(model.rowid)
        report = await store.read(lambda connection: self.live.load(connection, model))
        if report.clean:
            return
        log.warning(
            "stored_vectors_damaged",
            extra={"segments": len(report.damaged_segments), "rows": len(report.doubled_rows)},
        )

        def mend(transaction: Transaction) -> None:
            for segment_id in report.damaged_segments:
                vector_segments.delete_segment(transaction.connection, segment_id)
            for rowid in report.doubled_rows:
                vector_segments.remove(transaction.connection, rowid, model.rowid)
            embedding_models.queue_missing(transaction.connection, model.rowid)

        await store.write(mend)

    async def _complete(self, store: Store) -> None:
        """The queue is empty: a model in building becomes active, old vectors go, holes are
        closed.
        """
        target, answering = self._target, self._answering
        if target is None or answering is None:
            return
        if target.state is ModelState.BUILDING:
            if answering.model.rowid != target.rowid:
                await self._load(store, target)
            complete = dataclasses.replace(target, state=ModelState.ACTIVE)
            await store.write(lambda t: embedding_models.activate(t.connection, complete.rowid))
            self._target = target = complete
            self._answering = _Answering(target, self._embedder)
            if answering.embedder is not self._embedder:
                await answering.embedder.stop()
                self.live.discard(answering.model.rowid)
        await self._tidy(store, target)

    async def _tidy(self, store: Store, target: StoredModel) -> None:
        def due(connection: Connection) -> bool:
            return embedding_models.tidying_due(connection, target.rowid)

        def step(transaction: Transaction) -> bool:
            connection = transaction.connection
            return embedding_models.drop_some_retired(connection, target.rowid) or (
                vector_segments.repack_one(connection, target.rowid, target.dim)
            )

        while await store.read(due) and await store.write(step):
            await self.traffic.quiet(POLL_SECONDS)
            await asyncio.sleep(_HOUSEKEEPING_PAUSE_SECONDS)

    async def nearest(
        self, request: SearchRequest, moment_ms: int
    ) -> tuple[MeaningQuery | None, tuple[Degraded, ...]]:
        """The rows nearest in meaning, or why there are none. Never waits beyond the query
        deadline.
        """
        if self.switched_off or request.leg is Leg.WORDS:
            return None, ()
        if self._embedder.model_key is None or self._error is not None:
            return None, (Degraded.EMBEDDINGS,)
        answering = self._answering
        index = self.live.index_of(answering.model.rowid) if answering else None
        if answering is None or index is None:
            return None, (Degraded.EMBEDDINGS_LOADING,)
        if not index.vectors and not self.queue.length:
            return None, ()  # nothing to find: no worker is started for it
        building: tuple[Degraded, ...] = ()
        if answering.model.state is ModelState.BUILDING:
            building = (Degraded.EMBEDDINGS_BUILDING,)
        try:
            vector = await self._query_vector(answering.embedder, request)
        except EmbedderUnavailable:
            return None, (Degraded.EMBEDDINGS,)
        if vector.shape != (index.dim,):
            return None, (Degraded.EMBEDDINGS,)
        nearest = await asyncio.to_thread(
            index.search, vector, request.filter, moment_ms, self._settings.ranking.candidates
        )
        return MeaningQuery(vector, index, nearest), building

    async def _query_vector(self, embedder: Embedder, request: SearchRequest) -> Floats:
        timeout = self._settings.query_embed_timeout_ms / 1000
        if not request.hypothetical_answer:
            return await embedder.embed_query(request.query, timeout)
        query, answer = await asyncio.gather(
            embedder.embed_query(request.query, timeout),
            embedder.embed_query(request.hypothetical_answer, timeout, kind=TextKind.DOCUMENT),
            return_exceptions=True,
        )
        if isinstance(query, BaseException):
            raise query
        if isinstance(answer, BaseException):
            return query  # the guess at an answer only helps; it may miss the deadline
        mixed = (1 - HYPOTHETICAL_WEIGHT) * query + HYPOTHETICAL_WEIGHT * answer
        return (mixed / max(float(np.linalg.norm(mixed)), 1e-9)).astype(np.float32)

    async def close(self) -> None:
        """Wipe vectors and query caches, kill the workers."""
        answering, self._answering = self._answering, None
        self._target = None
        self.live.wipe()
        if answering is not None and answering.embedder is not self._embedder:
            await answering.embedder.stop()
        await self._embedder.stop()

    def index_size(self) -> dict[str, int]:
        answering = self._answering
        index = self.live.index_of(answering.model.rowid) if answering else None
        return {
            "vectors": index.vectors if index else 0,
            "bytes": index.allocated_bytes if index else 0,
        }

    def status(self) -> dict[str, object]:
        """States, codes and sizes; no text. The block ``embeddings`` of recall.md 11."""
        worker = self._embedder.status()
        answering, target = self._answering, self._target
        index = self.live.index_of(answering.model.rowid) if answering else None
        return {
            "state": worker.state.value,
            "model_key": worker.model_key,
            "backend": worker.backend,
            "covered": index.rows if index else 0,
            "queued": self.queue.length,
            "worker_rss_bytes": worker.worker_rss_bytes,
            "last_error": self._error or worker.last_error,
            "remedy": worker.remedy,
            "answering_model_key": answering.model.key if answering else None,
            "building": bool(target and target.state is ModelState.BUILDING),
            "index": {"rows": index.rows if index else 0, **self.index_size()},
        }
