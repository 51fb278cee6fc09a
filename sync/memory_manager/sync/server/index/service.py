"""The index of one server process: what may come in, what goes out, and who may ask.

Every refusal leaves an audit entry. Nothing here is logged: not ids, not text, not tokens.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from memory_manager.auth.tokens import TOKEN_RANDOM_BYTES, is_token, new_token, token_digest
from memory_manager.sync.server.errors import ClassPolicyBroken
from memory_manager.sync.server.index.agent_items import Hit
from memory_manager.sync.server.index.errors import (
    AgentTokenRefused,
    GrantReason,
    GrantRefused,
    IndexFull,
)
from memory_manager.sync.server.index.search import Degraded, Query, Ranked, rank, recallable
from memory_manager.sync.server.index.storage import (
    DEFAULT_MAX_ROWS,
    AgentToken,
    IndexStorage,
    Matrix,
    NewRow,
    Put,
)
from memory_manager.sync.server.index.vectors import Embedder, EmbedderFailed, pack_words, word_set
from memory_manager.sync.server.index.verification import check_offer, read_offer
from memory_manager.sync.wire.envelope import is_indexable
from memory_manager.sync.wire.index_document import IndexDocument, read_document
from memory_manager.sync.wire.index_findings import blocking_rules
from memory_manager.sync.wire.roster import Member

DAY_MS: Final = 86_400_000
DEFAULT_TOKEN_DAYS: Final = 90
MAX_TOKEN_DAYS: Final = 366
EMBED_SECONDS: Final = 10.0
FILL_ROWS: Final = 32
_NO_VECTOR: Final[Matrix] = np.zeros((1, 1), np.float32)
"""Of a text the model refuses: of no dimension that a query has, so it scores 0."""

FindMember = Callable[[bytes, bytes], Awaitable[Member | None]]
"""The member of a vault with a device id, from the vault's verified roster."""


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """``candidates``: how many rows were hits before the limit."""

    hits: tuple[Hit, ...]
    candidates: int
    degraded: tuple[Degraded, ...]


