"""Waiting by chance: after a failed round 1 s to 15 min, after a write as the owner says.

Contract: sync.md 9.4. Pure.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Final

FIRST_SECONDS: Final = 1.0
LAST_SECONDS: Final = 900.0
_MAX_DOUBLINGS: Final = 10


@dataclasses.dataclass(slots=True)
class Backoff:
    """``source`` gives the jitter; tests hand in a seeded one."""

    source: random.Random = dataclasses.field(default_factory=random.SystemRandom)
    first_seconds: float = FIRST_SECONDS
    last_seconds: float = LAST_SECONDS
    failures: int = 0

    def next(self, retry_after_seconds: float | None = None) -> float:
        """Seconds until the next try, after one more failure.

        ``retry_after_seconds`` is what the server asked for, already limited to an hour.
        """
        doublings = min(self.failures, _MAX_DOUBLINGS)
        self.failures += 1
        ceiling = min(self.last_seconds, self.first_seconds * 2**doublings)
        return max(retry_after_seconds or 0.0, self.source.uniform(0.0, ceiling))

    def succeeded(self) -> None:
        self.failures = 0


def blurred(due: float, soonest: float, seconds: float, source: random.Random) -> float:
    """When the round after a write begins: by chance up to ``seconds`` after ``soonest``.

    One that is ``due`` by then stays: many writes drawing anew would pull it towards now.
    """
    latest = soonest + seconds
    return due if due <= latest else source.uniform(soonest, latest)
