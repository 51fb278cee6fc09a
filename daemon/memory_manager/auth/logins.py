"""Login requests that wait for the owner: device codes and OAuth consents, as one state machine.

Pure: clock and randomness come in. Everything is kept in memory; a restart ends what waits, and a
code nobody knows is an expired one. Contract: xmemo.md 9 and 10.
"""

from __future__ import annotations

import dataclasses
import enum
import os
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from memory_manager.auth.errors import TooManyAttempts, UnknownLogin
from memory_manager.auth.scopes import Scope
from memory_manager.auth.tokens import token_digest

LIFE_SECONDS: Final = 600
INTERVAL_SECONDS: Final = 5
AUTO_APPROVE_INTERVAL_SECONDS: Final = 1
SLOW_DOWN_SECONDS: Final = 5
MAX_OPEN: Final = 32
"""Open requests of one kind; the oldest makes room."""
MAX_WRONG_CODES: Final = 10
ATTEMPT_WINDOW_SECONDS: Final = 300

_CODE_LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"  # no vowels: no words, nothing to mistake
_CODE_LENGTH: Final = 8
_HALF: Final = _CODE_LENGTH // 2


class LoginKind(enum.StrEnum):
    DEVICE = "device"
    OAUTH = "oauth"


class LoginState(enum.Enum):
    PENDING = "pending"
    APPROVED = "approved"
    CLAIMED = "claimed"  # its credential is being written
    DENIED = "denied"
    DONE = "done"


class Poll(enum.Enum):
    """What a poll of a device code answers."""

    PENDING = "authorization_pending"
    SLOW_DOWN = "slow_down"
    DENIED = "access_denied"
    EXPIRED = "expired_token"
    CLAIMED = "claimed"  # the caller alone now makes the credential, then calls finish or give_back


@dataclasses.dataclass(frozen=True, slots=True)
class Redirect:
    """Where the answer of an OAuth request goes, and what it is bound to."""

    client_id: str
    redirect_uri: str
    state: str | None = dataclasses.field(repr=False)
    challenge: str = dataclasses.field(repr=False)


@dataclasses.dataclass(slots=True)
class Login:
    """One request. ``name`` is what the client says of itself."""

    kind: LoginKind
    name: str
    scopes: frozenset[Scope]
    user_code: str
    requested_at: float  # of the desk's clock, seconds
    interval_seconds: int
    redirect: Redirect | None = None
    state: LoginState = LoginState.PENDING
    polled_at: float | None = None

    @property
    def deadline(self) -> float:
        return self.requested_at + LIFE_SECONDS


