"""Brings stored text under the present rules while the daemon runs: by itself after an upgrade, or
whole when the owner asks (``memlocket doctor --rescan``). Contract: redaction.md 10.
"""

from __future__ import annotations

import asyncio
import enum
import functools
import logging
import time
from typing import TYPE_CHECKING

from memory_manager.base.errors import MemlocketError, Outcome
from memory_manager.base.tasks import end_task
from memory_manager.security.event_log import level_of, log_event
from memory_manager.security.redact import RULESET_VERSION
from memory_manager.vault import cleaning
from memory_manager.vault.cleaning import Cleaning
from memory_manager.vault.memories import Memories
from memory_manager.vault.store import Store

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

_log = logging.getLogger(__name__)


class JobState(enum.StrEnum):
    """``waiting``: it has not looked yet, the vault is locked, or the disk takes no writes."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class CleaningJob:
    """One walk at a time; all coroutines belong to the daemon's loop."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories
        self._task: asyncio.Task[None] | None = None
        self._walk = Cleaning()
        self._remaining = 0
        self._state = JobState.WAITING
        self._error: str | None = None
        self._turn = asyncio.Lock()  # two requests at once must not begin two walks

    async def begin_if_due(self, store: Store) -> None:
        """Go on with a walk under the present rules that is not done; once for each unlock, and
        where a disk refused writes until it is through.
        """
        async with self._turn:
            if self._state is JobState.WAITING:
                await self._look(store)
                self._begin(store)

    async def begin(self, store: Store) -> None:
        """Look at every version from the first record on; a walk under way starts again."""
        async with self._turn:
            await self._stop()
            await store.write(functools.partial(cleaning.start, whole=True))
            await self._look(store)
            self._begin(store)

    async def close(self) -> None:
        """Before the vault locks. What was done stays done; the next unlock goes on."""
        async with self._turn:
            await self._stop()
            self._state, self._walk, self._remaining, self._error = (
                JobState.WAITING, Cleaning(), 0, None,
            )  # fmt: skip

    def status(self) -> dict[str, object]:
        """States, counts and rule ids; never a text."""
        walk = self._walk
        return {
            "ruleset": RULESET_VERSION,
            "state": self._state.value,
            "looked": walk.looked,
            "remaining": self._remaining,
            "cleaned": walk.cleaned,
            "failed": walk.failed,
            "by_rule": dict(sorted(walk.by_rule.items())),
            "error": self._error,
        }

    async def _look(self, store: Store) -> None:
        def look(connection: Connection) -> tuple[Cleaning, int]:
            walk = cleaning.read(connection)
            return walk, 0 if walk.done else cleaning.remaining(connection, walk)

        self._walk, self._remaining = await store.read(look)
        self._error = None
        self._state = JobState.DONE if self._walk.done else JobState.RUNNING

    def _begin(self, store: Store) -> None:
        # This object owns the task: close() and begin() end it.
        if self._state is JobState.RUNNING:
            self._task = asyncio.get_running_loop().create_task(self._run(store))

    async def _stop(self) -> None:
        task, self._task = self._task, None
        await end_task(task)

    async def _run(self, store: Store) -> None:
        try:
            await self._walk_on(store)
        except Exception as error:
            # a minute later, at the next unlock, or when the owner asks, it is tried again
            later = isinstance(error, MemlocketError) and error.outcome is Outcome.RETRY_LATER
            self._state = JobState.WAITING if later else JobState.FAILED
            self._error = error.code if isinstance(error, MemlocketError) else "internal_error"
            log_event(_log, "cleaning_failed", level=level_of(error), error=error)

    async def _walk_on(self, store: Store) -> None:
        work = functools.partial(cleaning.step, memories=self._memories)
        while not self._walk.done:
            begun, before = time.monotonic(), self._walk.looked
            self._walk = await store.write(work)
            self._remaining = max(0, self._remaining - (self._walk.looked - before))
            # half of the time belongs to others, but for a walk that somebody waits for
            await asyncio.sleep(0.0 if self._walk.whole else time.monotonic() - begun)
        self._state, self._remaining = JobState.DONE, 0
        log_event(_log, "cleaning_done", count=self._walk.cleaned, rows=self._walk.looked)
