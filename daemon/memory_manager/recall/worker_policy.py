"""Two rules about a worker that dies: when it is started again, and which text is to blame. Pure.

Contract: recall.md 2 (states, poison rule).
"""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Sequence

_DEATHS_OF_A_POISON = 2


class RestartLadder:
    """At most ``len(pauses)`` restarts in ``window_seconds``, each after its pause."""

    def __init__(self, pauses: Sequence[float], window_seconds: float) -> None:
        self._pauses = tuple(pauses)
        self._window = window_seconds
        self._starts: collections.deque[float] = collections.deque()

    def next_pause(self, now: float) -> float | None:
        """Seconds until the next start, which is counted; None when there were too many."""
        while self._starts and now - self._starts[0] > self._window:
            self._starts.popleft()
        if len(self._starts) >= len(self._pauses):
            return None
        self._starts.append(now)
        return self._pauses[len(self._starts) - 1]

    def clear(self) -> None:
        self._starts.clear()


class Suspects:
    """Texts the worker died on, by digest; two deaths make a text a poison."""

    def __init__(self) -> None:
        self._deaths: collections.Counter[bytes] = collections.Counter()

    def blame(self, text: str) -> None:
        self._deaths[_digest(text)] += 1

    def acquit(self, text: str) -> None:
        del self._deaths[_digest(text)]

    def is_suspect(self, text: str) -> bool:
        return bool(self._deaths) and self._deaths[_digest(text)] > 0

    def is_poison(self, text: str) -> bool:
        return bool(self._deaths) and self._deaths[_digest(text)] >= _DEATHS_OF_A_POISON

    def clear(self) -> None:
        self._deaths.clear()


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
