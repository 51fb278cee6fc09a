"""Waiting for a log to grow: hints inside one process, each followed by a look at the database."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Final

from memory_manager.sync.server.refusals import StorageUnavailable
from memory_manager.sync.server.storage import MAX_WAIT_SECONDS

LOOK_AGAIN_SECONDS: Final = 1.0


class Pokes:
    """Belongs to one event loop; ``advanced`` is called on it."""

    def __init__(self) -> None:
        self._waiting: dict[bytes, set[asyncio.Event]] = {}

    def advanced(self, vault: bytes) -> None:
        """Something changed in the log of this vault, or the vault is gone."""
        for event in self._waiting.get(vault, ()):
            event.set()

    def all_may_have_advanced(self) -> None:
        """Hints were lost: everybody looks again."""
        for vault in self._waiting:
            self.advanced(vault)

    async def wait_beyond(
        self, length: Callable[[], Awaitable[int]], vault: bytes, n: int, timeout_seconds: float
    ) -> int:
        """The log's length when it is above ``n`` or the time is over; ``length`` reads it."""
        deadline = time.monotonic() + min(timeout_seconds, MAX_WAIT_SECONDS)
        with self._watch(vault) as poked:
            now = await length()
            while now <= n and (left := deadline - time.monotonic()) > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await poked.wait()
                        poked.clear()
                try:
                    now = await length()
                except StorageUnavailable:
                    # it may be back before the time is over; who waits is not sent away for it
                    if time.monotonic() + LOOK_AGAIN_SECONDS > deadline:
                        raise
                    await asyncio.sleep(LOOK_AGAIN_SECONDS)
                    poked.set()
            return now

    @contextlib.contextmanager
    def _watch(self, vault: bytes) -> Generator[asyncio.Event]:
        event = asyncio.Event()
        events = self._waiting.setdefault(vault, set())
        events.add(event)
        try:
            yield event
        finally:
            events.discard(event)
            if not events:
                self._waiting.pop(vault, None)
