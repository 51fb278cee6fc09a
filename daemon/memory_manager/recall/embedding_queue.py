"""Fills in the vectors that rows still wait for: newest first, gently, through every restart.

The queue is a table, so nothing is lost by a kill at any time. One task owns the work; it yields
to queries and sleeps between batches while there is a backlog. Contract: recall.md 3.4, 10
(freshness).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING

import numpy as np

from memory_manager.base.errors import MemlocketError
from memory_manager.base.times import now_ms
from memory_manager.recall import embedding_models, near_pairs, vector_segments
from memory_manager.recall.embedder import (
    Embedder,
    EmbedderUnavailable,
    TextRefused,
    Vector,
)
from memory_manager.recall.embedding_models import StoredModel
from memory_manager.recall.errors import VectorRefused
from memory_manager.recall.fulltext import is_indexed
from memory_manager.recall.live_vectors import LiveVectors
from memory_manager.recall.settings import RecallSettings
from memory_manager.recall.text_rules import embedding_text
from memory_manager.recall.vector_codes import Codes, Floats, quantise
from memory_manager.recall.vector_gate import facts_of_row
from memory_manager.vault import queries
from memory_manager.vault.filters import RowFilter
from memory_manager.vault.rows import MemoryRow
from memory_manager.vault.store import Store

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

log = logging.getLogger(__name__)

POLL_SECONDS = 5.0
"""How often an absent or failed model is looked for again, and how long a failed write waits."""
IDLE_REFRESH_SECONDS = 60.0
"""How often an idle queue looks whether the settings name another model."""
MAX_WAIT_FOR_QUERIES_SECONDS = 2.0
MAX_ATTEMPTS = 2
_NEIGHBOURS = 5


@dataclasses.dataclass(frozen=True, slots=True)
class _Made:
    """A row and what the model made of it: codes, or None when it cannot be embedded."""

    row: MemoryRow
    scales: Floats | None
    codes: Codes | None
    broken: bool = False  # the model's output was unusable, which may be the model's fault


class QueryTraffic:
    """Counts running queries so that background work can step aside. Event loop only."""

    def __init__(self) -> None:
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()

    @contextlib.contextmanager
    def query(self) -> Generator[None]:
        self._running += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def quiet(self, at_most_seconds: float) -> None:
        """Returns when no query runs, or after the time: steady traffic must not starve the
        queue.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(at_most_seconds):
                await self._idle.wait()


