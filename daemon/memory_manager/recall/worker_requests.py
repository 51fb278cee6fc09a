"""Requests on their way to the worker: two lanes, one request in flight in each. No I/O.

Contract: recall.md 2.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
from collections.abc import Iterator

from memory_manager.recall.embedder import TextKind, Vector
from memory_manager.recall.frames import Frame, FrameType, Lane

MAX_WAITING = 64
"""Queries that wait for the worker; more than that are answered by words."""


class WorkerDied(Exception):
    """The worker exited, or was killed for silence, while it worked on this request."""


class RequestRefused(Exception):
    """The worker answered this request with an error code."""


@dataclasses.dataclass(slots=True, eq=False)
class Request:
    """``answer`` becomes one array ``(pieces, dim)`` per text; zero rows = not embeddable."""

    id: int
    lane: Lane
    kind: TextKind
    texts: tuple[str, ...] = dataclasses.field(repr=False)
    answer: asyncio.Future[list[Vector]]

    def frame(self) -> Frame:
        return Frame(
            FrameType.EMBED,
            {
                "id": self.id,
                "lane": self.lane.value,
                "kind": self.kind.value,
                "texts": list(self.texts),
            },
        )


class Lanes:
    """Waiting and running requests. ``next`` hands out at most one per lane at a time."""

    def __init__(self) -> None:
        self._waiting: dict[Lane, collections.deque[Request]] = {
            lane: collections.deque() for lane in Lane
        }
        self._running: dict[Lane, Request] = {}
        self._last_id = 0

    def add(self, lane: Lane, kind: TextKind, texts: tuple[str, ...]) -> Request:
        """Queue a request; its future is never reported as unretrieved."""
        self._last_id += 1
        future: asyncio.Future[list[Vector]] = asyncio.get_running_loop().create_future()
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        request = Request(self._last_id, lane, kind, texts, future)
        self._waiting[lane].append(request)
        return request

    def is_full(self, lane: Lane) -> bool:
        return len(self._waiting[lane]) >= MAX_WAITING

    def is_idle(self) -> bool:
        return not self._running and not any(self._waiting.values())

    def startable(self) -> Iterator[Request]:
        """Mark and yield what may be sent now; requests whose caller gave up are dropped."""
        for lane, waiting in self._waiting.items():
            while waiting and lane not in self._running:
                request = waiting.popleft()
                if not request.answer.done():
                    self._running[lane] = request
                    yield request

    def running(self) -> list[Request]:
        return list(self._running.values())

    def finished(self, identifier: int) -> Request | None:
        """The running request with this id, taken out; None for an id nobody waits for."""
        for lane, request in self._running.items():
            if request.id == identifier:
                del self._running[lane]
                return request
        return None

    def fail_running(self, error: Exception) -> list[Request]:
        """The worker is gone: fail what it worked on; what waits goes to the next worker."""
        failed = self.running()
        self._running.clear()
        for request in failed:
            _fail(request, error)
        return failed

    def fail_all(self, error: Exception) -> None:
        self.fail_running(error)
        for waiting in self._waiting.values():
            while waiting:
                _fail(waiting.popleft(), error)


def _fail(request: Request, error: Exception) -> None:
    if not request.answer.done():
        request.answer.set_exception(error)
