"""Pokes between server processes: LISTEN and NOTIFY on a connection of their own.

Outside the pushes' transactions, because commits that notify wait for each other over the whole
database. A poke may be lost; whoever waits looks again when its time is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final

import asyncpg

from memory_manager.sync.server.pokes import Pokes
from memory_manager.sync.server.postgres.database import (
    CONNECT_SECONDS,
    OUTSIDE,
    STATEMENT_SECONDS,
)

if TYPE_CHECKING:
    from memory_manager.sync.server.postgres.database import Line

CHANNEL: Final = "memlocket_log"
RETRY_SECONDS: Final = 0.5
_CANCEL_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)


class PokeLine:
    """Tells other processes of our pushes, and ``pokes`` of theirs; from ``start`` to ``stop``."""

    def __init__(self, url: str, pokes: Pokes) -> None:
        self._url = url
        self._pokes = pokes
        self._waiting: set[bytes] = set()
        self._wake = asyncio.Event()
        self._heard_once = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Return when others' pokes are heard, or at once if that fails; it goes on trying."""
        # this object owns the task: stop() ends it
        self._task = asyncio.get_running_loop().create_task(self._run())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._heard_once.wait()

    async def stop(self) -> None:
        task, self._task = self._task, None
        while task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_CANCEL_SECONDS)

    def announce(self, vault: bytes) -> None:
        """Poke whoever waits for this vault, here at once and elsewhere soon."""
        self._pokes.advanced(vault)
        self._waiting.add(vault)
        self._wake.set()

    async def _run(self) -> None:
        while True:
            try:
                await self._talk()
            except OUTSIDE as error:
                _log.warning("server_pokes_interrupted", extra={"error_type": type(error).__name__})
            self._heard_once.set()
            await asyncio.sleep(RETRY_SECONDS)

    async def _talk(self) -> None:
        line = await asyncpg.connect(
            self._url, timeout=CONNECT_SECONDS, command_timeout=STATEMENT_SECONDS
        )
        try:
            line.add_termination_listener(self._lost)
            await line.add_listener(CHANNEL, self._heard)
            self._heard_once.set()
            self._pokes.all_may_have_advanced()
            while not line.is_closed():
                await self._wake.wait()
                self._wake.clear()
                vaults, self._waiting = self._waiting, set()
                if vaults and not line.is_closed():
                    await line.execute(
                        f"SELECT pg_notify('{CHANNEL}', vault) FROM unnest($1::text[]) AS vault",
                        [vault.hex() for vault in vaults],
                    )
        finally:
            line.terminate()

    def _lost(self, _line: object) -> None:
        self._wake.set()

    def _heard(self, _line: Line, _pid: int, _channel: str, payload: object) -> None:
        try:
            vault = bytes.fromhex(str(payload))
        except ValueError:
            return  # somebody else's
        self._pokes.advanced(vault)
