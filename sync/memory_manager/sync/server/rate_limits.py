"""How much one caller gets in a time: buckets that refill, bounded in number.

Keys are ids of the caller's choice and never leave this module. Used on the event loop only.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final

from memory_manager.sync.server.errors import RateExceeded

KNOWN_CALLERS: Final = 10_000
SECONDS_PER_MINUTE: Final = 60.0


class _Bucket:
    __slots__ = ("at", "left")

    def __init__(self, left: float, at: float) -> None:
        self.left = left
        self.at = at


class PerMinute:
    """At most ``limit`` units a minute for each key, all of them at once if they were saved up."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._buckets: OrderedDict[Hashable, _Bucket] = OrderedDict()

    def take(self, key: Hashable, units: int = 1) -> None:
        """Take ``units``; RateExceeded, taking none, that says when there will be enough.

        More than the limit at once is taken from a full bucket, which then refills from below
        zero: a batch is never too large to be let in at all.
        """
        now = self._clock()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(float(self._limit), now)
            if len(self._buckets) > KNOWN_CALLERS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        per_second = self._limit / SECONDS_PER_MINUTE
        bucket.left = min(float(self._limit), bucket.left + (now - bucket.at) * per_second)
        bucket.at = now
        missing = min(units, self._limit) - bucket.left
        if missing > 0:
            raise RateExceeded(math.ceil(missing / per_second))
        bucket.left -= units
