"""Recall as one component of the daemon: opened with the vault, closed by the lock.

It asks both legs at once, fuses them and reads the winners once more through the gate. Contract:
recall.md 8-11.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from memory_manager.base.errors import MemlocketError
from memory_manager.base.tasks import end_task
from memory_manager.base.times import now_ms
from memory_manager.recall import near_pairs, rebuild, search
from memory_manager.recall.context_pack import pack, without_older
from memory_manager.recall.embedder import Embedder
from memory_manager.recall.errors import FullTextDamaged
from memory_manager.recall.explain import explanation
from memory_manager.recall.fulltext import NO_WORD_HITS, FullTextIndex, WordHits, held_terms
from memory_manager.recall.fusion import FusedRow, MeaningHits, fuse
from memory_manager.recall.match_query import is_listing, query_terms
from memory_manager.recall.meaning import MeaningLeg, MeaningQuery
from memory_manager.recall.requests import (
    ContextPack,
    Degraded,
    Hit,
    Leg,
    SearchRequest,
    SearchResult,
)
from memory_manager.recall.row_gate import RowGate
from memory_manager.recall.settings import RecallSettings
from memory_manager.vault import queries
from memory_manager.vault.errors import LockReason, VaultLocked
from memory_manager.vault.store import Store
from memory_manager.vault.transaction import RowIndexer

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

log = logging.getLogger(__name__)

_SPARE_ITEMS = 2
"""A pack asks for this many times its items: near-duplicates and blocks that do not fit fall out.
"""


@dataclasses.dataclass(frozen=True, slots=True)
class _Words:
    hits: WordHits
    exact: Sequence[int]
    indexed_rows: int = 0
    damaged: bool = False


class RecallService:
    """All coroutines belong to the daemon's loop; ``indexers`` and ``status`` may be asked
    anywhere.
    """

    def __init__(self, embedder: Embedder, settings: RecallSettings | None = None) -> None:
        self._settings = settings = settings or RecallSettings()
        self._gate = RowGate()
        self._fulltext = FullTextIndex(self._gate)
        self._meaning = MeaningLeg(embedder, settings, self._gate)
        self._store: Store | None = None
        self._background: asyncio.Task[None] | None = None
        self._rebuilding_words = False
        self._error: str | None = None  # why the index is not as this version would make it
        self._rebuild_turn = asyncio.Lock()

    @property
    def indexers(self) -> Sequence[RowIndexer]:
        """What every write of a row must pass through, in its own transaction."""
        return (self._fulltext, self._meaning.indexer)

    async def open(self, store: Store) -> None:
        """After unlock. Words answer at once; vectors are loaded in the background."""
        await self.close()
        self._store = store
        self._start_background(store)

    async def close(self) -> None:
        """Before lock: background work ends, everything that holds text or vectors is wiped."""
        self._store = None
        await self._stop_background()
        self._fulltext.vocabulary.forget()
        self._gate.forget()
        await self._meaning.close()

    def status(self) -> dict[str, object]:
        """The block ``embeddings`` of recall.md 11: states, codes, sizes; never a text."""
        return {
            **self._meaning.status(),
            "rebuilding_fulltext": self._rebuilding_words,
            "fulltext_error": self._error,
            "filters_ready": self._gate.loaded,
        }

    @property
    def vectors_loaded(self) -> float | None:
        """When vectors first stood in memory, on the monotonic clock of this process."""
        return self._meaning.first_loaded

    def index_size(self) -> dict[str, int]:
        """Vectors (one for each piece of a text) and what they take in memory."""
        return self._meaning.index_size()

    async def search(self, request: SearchRequest) -> SearchResult:
        """The best rows that the filter and the gate let through; never fails for want of a model.

        Raises VaultLocked while no vault is open.
        """
        store, moment = self._opened(), now_ms()
        if request.activity_log or is_listing(request.query):
            rows = await store.read(lambda c: search.listing(c, request, moment))
            hits = tuple(Hit(row, search.LISTED_SCORE, None) for row in rows)
            return SearchResult(hits, len(hits), ())
        with self._meaning.traffic.query():
            async with asyncio.TaskGroup() as group:
                words_task = group.create_task(
                    store.read(lambda c: self._words(c, request, moment))
                )
                meaning_task = group.create_task(self._meaning.nearest(request, moment))
            words, (meaning, degraded) = words_task.result(), meaning_task.result()
            if words.damaged or self._rebuilding_words or self._error is not None:
                degraded = (*degraded, Degraded.FULLTEXT)
            hits, candidates = await store.read(
                lambda c: self._finish(c, request, moment, words, meaning)
            )
        return SearchResult(
            hits, candidates, degraded, meaning_only=bool(hits) and not words.hits.scores
        )

    async def context(
        self,
        request: SearchRequest,
        *,
        max_items: int,
        max_tokens: int,
        exclude: frozenset[str] = frozenset(),
    ) -> ContextPack:
        """The best rows packed into ``max_items`` blocks and ``max_tokens`` estimated tokens.

        Of near duplicates only the newest is packed. ``exclude`` holds ids of rows that the
        caller has already been given in this session.
        """
        found = await self.search(
            dataclasses.replace(request, limit=max_items * _SPARE_ITEMS + len(exclude))
        )
        hits = [hit for hit in found.hits if hit.row.id not in exclude]
        rowids = [hit.row.rowid for hit in hits]
        groups = await self._opened().read(lambda c: near_pairs.groups(c, rowids))
        kept, older = without_older(hits, groups)
        return pack(
            dataclasses.replace(found, hits=tuple(kept)),
            max_items=max_items,
            max_tokens=max_tokens,
            older=older,
        )

    async def explain(self, memory_id: str, query: str) -> dict[str, object] | None:
        """How a query finds one row, or why it does not; None when the row may not be recalled.

        ``found`` with ``rank`` and the figures of recall.md 8, else ``reason``:
        ``no_shared_word`` or ``outranked``.
        """
        store, moment = self._opened(), now_ms()
        row = await store.read(lambda c: queries.get_row(c, memory_id))
        if row is None or not await store.read(lambda c: search.may_see(c, row.rowid, moment)):
            return None
        found = await self.search(
            SearchRequest(query, limit=self._settings.ranking.candidates, explain=True)
        )
        answer: dict[str, object] = {
            "degraded": [value.value for value in found.degraded],
            "model_key": self._meaning.model_key,
        }
        for rank, hit in enumerate(found.hits, start=1):
            if hit.row.rowid == row.rowid:
                return {**answer, "found": True, "rank": rank, **(hit.explanation or {})}
        terms = search.shared_terms(row, query)
        reason = "outranked" if terms else "no_shared_word"
        return {**answer, "found": False, "reason": reason, "terms": terms}

    async def _rebuild(
        self, store: Store, what: rebuild.What, progress: rebuild.Progress
    ) -> dict[str, int]:
        done: dict[str, int] = {}
        if what in (rebuild.What.FULLTEXT, rebuild.What.ALL):
            self._rebuilding_words = True
            try:
                done["fulltext"] = await rebuild.rebuild_fulltext(store, progress)
            finally:
                self._rebuilding_words = False
                self._fulltext.vocabulary.forget()
        if what in (rebuild.What.VECTORS, rebuild.What.ALL):
            done["vectors_queued"] = await rebuild.forget_vectors(store)
        return done

    async def rebuild(
        self, what: rebuild.What, progress: rebuild.Progress = rebuild.no_progress
    ) -> dict[str, int]:
        """Make derived data anew; words or vectors alone answer meanwhile. Rows are never
        touched.
        """
        store = self._opened()
        async with self._rebuild_turn:
            await self._stop_background()
            try:
                return await self._rebuild(store, what, progress)
            finally:
                if self._store is store:
                    self._start_background(store)

    def _opened(self) -> Store:
        if self._store is None:
            raise VaultLocked(LockReason.USER)
        return self._store

    def _start_background(self, store: Store) -> None:
        # This object owns the task: close() and rebuild() end it.
        self._background = asyncio.get_running_loop().create_task(self._run(store))

    async def _stop_background(self) -> None:
        task, self._background = self._background, None
        await end_task(task)

    async def _run(self, store: Store) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._load_gate(store))
            group.create_task(self._serve(store))

    async def _load_gate(self, store: Store) -> None:
        """Until it is there, words of a filtered search weigh what they weigh in the vault."""
        self._gate.expect()
        try:
            await store.read(self._gate.load)
        except Exception as error:  # recall goes on without it
            log.warning("row_gate_not_loaded", extra={"error_type": type(error).__name__})

    async def _serve(self, store: Store) -> None:
        try:
            await rebuild.refresh_text_rules(store)
            self._error = None
        except Exception as error:  # words and vectors go on; status names the reason
            self._error = error.code if isinstance(error, MemlocketError) else "internal_error"
            log.warning(
                "text_rules_not_refreshed",
                extra={"code": self._error, "error_type": type(error).__name__},
            )
        if not self._meaning.switched_off:
            await self._meaning.run(store)

    def _words(self, connection: Connection, request: SearchRequest, moment: int) -> _Words:
        exact = queries.find_exact(connection, request.query, request.filter, moment)
        if not self._settings.ranking.lexical_weight or request.leg is Leg.MEANING:
            return _Words(NO_WORD_HITS, exact)
        try:
            hits = self._fulltext.search(
                connection,
                query_terms(request.query),
                request.filter,
                moment,
                limit=max(self._settings.ranking.candidates, request.limit),
                wanted=request.limit,
            )
        except FullTextDamaged:
            log.warning("fulltext_damaged")
            return _Words(NO_WORD_HITS, exact, damaged=True)
        return _Words(hits, exact, self._fulltext.vocabulary.rows(connection))

    def _finish(
        self,
        connection: Connection,
        request: SearchRequest,
        moment: int,
        words: _Words,
        meaning: MeaningQuery | None,
    ) -> tuple[tuple[Hit, ...], int]:
        meaning_hits = _meaning_hits(meaning, words)
        fused = fuse(words.hits, meaning_hits, self._settings.ranking)
        ranking = search.best_rows(connection, fused, request, words.exact, moment)
        best = ranking.rows[: request.limit]
        if request.score_threshold is not None:
            best = [row for row in best if row.score >= request.score_threshold]
        best = search.newer_first_among_near(connection, best, ranking.facts)
        rows = queries.rows_by_rowid(connection, [row.rowid for row in best])
        why = self._reasons(connection, best, words) if request.explain else {}
        hits = [
            Hit(rows[row.rowid], row.score, row.cosine, why.get(row.rowid))
            for row in best
            if row.rowid in rows
        ]
        return tuple(search.in_time_order(hits, request)), ranking.candidates

    def _reasons(
        self, connection: Connection, best: Sequence[FusedRow], words: _Words
    ) -> dict[int, Mapping[str, object]]:
        terms: Mapping[int, Sequence[str]] = {}
        with contextlib.suppress(FullTextDamaged):  # the other figures stand without it
            terms = held_terms(connection, {row.rowid for row in best}, words.hits.terms)
        key = self._meaning.model_key
        return {row.rowid: explanation(row, terms.get(row.rowid, ()), key) for row in best}


def _meaning_hits(meaning: MeaningQuery | None, words: _Words) -> MeaningHits | None:
    """Cosines of the leg itself and, exactly, of the word hits that it did not reach."""
    if meaning is None or not len(meaning.nearest.rowids):
        return None
    nearest = meaning.nearest
    own = dict(zip(nearest.rowids.tolist(), nearest.cosines.tolist(), strict=True))
    others = meaning.index.cosines_of(
        meaning.vector, [rowid for rowid in words.hits.scores if rowid not in own]
    )
    coverage = min(1.0, meaning.index.rows / max(words.indexed_rows, 1))
    return MeaningHits({**own, **others}, nearest.mean, nearest.deviation, coverage)
