"""Settings of recall with their defaults, checked once. Contract: recall.md 14."""

from __future__ import annotations

import dataclasses

from memory_manager.base.errors import InvalidInput


@dataclasses.dataclass(frozen=True, slots=True)
class RankingSettings:
    """``lexical_weight`` + ``semantic_weight`` = 1; a weight of 0 switches that leg off."""

    lexical_weight: float = 0.6
    semantic_weight: float = 0.4
    candidates: int = 100

    def __post_init__(self) -> None:
        if min(self.lexical_weight, self.semantic_weight) < 0 or not (
            0.999 < self.lexical_weight + self.semantic_weight < 1.001
        ):
            raise InvalidInput("The ranking weights must be positive and sum to 1.")
        if not 10 <= self.candidates <= 1000:
            raise InvalidInput("ranking.candidates must lie between 10 and 1000.")


@dataclasses.dataclass(frozen=True, slots=True)
class RecallSettings:
    """``rescore`` of None means automatic: 400 up to 50 000 rows, 1600 above."""

    ranking: RankingSettings = RankingSettings()
    rescore: int | None = None
    query_embed_timeout_ms: int = 150
    embedding_batch: int = 32
    embedding_duty: float = 0.5

    def __post_init__(self) -> None:
        if not 1 <= self.embedding_batch <= 32:
            raise InvalidInput("embedding.batch must lie between 1 and 32.")
        if not 0 < self.embedding_duty <= 1:
            raise InvalidInput("embedding.duty must lie between 0 and 1.")
        if self.rescore is not None and self.rescore < 100:
            raise InvalidInput("index.rescore must be at least 100.")
