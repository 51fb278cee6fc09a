"""The clocks around a passphrase: re-authentication, admin window, idle lock, delayed retries.

Contract: vault.md 4.2, 14. Clocks come in as functions; a wall clock gives unix seconds, the other
one is monotonic.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

REAUTH_SECONDS = 12 * 3600
CLOCK_SKEW_SECONDS = 5 * 60
IDLE_LOCK_SECONDS = 15 * 60
ADMIN_SECONDS = 5 * 60
RETRY_SECONDS = 30
_DELAYS_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
_NEVER = float("-inf")


@dataclasses.dataclass(frozen=True, slots=True)
class VaultPolicy:
    """Settings of the owner. The re-authentication period may be shortened, never switched off."""

    reauth_seconds: int = REAUTH_SECONDS
    idle_lock_seconds: int | None = IDLE_LOCK_SECONDS  # None: no idle lock

    def __post_init__(self) -> None:
        if not 1 <= self.reauth_seconds <= REAUTH_SECONDS:
            raise ValueError("reauth_seconds is between 1 and 43200")
        if self.idle_lock_seconds is not None and self.idle_lock_seconds < 1:
            raise ValueError("idle_lock_seconds is positive")


def reauth_due(last_auth: int, wall_now: float, period_seconds: int) -> bool:
    """Whether the passphrase is due: the period is over, or the clock went back past its entry."""
    if wall_now < last_auth - CLOCK_SKEW_SECONDS:
        return True
    return wall_now >= last_auth + period_seconds


class AttemptDelay:
    """After a wrong passphrase the next try has to wait 1, 2, 4, ... up to 30 seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._not_before = _NEVER

    def remaining(self) -> float:
        """Seconds until a try is allowed; 0 when it is."""
        return max(0.0, self._not_before - self._clock())

    def failed(self) -> float:
        """Count a wrong passphrase and return the seconds to wait."""
        delay = _DELAYS_SECONDS[min(self._failures, len(_DELAYS_SECONDS) - 1)]
        self._failures += 1
        self._not_before = self._clock() + delay
        return delay

    def succeeded(self) -> None:
        """Forget the failures."""
        self._failures = 0
        self._not_before = _NEVER


class Deadlines:
    """When an open vault has to ask for the passphrase again, and for what it still counts."""

    def __init__(
        self, policy: VaultPolicy, clock: Callable[[], float], wall_clock: Callable[[], float]
    ) -> None:
        self.policy = policy
        self._clock = clock
        self._wall_clock = wall_clock
        self._admin_until = _NEVER
        self._reauth_at = float("inf")
        self._last_use = clock()

    def too_old(self, last_auth: int) -> bool:
        """Whether an entry at this unix time counts no more."""
        return reauth_due(last_auth, self._wall_clock(), self.policy.reauth_seconds)

    def opened(self, last_auth: int) -> None:
        """The vault is open; the period started at ``last_auth``."""
        self.used()
        left = last_auth + self.policy.reauth_seconds - self._wall_clock()
        self._reauth_at = self._clock() + left

    def passphrase_seen(self) -> None:
        """Open the admin window."""
        self._admin_until = self._clock() + ADMIN_SECONDS

    def closed(self) -> None:
        """Shut the admin window."""
        self._admin_until = _NEVER

    def admin_seconds_left(self) -> float:
        """0 when the passphrase is needed for an admin act."""
        return max(0.0, self._admin_until - self._clock())

    def used(self) -> None:
        """Somebody worked with the vault."""
        self._last_use = self._clock()

    def reauth_is_due(self, last_auth: int) -> bool:
        """By either clock: one may stand still while the machine sleeps, the other may be set."""
        return self._clock() >= self._reauth_at or self.too_old(last_auth)

    def idle_is_over(self) -> bool:
        """Whether the idle period has passed since the last use."""
        idle = self.policy.idle_lock_seconds
        return idle is not None and self._clock() - self._last_use >= idle
