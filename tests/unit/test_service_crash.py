"""The event loop's exception handler: no text, and no flood."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator

import pytest

from memory_manager.service.crash import LOOP_EXCEPTION_SECONDS, LoopExceptions


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def test_a_flood_of_one_kind_is_written_once_per_period_with_its_count(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    now = [100.0]
    handler = LoopExceptions(lambda: now[0])
    with caplog.at_level(logging.INFO):
        for _ in range(1_000):
            handler(loop, {"exception": OSError(24, "canary text"), "message": "canary text"})
        handler(loop, {"exception": ValueError("canary text")})
        now[0] += LOOP_EXCEPTION_SECONDS
        handler(loop, {"exception": OSError(24, "canary text")})
    counts = [record.__dict__["fields"]["count"] for record in caplog.records]
    assert counts == [0, 0, 999]
    assert "canary text" not in caplog.text
