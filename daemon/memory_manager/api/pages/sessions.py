"""Sign-in of the owner's browser: one-use codes and the sessions they are exchanged for.

Everything is in memory and ends with the daemon. Contract: desktop.md 11.7.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from memory_manager.auth.tokens import same_digest, token_digest

CODE_SECONDS: Final = 60
IDLE_SECONDS: Final = 30 * 60
LIFE_SECONDS: Final = 12 * 3600
MAX_CODES: Final = 8
MAX_SESSIONS: Final = 16
_SECRET_BYTES: Final = 32


@dataclasses.dataclass(slots=True)
class Session:
    """One signed-in browser. ``csrf`` stands in every form of its pages."""

    csrf: str = dataclasses.field(repr=False)
    started_at: float
    used_at: float

    def owns(self, csrf: str) -> bool:
        """Whether a form came from a page of this session; constant time."""
        return same_digest(token_digest(csrf), token_digest(self.csrf))


class OwnerSessions:
    """Used on the event loop. Codes and cookies are kept as digests."""

    def __init__(
        self,
        daemon_id: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self.cookie_name = f"memlocket_{daemon_id.replace('-', '')}"
        self._clock = clock
        self._random_bytes = random_bytes
        self._codes: OrderedDict[bytes, float] = OrderedDict()
        self._sessions: OrderedDict[bytes, Session] = OrderedDict()

    def new_code(self) -> str:
        """A code for one sign-in within the next 60 seconds."""
        code = self._random_bytes(_SECRET_BYTES).hex()
        self._codes[token_digest(code)] = self._clock() + CODE_SECONDS
        if len(self._codes) > MAX_CODES:
            self._codes.popitem(last=False)
        return code

    def exchange(self, code: str) -> str | None:
        """The cookie value of a new session; None for a code that is unknown, used or too old."""
        deadline = self._codes.pop(token_digest(code), None)
        now = self._clock()
        if deadline is None or now >= deadline:
            return None
        cookie = self._random_bytes(_SECRET_BYTES).hex()
        csrf = self._random_bytes(_SECRET_BYTES).hex()
        self._sessions[token_digest(cookie)] = Session(csrf, now, now)
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return cookie

    def find(self, cookie: str) -> Session | None:
        """The live session of a cookie; looking at it counts as use."""
        digest = token_digest(cookie)
        session = self._sessions.get(digest)
        if session is None:
            return None
        now = self._clock()
        if now - session.used_at >= IDLE_SECONDS or now - session.started_at >= LIFE_SECONDS:
            del self._sessions[digest]
            return None
        session.used_at = now
        return session

    def end(self, cookie: str) -> None:
        """Sign out."""
        self._sessions.pop(token_digest(cookie), None)
