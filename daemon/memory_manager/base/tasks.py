"""Ending background work that one object owns."""

from __future__ import annotations

import asyncio
from typing import Final

_CANCEL_SECONDS: Final = 1.0


async def end_task(task: asyncio.Task[None] | None) -> None:
    """Return once it is done, however it ended.

    It is cancelled again and again: a library that swallows one cancellation must not hold up a
    lock of the vault.
    """
    while task is not None and not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=_CANCEL_SECONDS)
