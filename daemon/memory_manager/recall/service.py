"""Recall as one component of the daemon: opened with the vault, closed by the lock.

It owns the word index, the vector index and the queue that fills it, and asks an embedder for vectors.
Contract: recall.md 8-11.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memory_manager.base.times import now_ms
from memory_manager.recall import search
from memory_manager.recall.context_pack import pack
from memory_manager.recall.embedder import Embedder
from memory_manager.recall.errors import FullTextDamaged
from memory_manager.recall.fulltext import NO_WORD_HITS, FullTextIndex, WordHits
from memory_manager.recall.fusion import FusedRow, MeaningHits, fuse
from memory_manager.recall.match_query import is_listing, query_terms
from memory_manager.recall.requests import (
    ContextPack,
    Degraded,
    Hit,
    SearchRequest,
    SearchResult,
)
from memory_manager.recall.settings import RecallSettings
from memory_manager.vault import queries
from memory_manager.vault.errors import LockReason, VaultLocked
from memory_manager.vault.store import Store
from memory_manager.vault.transaction import RowIndexer

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection


@dataclasses.dataclass(frozen=True, slots=True)
class _Words:
    hits: WordHits
    exact: Sequence[int]
    damaged: bool


class RecallService:
    """All public methods are coroutines of the daemon's loop unless they say otherwise."""

    def __init__(self, embedder: Embedder, settings: RecallSettings = RecallSettings()) -> None:
        self._embedder = embedder
        self._settings = settings
        self._fulltext = FullTextIndex()
        self._store: Store | None = None

    @property
    def indexers(self) -> Sequence[RowIndexer]:
        """What every write of a row must pass through, in its own transaction."""
        return (self._fulltext,)

    async def open(self, store: Store) -> None:
        """After unlock. Words answer at once; vectors are loaded in the background."""
        self._store = store

    async def close(self) -> None:
        """Before lock: everything that holds memory text or vectors is wiped."""
        self._store = None
        self._fulltext.vocabulary.forget()
        await self._embedder.stop()

    async def search(self, request: SearchRequest) -> SearchResult:
        """The best rows that the filter and the gate let through; never fails for want of a model.

        Raises VaultLocked while no vault is open.
        """
        store = self._opened()
        moment = now_ms()
        if request.activity_log or is_listing(request.query):
            rows = await store.read(lambda c: search.listing(c, request, moment))
            hits = tuple(Hit(row, search.LISTED_SCORE, None) for row in rows)
            return SearchResult(hits, len(hits), ())
        async with asyncio.TaskGroup() as group:
            words_task = group.create_task(store.read(lambda c: self._words(c, request, moment)))
            meaning_task = group.create_task(self._meaning(store, request, moment))
        words, (meaning, degraded) = words_task.result(), meaning_task.result()
        if words.damaged:
            degraded = (*degraded, Degraded.FULLTEXT)
        fused = fuse(words.hits, meaning, self._settings.ranking)
        hits, candidates = await store.read(
            lambda c: self._finish(c, request, moment, words, fused)
        )
        return SearchResult(
            hits, candidates, degraded, meaning_only=bool(hits) and not words.hits.scores
        )

    async def context(
        self, request: SearchRequest, *, max_items: int, max_tokens: int
    ) -> ContextPack:
        """The best rows packed into ``max_items`` blocks and ``max_tokens`` estimated tokens."""
        found = await self.search(dataclasses.replace(request, limit=max_items * 2))
        return pack(found, max_items=max_items, max_tokens=max_tokens)

    def _opened(self) -> Store:
        if self._store is None:
            raise VaultLocked(LockReason.USER)
        return self._store

    def _words(self, connection: Connection, request: SearchRequest, moment: int) -> _Words:
        exact = queries.find_exact(connection, request.query, request.filter, moment)
        if not self._settings.ranking.lexical_weight:
            return _Words(NO_WORD_HITS, exact, False)
        try:
            hits = self._fulltext.search(
                connection,
                query_terms(request.query),
                request.filter.condition(moment),
                max(self._settings.ranking.candidates, request.limit),
                wanted=request.limit,
            )
        except FullTextDamaged:
            return _Words(NO_WORD_HITS, exact, True)
        return _Words(hits, exact, False)

    async def _meaning(
        self, store: Store, request: SearchRequest, moment: int
    ) -> tuple[MeaningHits | None, tuple[Degraded, ...]]:
        return None, (Degraded.EMBEDDINGS,)

    def _finish(
        self,
        connection: Connection,
        request: SearchRequest,
        moment: int,
        words: _Words,
        fused: list[FusedRow],
    ) -> tuple[tuple[Hit, ...], int]:
        facts = search.facts_of(
            connection, {*words.exact, *(row.rowid for row in fused)}, request, moment
        )
        ranked = search.rank(fused, facts, request, words.exact)
        if request.score_threshold is not None:
            ranked = [row for row in ranked if row.score >= request.score_threshold]
        best = ranked[: request.limit]
        rows = queries.rows_by_rowid(connection, [row.rowid for row in best])
        hits = [
            Hit(rows[row.rowid], row.score, row.cosine) for row in best if row.rowid in rows
        ]
        return tuple(search.in_time_order(hits, request)), len(facts)
