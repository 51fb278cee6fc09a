"""The clocks around a passphrase, as tables."""

from __future__ import annotations

import pytest
from vault_harness import FakeClocks

from memory_manager.vault.policy import AttemptDelay, Deadlines, VaultPolicy, reauth_due

HOUR = 3600
ENTERED = 1_800_000_000


@pytest.mark.parametrize(
    ("seconds_later", "due"),
    [
        (0, False),
        (12 * HOUR - 1, False),
        (12 * HOUR, True),
        (400 * 24 * HOUR, True),
        (-299, False),
        (-300, False),
        (-301, True),
        (-HOUR, True),
    ],
)
def test_reauthentication_by_the_wall_clock(seconds_later: int, due: bool) -> None:
    assert reauth_due(ENTERED, ENTERED + seconds_later, 12 * HOUR) is due


def test_a_vault_that_never_saw_a_passphrase_is_due() -> None:
    assert reauth_due(0, ENTERED, 12 * HOUR)


@pytest.mark.parametrize("seconds", [0, -1, 12 * HOUR + 1])
def test_the_period_may_be_shortened_but_not_switched_off(seconds: int) -> None:
    with pytest.raises(ValueError, match="reauth_seconds"):
        VaultPolicy(reauth_seconds=seconds)


def test_the_delay_doubles_to_thirty_seconds_and_ends_with_success() -> None:
    clocks = FakeClocks()
    delay = AttemptDelay(clocks.monotonic)
    assert delay.remaining() == 0
    seen = []
    for _ in range(8):
        seen.append(delay.failed())
        clocks.advance(seen[-1])
    assert seen == [1, 2, 4, 8, 16, 30, 30, 30]
    delay.failed()
    clocks.advance(10)
    assert delay.remaining() == 20
    delay.succeeded()
    assert delay.remaining() == 0
    assert delay.failed() == 1


def test_the_admin_window_is_five_minutes() -> None:
    clocks = FakeClocks()
    deadlines = Deadlines(VaultPolicy(), clocks.monotonic, clocks.wall)
    assert deadlines.admin_seconds_left() == 0
    deadlines.passphrase_seen()
    clocks.advance(299)
    assert deadlines.admin_seconds_left() == 1
    clocks.advance(1)
    assert deadlines.admin_seconds_left() == 0
    deadlines.passphrase_seen()
    deadlines.closed()
    assert deadlines.admin_seconds_left() == 0


def test_either_clock_ends_the_period() -> None:
    for wall, monotonic in ((12 * HOUR, 0), (0, 12 * HOUR)):
        clocks = FakeClocks()
        deadlines = Deadlines(VaultPolicy(), clocks.monotonic, clocks.wall)
        entered = int(clocks.wall())
        deadlines.opened(entered)
        assert not deadlines.reauth_is_due(entered)
        clocks.wall_now += wall
        clocks.now += monotonic
        assert deadlines.reauth_is_due(entered)


def test_opening_late_does_not_start_a_new_period() -> None:
    clocks = FakeClocks()
    deadlines = Deadlines(VaultPolicy(), clocks.monotonic, clocks.wall)
    entered = int(clocks.wall())
    clocks.advance(11 * HOUR)
    deadlines.opened(entered)
    clocks.now += HOUR
    assert deadlines.reauth_is_due(entered)


def test_use_puts_the_idle_lock_off() -> None:
    clocks = FakeClocks()
    deadlines = Deadlines(VaultPolicy(), clocks.monotonic, clocks.wall)
    clocks.advance(899)
    assert not deadlines.idle_is_over()
    deadlines.used()
    clocks.advance(899)
    assert not deadlines.idle_is_over()
    clocks.advance(1)
    assert deadlines.idle_is_over()
    never = Deadlines(VaultPolicy(idle_lock_seconds=None), clocks.monotonic, clocks.wall)
    clocks.advance(10**6)
    assert not never.idle_is_over()
