"""Delay, then 503; a client that waits for its answers is never refused (xmemo.md 3)."""

from __future__ import annotations

import pytest

from memory_manager.api.errors import RateLimited, error_response
from memory_manager.api.rate_limit import (
    BURST,
    MAX_WAIT_SECONDS,
    REQUESTS_PER_SECOND,
    RateLimit,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def served_at_once(limit: RateLimit, credential_id: str) -> int:
    for number in range(100_000):
        try:
            assert limit.seconds_to_wait(credential_id) <= MAX_WAIT_SECONDS
        except RateLimited:
            return number
    raise AssertionError("there is no limit")


def test_a_sequential_client_is_slowed_down_and_never_refused() -> None:
    clock = Clock()
    limit = RateLimit(clock)
    delayed = 0
    for _ in range(20_000):
        wait = limit.seconds_to_wait("a")
        delayed += wait > 0
        clock.now += wait + 0.0001  # the answer itself takes a moment
    assert delayed > 10_000
    assert 20_000 / clock.now == pytest.approx(REQUESTS_PER_SECOND, rel=0.1)


def test_a_flood_is_refused_and_costs_the_flooder_only() -> None:
    limit = RateLimit(Clock())
    served = served_at_once(limit, "flooder")
    assert served == pytest.approx(BURST + MAX_WAIT_SECONDS * REQUESTS_PER_SECOND, abs=2)
    assert limit.seconds_to_wait("other") == 0
    assert limit.seconds_to_wait(None) == 0


def test_a_refusal_takes_nothing_and_time_heals() -> None:
    clock = Clock()
    limit = RateLimit(clock)
    assert served_at_once(limit, "a") > 0
    assert served_at_once(limit, "a") == 0
    clock.now += MAX_WAIT_SECONDS + BURST / REQUESTS_PER_SECOND
    assert limit.seconds_to_wait("a") == 0


def test_the_refusal_is_a_503_that_says_when() -> None:
    response = error_response(RateLimited(), "r")
    assert response.status == 503
    assert response.headers["Retry-After"] == "1"
