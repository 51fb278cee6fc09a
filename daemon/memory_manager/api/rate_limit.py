"""How many requests one credential gets: delay first, then 503, never 429 (xmemo.md 3).

A client that waits for each answer is only ever slowed down; one that opens hundreds at once and
more than it can be served is told to come back.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from memory_manager.api.errors import RateLimited

REQUESTS_PER_SECOND: Final = 500.0
BURST: Final = 1_000.0
MAX_WAIT_SECONDS: Final = 1.0
_KNOWN: Final = 256


class _Bucket:
    """Tokens that come back with time; below zero are requests that wait already."""

    __slots__ = ("at", "tokens")

    def __init__(self, at: float) -> None:
        self.at = at
        self.tokens = BURST


class RateLimit:
    """One bucket a credential, and one for everybody without. Used on the event loop only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str | None, _Bucket] = OrderedDict()

    def seconds_to_wait(self, credential_id: str | None) -> float:
        """Take one request from the bucket; RateLimited, taking none, if it would wait too long."""
        now = self._clock()
        bucket = self._buckets.get(credential_id)
        if bucket is None:
            bucket = self._buckets[credential_id] = _Bucket(now)
            if len(self._buckets) > _KNOWN:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(credential_id)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.at) * REQUESTS_PER_SECOND)
        bucket.at = now
        wait = (1.0 - bucket.tokens) / REQUESTS_PER_SECOND
        if wait > MAX_WAIT_SECONDS:
            raise RateLimited
        bucket.tokens -= 1.0
        return max(0.0, wait)

    async def wait(self, credential_id: str | None) -> None:
        """Return when the request's turn has come."""
        seconds = self.seconds_to_wait(credential_id)
        if seconds > 0:
            await asyncio.sleep(seconds)
