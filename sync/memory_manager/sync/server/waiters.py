"""Who waits for news: a few waits per device, ended when the server stops or a device goes."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncGenerator


class Waiters:
    """Used on the event loop only. The oldest of too many waits of one device is ended."""

    def __init__(self, per_device: int) -> None:
        self._per_device = per_device
        self._scopes: defaultdict[tuple[bytes, bytes], list[asyncio.Timeout]] = defaultdict(list)
        self._ended = False

    @property
    def count(self) -> int:
        return sum(map(len, self._scopes.values()))

    @contextlib.asynccontextmanager
    async def waiting(self, vault: bytes, device: bytes) -> AsyncGenerator[None]:
        """A block that ends with TimeoutError as soon as this wait is to end."""
        key = (vault, device)
        async with asyncio.timeout(None) as scope:
            scopes = self._scopes[key]
            scopes.append(scope)
            for old in scopes[: -self._per_device]:
                _end(old)
            if self._ended:
                _end(scope)
            try:
                yield
            finally:
                scopes.remove(scope)
                if not scopes:
                    self._scopes.pop(key, None)

    def end_device(self, vault: bytes, device: bytes) -> None:
        """End the waits of a device that has no session any more."""
        for scope in self._scopes.get((vault, device), ()):
            _end(scope)

    def end_vault(self, vault: bytes) -> None:
        for known, device in list(self._scopes):
            if known == vault:
                self.end_device(vault, device)

    def end_all(self) -> None:
        """End every wait, and each that would begin from here on."""
        self._ended = True
        for vault, device in list(self._scopes):
            self.end_device(vault, device)


def _end(scope: asyncio.Timeout) -> None:
    if not scope.expired():
        scope.reschedule(asyncio.get_running_loop().time())