class LoginDesk:
    """All open requests. Used from one thread; it knows no credential and no vault."""

    def __init__(
        self,
        *,
        auto_approve: bool = False,
        clock: Callable[[], float] = time.monotonic,
        random_bytes: Callable[[int], bytes] = os.urandom,
        on_auto_approval: Callable[[Login], None] = lambda login: None,
    ) -> None:
        self.auto_approve = auto_approve
        self._clock = clock
        self._random_bytes = random_bytes
        self._on_auto_approval = on_auto_approval
        self._open: dict[bytes, Login] = {}  # by digest of the secret the client holds
        self._wrong: deque[float] = deque()

    def start(
        self,
        kind: LoginKind,
        name: str,
        scopes: frozenset[Scope],
        redirect: Redirect | None = None,
    ) -> tuple[Login, str]:
        """A new request and the secret by which its client asks for it."""
        self._forget_expired()
        same_kind = [digest for digest, login in self._open.items() if login.kind is kind]
        for digest in same_kind[: max(0, len(same_kind) - MAX_OPEN + 1)]:
            del self._open[digest]
        secret = self._random_bytes(32).hex()
        login = Login(
            kind=kind,
            name=name,
            scopes=scopes,
            user_code=self._new_code(),
            requested_at=self._clock(),
            interval_seconds=self.interval_seconds,
            redirect=redirect,
        )
        self._open[token_digest(secret)] = login
        return login, secret

    @property
    def interval_seconds(self) -> int:
        """How long a client waits between polls unless it was told to slow down."""
        return AUTO_APPROVE_INTERVAL_SECONDS if self.auto_approve else INTERVAL_SECONDS

    def find(self, secret: str) -> Login | None:
        """The open request of a client's secret, in any state."""
        self._forget_expired()
        return self._open.get(token_digest(secret))

    def poll(self, secret: str) -> tuple[Poll, Login | None]:
        """One poll of a device code; the request comes along when it was CLAIMED."""
        login = self.find(secret)
        if login is None or login.kind is not LoginKind.DEVICE or login.state is LoginState.DONE:
            return Poll.EXPIRED, None
        if login.state is LoginState.DENIED:
            return Poll.DENIED, None
        if login.state is LoginState.APPROVED:
            return Poll.CLAIMED, self._claim(login)
        now, before = self._clock(), login.polled_at
        login.polled_at = now
        if before is not None and now - before < login.interval_seconds:
            login.interval_seconds += SLOW_DOWN_SECONDS
            return Poll.SLOW_DOWN, None
        if self.auto_approve and before is not None and login.state is LoginState.PENDING:
            self._approve_by_itself(login)
            return Poll.CLAIMED, self._claim(login)
        return Poll.PENDING, None

    def claim(self, secret: str) -> Login | None:
        """An approved OAuth request, once; None in every other state."""
        login = self.find(secret)
        if login is None or login.kind is not LoginKind.OAUTH:
            return None
        if self.auto_approve and login.state is LoginState.PENDING:
            self._approve_by_itself(login)
        return self._claim(login) if login.state is LoginState.APPROVED else None

    def finish(self, login: Login) -> None:
        """Its credential exists: nobody gets another one for it."""
        login.state = LoginState.DONE

    def give_back(self, login: Login) -> None:
        """No credential came of it; the client may ask again."""
        if login.state is LoginState.CLAIMED:
            login.state = LoginState.APPROVED

    def withdraw(self, secret: str) -> None:
        """The client is gone: what it asked for waits no longer. Nothing for an unknown secret."""
        login = self.find(secret)
        if login is not None and login.state in (LoginState.PENDING, LoginState.APPROVED):
            del self._open[token_digest(secret)]

    def pending(self) -> list[Login]:
        """What waits for the owner, oldest first."""
        self._forget_expired()
        return [login for login in self._open.values() if login.state is LoginState.PENDING]

    def look_up(self, user_code: str) -> Login:
        """A waiting request by its user code, without case and dashes.

        Raises UnknownLogin, which counts as a wrong code, or TooManyAttempts.
        """
        now = self._clock()
        while self._wrong and now - self._wrong[0] >= ATTEMPT_WINDOW_SECONDS:
            self._wrong.popleft()
        if len(self._wrong) >= MAX_WRONG_CODES:
            raise TooManyAttempts
        wanted = plain_code(user_code)
        for login in self.pending():
            if plain_code(login.user_code) == wanted:
                return login
        self._wrong.append(now)
        raise UnknownLogin

    def decide(self, user_code: str, *, approve: bool) -> Login:
        """The owner's word on a waiting request; a code decides once."""
        login = self.look_up(user_code)
        login.state = LoginState.APPROVED if approve else LoginState.DENIED
        return login

    def age_seconds(self, login: Login) -> int:
        return int(self._clock() - login.requested_at)

    def seconds_left(self, login: Login) -> int:
        return max(0, int(login.deadline - self._clock()))

    def _claim(self, login: Login) -> Login:
        login.state = LoginState.CLAIMED
        return login

    def _approve_by_itself(self, login: Login) -> None:
        login.state = LoginState.APPROVED
        self._on_auto_approval(login)

    def _forget_expired(self) -> None:
        now = self._clock()
        for digest in [key for key, login in self._open.items() if now >= login.deadline]:
            del self._open[digest]

    def _new_code(self) -> str:
        used = {login.user_code for login in self._open.values()}
        while True:
            code = "".join(self._letter() for _ in range(_CODE_LENGTH))
            code = f"{code[:_HALF]}-{code[_HALF:]}"
            if code not in used:
                return code

    def _letter(self) -> str:
        while True:  # without the bias of a remainder
            (value,) = self._random_bytes(1)
            if value < 256 - 256 % len(_CODE_LETTERS):
                return _CODE_LETTERS[value % len(_CODE_LETTERS)]


def plain_code(text: str) -> str:
    """A user code as it is compared: capital letters only."""
    return "".join(letter for letter in text.upper() if letter.isalnum())


def shown_name(declared: str, fallback: str) -> str:
    """What a client calls itself, without anything that could disguise it on a page or terminal."""
    plain = "".join(letter for letter in declared if letter.isprintable()).strip()
    return plain or fallback