class EmbeddingQueue:
    """``run`` is the owner's one task per open vault; ``changed`` is called from any thread."""

    def __init__(self, live: LiveVectors, traffic: QueryTraffic, settings: RecallSettings) -> None:
        self._live = live
        self._traffic = traffic
        self._settings = settings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work = asyncio.Event()
        self.length = 0
        """Rows that wait; kept by commits since ``prepare``, and exact when none does."""

    def changed(self, difference: int) -> None:
        """After a commit on the writer's thread: rows were queued or taken out."""
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        loop.call_soon_threadsafe(self._note, difference)

    def _note(self, difference: int) -> None:
        self.length = max(0, self.length + difference)
        if difference > 0:
            self._work.set()

    async def prepare(self, store: Store) -> None:
        """Count what waits; from here on commits keep the count."""
        self._loop = asyncio.get_running_loop()
        self.length = await store.read(embedding_models.queued)

    async def run(
        self,
        store: Store,
        embedder: Embedder,
        target: StoredModel,
        on_complete: Callable[[], Awaitable[None]],
    ) -> None:
        """Embed what is queued for ``target`` until cancelled or the embedder has another model.

        ``on_complete`` is awaited each time the queue has run empty.
        """
        paused_by: str | None = None
        while embedder.model_key == target.key:
            self._work.clear()
            batch = await store.read(self._next_rows)
            if not batch:
                if not self._work.is_set():
                    self.length = 0  # a commit beside ``prepare`` may have been counted twice
                await on_complete()
                await self._wait(IDLE_REFRESH_SECONDS)
                await embedder.refresh()
                continue
            await self._traffic.quiet(MAX_WAIT_FOR_QUERIES_SECONDS)
            started = time.monotonic()
            try:
                await self._embed(store, embedder, target, batch)
            except EmbedderUnavailable:
                await embedder.refresh()
                await self._wait(POLL_SECONDS)
                continue
            except MemlocketError as error:  # the vault is locked or cannot be written now
                if error.code != paused_by:
                    paused_by = error.code
                    log.warning("embedding_queue_paused", extra={"code": error.code})
                await asyncio.sleep(POLL_SECONDS)
                continue
            paused_by = None
            if len(batch) >= self._settings.embedding_batch:
                duty = self._settings.embedding_duty
                await asyncio.sleep((time.monotonic() - started) * (1 / duty - 1))

    async def _wait(self, seconds: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._work.wait()

    def _next_rows(self, connection: Connection) -> list[tuple[int, MemoryRow | None]]:
        rowids = [
            rowid
            for (rowid,) in connection.execute(
                "SELECT record_rowid FROM embedding_queue"
                " ORDER BY queued_at DESC, record_rowid DESC LIMIT ?",
                (self._settings.embedding_batch,),
            )
        ]
        rows = queries.rows_by_rowid(connection, rowids)
        return [(rowid, rows.get(rowid)) for rowid in rowids]

    async def _embed(
        self,
        store: Store,
        embedder: Embedder,
        target: StoredModel,
        batch: list[tuple[int, MemoryRow | None]],
    ) -> None:
        rows = [row for _, row in batch if row is not None and is_indexed(row)]
        kept = {row.rowid for row in rows}
        gone = [rowid for rowid, _ in batch if rowid not in kept]
        made: list[_Made] = []
        links: list[tuple[int, int, float]] = []
        if rows:
            vectors = await embedder.embed_documents([embedding_text(row) for row in rows])
            if embedder.model_key != target.key:
                return  # another model's vectors never enter this index
            made = [_quantised(row, v, target.dim) for row, v in zip(rows, vectors, strict=True)]
            links = await asyncio.to_thread(self._links, target, rows, vectors)
        await store.write(lambda transaction: self._save(transaction, target, made, gone, links))

    def _links(
        self, target: StoredModel, rows: list[MemoryRow], vectors: list[Vector | TextRefused]
    ) -> list[tuple[int, int, float]]:
        """Pairs of rows of one bucket and scope that say nearly the same."""
        found: list[tuple[int, int, float]] = []
        index = self._live.index_of(target.rowid)
        fresh = [
            (row, vector[0])
            for row, vector in zip(rows, vectors, strict=True)
            if not isinstance(vector, TextRefused)
            and len(vector) == 1
            and bool(np.isfinite(vector).all())
        ]
        for position, (row, vector) in enumerate(fresh):
            for other, other_vector in fresh[:position]:
                cosine = float(vector @ other_vector)
                if (row.bucket, row.scope) == (other.bucket, other.scope):
                    found.append((row.rowid, other.rowid, cosine))
            if index is not None:
                place = RowFilter(bucket=row.bucket, scope=row.scope)
                nearest = index.search(vector, place, now_ms(), _NEIGHBOURS)
                found += [
                    (row.rowid, rowid, cosine)
                    for rowid, cosine in zip(
                        nearest.rowids.tolist(), nearest.cosines.tolist(), strict=True
                    )
                    if rowid != row.rowid
                ]
        return [pair for pair in found if pair[2] >= near_pairs.NEAR_COSINE]

    def _save(
        self,
        transaction: Transaction,
        target: StoredModel,
        made: list[_Made],
        gone: list[int],
        links: list[tuple[int, int, float]],
    ) -> None:
        """Store vectors of rows that are still of the version that was embedded."""
        connection = transaction.connection
        done = sum(embedding_models.unqueue_row(connection, rowid) for rowid in gone)
        current = queries.rows_by_rowid(connection, [item.row.rowid for item in made])
        saved: set[int] = set()
        for item in made:
            row = current.get(item.row.rowid)
            if row is None or not is_indexed(row):
                done += embedding_models.unqueue_row(connection, item.row.rowid)
                continue
            if row.version != item.row.version and embedding_text(row) != embedding_text(item.row):
                continue  # stays queued: its text has changed meanwhile
            if item.codes is None or item.scales is None:
                done += _refuse(connection, target, item)
                continue
            vector_segments.add(connection, target.rowid, row.rowid, item.scales, item.codes)
            done += embedding_models.unqueue_row(connection, row.rowid)
            saved.add(row.rowid)
            self._publish(transaction, target, row, item.scales, item.codes)
        for one, other, cosine in links:
            known = one in saved and (other in saved or _has_row(connection, other))
            if known:
                near_pairs.add(connection, one, other, cosine, target.rowid)
        vector_segments.pack_tail(connection, target.rowid, target.dim)
        connection.execute(
            "UPDATE embedding_model SET covered = covered + ? WHERE model_rowid = ?",
            (len(saved), target.rowid),
        )
        transaction.after_commit(lambda: self.changed(-done))

    def _publish(
        self,
        transaction: Transaction,
        target: StoredModel,
        row: MemoryRow,
        scales: Floats,
        codes: Codes,
    ) -> None:
        facts = facts_of_row(row, self._live.book)
        transaction.after_commit(
            lambda: self._live.put(target.rowid, row.rowid, scales, codes, facts)
        )


def _quantised(row: MemoryRow, vectors: Vector | TextRefused, dim: int) -> _Made:
    if isinstance(vectors, TextRefused):
        return _Made(row, None, None)
    try:
        scales, codes = quantise(vectors, dim)
    except VectorRefused:
        return _Made(row, None, None, broken=True)
    return _Made(row, scales, codes)


def _refuse(connection: Connection, target: StoredModel, item: _Made) -> int:
    """Mark a row that the model cannot embed; an unusable vector gets a second try."""
    (attempts,) = connection.execute(
        "UPDATE embedding_queue SET attempts = attempts + 1, queued_at = queued_at - 1"
        " WHERE record_rowid = ? RETURNING attempts",
        (item.row.rowid,),
    ).fetchone() or (MAX_ATTEMPTS,)
    if item.broken and attempts < MAX_ATTEMPTS:
        return 0
    connection.execute(
        "INSERT OR IGNORE INTO unembeddable(record_rowid, model_rowid) VALUES(?, ?)",
        (item.row.rowid, target.rowid),
    )
    return int(embedding_models.unqueue_row(connection, item.row.rowid))


def _has_row(connection: Connection, rowid: int) -> bool:
    return (
        connection.execute(
            "SELECT 1 FROM record WHERE rowid = ? AND status <> 'deleted'", (rowid,)
        ).fetchone()
        is not None
    )
