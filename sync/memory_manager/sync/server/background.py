"""Work that goes on beside the requests until its part of the server closes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine


@contextlib.asynccontextmanager
async def in_background(work: Coroutine[object, object, None]) -> AsyncGenerator[None]:
    """Run ``work`` for the length of the block; then it is cancelled and waited for."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
