"""When rounds happen: after local writes, at a poke, every five minutes, later after a failure.

One owner, one round at a time. Pokes are hints, rate-limited; nothing here decides what is true.
Contract: sync.md 9.1, 9.4.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final

from memory_manager.base.times import now_ms
from memory_manager.security.event_log import log_event
from memory_manager.sync.engine import own_state
from memory_manager.sync.engine.advice import LOCAL_ERROR, Finding, finding_of, is_ordinary
from memory_manager.sync.engine.backoff import Backoff, blurred
from memory_manager.sync.engine.errors import SyncUnreachable
from memory_manager.sync.engine.exchange import run_round
from memory_manager.sync.engine.parts import Parts, Progress
from memory_manager.sync.engine.report import Live
from memory_manager.sync.errors import SyncCode
from memory_manager.sync.ledger import alarms, outbox, state

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

_log = logging.getLogger(__name__)
_NEVER: Final = float("inf")
_LONG_POLLS: Final = 10
_LONGEST_DEAF_SECONDS: Final = 60.0  # between two connections for pokes, while rounds go well
_GATHER_SECONDS: Final = 0.05  # many commits are looked at once


@dataclasses.dataclass(frozen=True, slots=True)
class Pace:
    """Seconds. ``first``: from the opening to the first round; ``debounce``: how long a local write
    waits for others; ``apart``: at least so long between rounds that pokes ask for; ``listens``:
    whether the server is to tell of news at all.
    """

    first: float = 0.0
    poll: float = 300.0
    debounce: float = 0.5
    apart: float = 2.0
    listens: bool = True
    steady: float = 60.0  # a connection for pokes that held so long was a good one


class SyncLoop:
    """``run`` is one task for the life of the open vault; the rest is called on the same loop."""

    def __init__(
        self,
        parts: Callable[[Callable[[Progress | None], None]], Parts],
        *,
        pace: Pace | None = None,
        backoff: Backoff | None = None,
        refreshed: Callable[[], Awaitable[None]],
    ) -> None:
        """``refreshed`` is awaited whenever what status shows has changed in the vault."""
        self.parts = parts(self._tell)
        self.live = Live()
        self.agreed_roster: bytes | None = None
        self._pace = pace or Pace()
        self._backoff = backoff or Backoff()
        self._listening = Backoff(last_seconds=_LONGEST_DEAF_SECONDS)
        self._refreshed = refreshed
        self._jitter = random.SystemRandom()
        self._one_round = asyncio.Lock()
        self._wake = asyncio.Event()
        self._healthy = asyncio.Event()
        self._unhealthy = asyncio.Event()
        self._due = self._now() + self._pace.first  # of the loop's clock
        self._earliest = 0.0  # before it no hint and no local write starts a round
        self._written = False
        self._hinted = False  # since the last round began: it may have looked before
        self._resting = False
        self._set_healthy(False)

    async def run(self) -> None:
        """Until cancelled. Nothing that a round meets ends it."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._rounds())
            if self._pace.listens:
                group.create_task(self._listen())

    # --- called from outside ------------------------------------------------------------------

    def written(self) -> None:
        """Something was committed here; a round follows if the outbox holds anything."""
        if not self._written:
            self._written = True
            self._wake.set()

    def hint(self) -> None:
        """The server may have news: a round soon, not sooner than the last failure allows."""
        self._hinted = True
        self._due = min(self._due, max(self._now(), self._earliest))
        self._wake.set()

    def go_on(self) -> None:
        """A pause or stop has ended: a round at once."""
        self._resting = False
        self._backoff.succeeded()
        self._due = self._earliest = 0.0
        self._wake.set()

    def awake(self) -> None:
        """A stop has ended and the owner had a round: the usual pace from here."""
        self._wake.set()

    def rest(self) -> None:
        """A pause has begun: no connection for pokes either."""
        self._resting = True
        self._set_healthy(False)
        self._wake.set()

    async def round(self, work: Callable[[Parts], Awaitable[None]] | None = None) -> Finding | None:
        """One round now, with ``work`` before it; None, or what ended it early."""
        async with self._one_round:
            return await self._round(work)

    async def _round(
        self, work: Callable[[Parts], Awaitable[None]] | None = None
    ) -> Finding | None:
        self._hinted = False
        self._show(running=True, progress=None)
        finding: Finding | None = None
        try:
            if work is not None:
                await work(self.parts)
            await run_round(self.parts, self.agreed_roster)
        except Exception as error:
            finding = _noted(error)
        finally:
            self._show(running=False, progress=None)
        await self._settle(finding)
        return finding

    # --- rounds -------------------------------------------------------------------------------

    async def _rounds(self) -> None:
        while True:
            await self._until_due()
            async with self._one_round:
                if self._due > self._now():  # the owner asked for one meanwhile
                    continue
                try:
                    may_run = await self._may_run()
                except Exception as error:  # a vault that locks, where close() follows, or a disk
                    await self._settle(_noted(error))
                    continue
                if may_run:
                    await self._round()
                else:
                    self._set_healthy(False)
                    self._due = _NEVER

    async def _until_due(self) -> None:
        while (wait := self._due - self._now()) > 0:
            with contextlib.suppress(TimeoutError):
                # not wait_for: it may swallow a cancellation that comes with the event
                async with asyncio.timeout(None if wait == _NEVER else wait):
                    await self._wake.wait()
            self._wake.clear()
            if self._written and self._due != _NEVER:
                await self._look_at_outbox()

    async def _look_at_outbox(self) -> None:
        """A commit was heard of: it concerns sync only if there is something to send."""
        await asyncio.sleep(_GATHER_SECONDS)
        self._written = False
        async with self._one_round:  # the owner's, under way, sets when the next is due
            try:
                await self._refreshed()
                waits, options = await self.parts.store.read(_to_send)
            except Exception as error:  # as in _rounds; the next round looks again
                _noted(error)
                return
        if waits:
            blur, now = options.jitter_seconds, self._now()
            soon = blurred(self._due, now + self._pace.debounce, blur, self._jitter)
            self._due = min(self._due, max(soon, self._earliest))

    async def _may_run(self) -> bool:
        now = await self.parts.store.read(state.read)
        self._resting = now is None or now.paused
        if now is None or now.paused or now.stop_code is not None:
            return False
        return not await self.parts.store.read(state.must_enrol_again)

    async def _settle(self, finding: Finding | None) -> None:
        """What follows from how a round ended."""
        at, retry_at = now_ms(), None
        if finding is None:
            self._backoff.succeeded()
            self.agreed_roster = None
            self._earliest = self._now() + self._pace.apart
            self._due = self._earliest if self._hinted else self._now() + self._pace.poll
            self._show(contact_ms=at, finding=None, found_at_ms=None, retry_at_ms=None)
        elif finding.stops and await self._stop(finding):
            self._due = _NEVER
            self._show(finding=finding, found_at_ms=at, retry_at_ms=None)
        else:
            wait = self._backoff.next(finding.retry_after_seconds)
            self._due = self._earliest = self._now() + wait
            retry_at = at + int(wait * 1000)
            self._show(finding=finding, found_at_ms=at, retry_at_ms=retry_at)
        self._set_healthy(finding is None and not self._resting)
        try:
            await self._refreshed()
        except Exception as error:  # as in _rounds; status stays as it was
            _noted(error)

    async def _stop(self, finding: Finding) -> bool:
        """Whether the vault has it; else a later round has to find it again."""
        code = SyncCode(finding.code)

        def work(transaction: Transaction) -> None:
            detail = dict(finding.detail)
            alarms.record(transaction, code, device=finding.device, n=finding.n, detail=detail)
            state.stop(transaction, code)

        try:
            await self.parts.store.write(work)
        except Exception as error:  # a full disk, or a vault that locks
            _noted(error)
            return False
        return True

    # --- pokes --------------------------------------------------------------------------------

    async def _listen(self) -> None:
        """While rounds go well, the server may tell of news; otherwise polling has to do."""
        while True:
            await self._healthy.wait()
            async with asyncio.TaskGroup() as group:
                listening = group.create_task(self._hear())
                ended = group.create_task(self._unhealthy.wait())
                await asyncio.wait({listening, ended}, return_when=asyncio.FIRST_COMPLETED)
                listening.cancel()
                ended.cancel()

    async def _hear(self) -> None:
        begun, opened = self._now(), False
        try:
            try:
                async with self.parts.client.pokes() as hints:
                    opened = True
                    async for n in hints:
                        await self._heard(n)
            except SyncUnreachable:
                if not opened:  # something between us and the server does not let it through
                    await self._poll_long()
        except Exception as error:
            finding = finding_of(error)
            if finding.code == LOCAL_ERROR:
                _noted(error)
            if finding.stops:  # CLONED, another server key
                await self._settle(finding)
                return
        if self._now() - begun > self._pace.steady:
            self._listening.succeeded()
        await asyncio.sleep(self._listening.next())
        self.hint()  # a connection that broke is the first sign of a server that is gone

    async def _poll_long(self) -> None:
        for _ in range(_LONG_POLLS):
            known = (await self.parts.store.read(state.require)).n
            await self._heard(await self.parts.client.wait_for_news(known))

    async def _heard(self, n: int) -> None:
        if n > (await self.parts.store.read(state.require)).n:
            self.hint()

    # --- small things -------------------------------------------------------------------------

    def _tell(self, progress: Progress | None) -> None:
        self._show(progress=progress)

    def _show(self, **changed: Any) -> None:
        self.live = dataclasses.replace(self.live, **changed)

    def _set_healthy(self, healthy: bool) -> None:
        on, off = (self._healthy, self._unhealthy) if healthy else (self._unhealthy, self._healthy)
        on.set()
        off.clear()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _to_send(connection: Connection) -> tuple[int, own_state.Options]:
    return outbox.count(connection), own_state.read_options(connection)


def _noted(error: Exception) -> Finding:
    """What an exception means; the log has it from here on."""
    finding = finding_of(error)
    if is_ordinary(error) or finding.code != LOCAL_ERROR:
        log_event(_log, "sync_round_ended", code=finding.code)
    else:
        log_event(_log, "sync_round_failed", level=logging.ERROR, error=error)
    return finding