class IndexService:
    """One per process. ``clock_ms`` is wall time in milliseconds."""

    def __init__(
        self,
        storage: IndexStorage,
        *,
        server_key: bytes,
        find_member: FindMember,
        clock_ms: Callable[[], int],
        embedder: Embedder | None = None,
        max_rows: int = DEFAULT_MAX_ROWS,
    ) -> None:
        self.storage = storage
        self._server_key = server_key
        self._find_member = find_member
        self._clock_ms = clock_ms
        self._embedder = embedder
        self._max_rows = max_rows

    # --- rows, for a session's device ---------------------------------------------------------

    async def add(self, vault: bytes, device: bytes, body: Mapping[str, Any]) -> bool:
        """Store one row under its grant; False when the very same is there already.

        GrantRefused, ClassPolicyBroken, IndexFull; each with an audit entry.
        """
        try:
            row = await self._checked(vault, device, body)
            put = await self.storage.put(row, self._clock_ms(), self._max_rows)
            if put is Put.NONCE_USED:
                raise GrantRefused(GrantReason.USED_BEFORE)
            if put is Put.OTHER_REVISION:
                raise GrantRefused(GrantReason.OTHER_REVISION)
            if put is Put.FULL:
                raise IndexFull
        except GrantRefused as error:
            await self._refused(vault, device, error.reason.value)
            raise
        except ClassPolicyBroken:
            await self._refused(vault, device, "class_policy")
            raise
        except IndexFull:
            await self._refused(vault, device, "full")
            raise
        if put is Put.STORED:
            await self._embed(row)
        return put is Put.STORED

    async def _checked(self, vault: bytes, device: bytes, body: Mapping[str, Any]) -> NewRow:
        offered = read_offer(body)
        member = await self._find_member(vault, device)
        document = await asyncio.to_thread(
            check_offer,
            offered,
            vault=vault,
            member=member,
            server_key=self._server_key,
            now=self._clock_ms() // 1000,
        )
        if await asyncio.to_thread(blocking_rules, document, offered.document):
            raise GrantRefused(GrantReason.CREDENTIAL)
        grant = offered.signed.grant
        words = await asyncio.to_thread(word_set, _searched_text(document))
        return NewRow(
            vault=vault,
            record=grant.record,
            device=device,
            dot=grant.dot,
            grant=grant.document() + offered.signed.by_device + offered.signed.by_owner,
            nonce=grant.nonce,
            expires=grant.expires,
            document=offered.document,
            envelope=document.envelope,
            opted_in=document.opted_in,
            bucket=document.bucket,
            scope=document.scope,
            path=document.path,
            memory_type=document.memory_type,
            created_at_ms=document.created_at_ms,
            updated_at_ms=document.updated_at_ms,
            words=pack_words(words),
        )

    async def remove(self, vault: bytes, device: bytes, record: bytes) -> bool:
        """Take a row out; False when there was none, which is as good."""
        if not is_indexable(record):
            await self._refused(vault, device, "class_policy")
            raise ClassPolicyBroken
        return await self.storage.remove(vault, record, device)

    async def _refused(self, vault: bytes, device: bytes, code: str) -> None:
        await self.storage.note(vault, device, "row.refused", code, None)

    # --- recall -------------------------------------------------------------------------------

    async def search(self, vault: bytes, query: Query) -> Found:
        """The rows of one vault that the server gate lets through, best first."""
        rows = recallable(await self.storage.candidates(vault))
        degraded: list[Degraded] = []
        meanings: dict[bytes, float] | None = None
        if not query.lists_all:
            meanings = await self._meanings(vault, query.text, [row.record for row in rows])
            if meanings is None:
                degraded.append(Degraded.EMBEDDINGS)
            elif any(row.record not in meanings for row in rows):
                degraded.append(Degraded.EMBEDDINGS_BUILDING)
        ranked, count = await asyncio.to_thread(rank, query, rows, meanings)
        documents = await self.storage.documents(vault, [hit.row.record for hit in ranked])
        found = [
            (hit, documents[hit.row.record])
            for hit in ranked
            if hit.row.record in documents  # not removed meanwhile
        ]
        hits = await asyncio.to_thread(_clean, found)
        return Found(hits, count - (len(found) - len(hits)), tuple(degraded))

    async def _meanings(
        self, vault: bytes, text: str, records: Sequence[bytes]
    ) -> dict[bytes, float] | None:
        model = None if self._embedder is None else self._embedder.model
        if self._embedder is None or model is None:
            return None
        try:
            async with asyncio.timeout(EMBED_SECONDS):
                vector = await self._embedder.query(text)
        except (EmbedderFailed, TimeoutError):
            return None
        if not np.isfinite(vector).all():
            return None
        return await self.storage.meanings(vault, model, vector, records)

    async def _embed(self, row: NewRow) -> None:
        """The meaning of a new row at once where that is quick; ``fill`` does what is left."""
        with contextlib.suppress(EmbedderFailed, TimeoutError):
            async with asyncio.timeout(EMBED_SECONDS):
                await self._embed_rows([(row.vault, row.record, row.document)])

    async def fill(self) -> int:
        """Embed some rows that have no vector of the model now; how many there were, or how many
        vectors were brought to their place, whichever is more.
        """
        settled = await self.storage.settle(FILL_ROWS)
        if self._embedder is None or self._embedder.model is None:
            return settled
        rows = await self.storage.without_vector(self._embedder.model, FILL_ROWS)
        try:
            await self._embed_rows(rows)
        except EmbedderFailed:
            return settled
        return max(settled, len(rows))

    async def _embed_rows(self, rows: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        model = None if self._embedder is None else self._embedder.model
        if self._embedder is None or model is None or not rows:
            return
        found = await self._embedder.documents([read_document(raw).content for *_, raw in rows])
        for (vault, record, raw), pieces in zip(rows, found, strict=True):
            usable = pieces is not None and len(pieces) and np.isfinite(pieces).all()
            kept = pieces if pieces is not None and usable else _NO_VECTOR
            await self.storage.put_vector(vault, record, raw, model, kept)

    # --- hosted agents ------------------------------------------------------------------------

    async def issue_token(
        self, vault: bytes, device: bytes, name: str, days: int = DEFAULT_TOKEN_DAYS
    ) -> tuple[AgentToken, str]:
        """A token that reads the opted-in rows of this vault; it stands in this answer only."""
        now_ms = self._clock_ms()
        text = new_token(os.urandom(TOKEN_RANDOM_BYTES))
        token = AgentToken(os.urandom(8).hex(), vault, name, device, now_ms, now_ms + days * DAY_MS)
        if not await self.storage.issue(token, token_digest(text)):
            raise IndexFull
        return token, text

    async def tokens(self, vault: bytes) -> list[AgentToken]:
        return await self.storage.tokens(vault, self._clock_ms())

    async def agent(self, presented: str) -> AgentToken:
        """Whose token it is. AgentTokenRefused, also when the device that issued it was revoked."""
        if not is_token(presented):
            raise AgentTokenRefused
        token = await self.storage.token_of(token_digest(presented), self._clock_ms())
        if token is None:
            raise AgentTokenRefused
        issuer = await self._find_member(token.vault, token.device)
        if issuer is None or not issuer.is_active:
            raise AgentTokenRefused
        return token


def _clean(found: Sequence[tuple[Ranked, bytes]]) -> tuple[Hit, ...]:
    """The second pass before an answer: a row older than a rule that it breaks is not shown."""
    read = [(hit, read_document(raw), raw) for hit, raw in found]
    return tuple(
        (hit, document) for hit, document, raw in read if not blocking_rules(document, raw)
    )


def _searched_text(document: IndexDocument) -> str:
    return "\n".join((document.content, document.path, *document.tags))
