"""Sign-in codes and sessions of the owner's browser (desktop.md 11.7)."""

from __future__ import annotations

import random

from memory_manager.api.pages.sessions import (
    CODE_SECONDS,
    IDLE_SECONDS,
    LIFE_SECONDS,
    MAX_CODES,
    MAX_SESSIONS,
    OwnerSessions,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def sessions_at(clock: Clock) -> OwnerSessions:
    return OwnerSessions("0192-aa", clock=clock, random_bytes=random.Random(5).randbytes)


def signed_in(sessions: OwnerSessions) -> str:
    cookie = sessions.exchange(sessions.new_code())
    assert cookie is not None
    return cookie


def test_a_code_works_once() -> None:
    sessions = sessions_at(Clock())
    code = sessions.new_code()
    assert sessions.exchange(code)
    assert sessions.exchange(code) is None


def test_a_code_lives_sixty_seconds() -> None:
    clock = Clock()
    sessions = sessions_at(clock)
    early, late = sessions.new_code(), sessions.new_code()
    clock.now = CODE_SECONDS - 0.001
    assert sessions.exchange(early)
    clock.now = CODE_SECONDS
    assert sessions.exchange(late) is None


def test_a_session_ends_when_idle() -> None:
    clock = Clock()
    sessions = sessions_at(clock)
    cookie = signed_in(sessions)
    clock.now += IDLE_SECONDS - 1
    assert sessions.find(cookie)
    clock.now += IDLE_SECONDS
    assert sessions.find(cookie) is None


def test_a_used_session_ends_after_twelve_hours() -> None:
    clock = Clock()
    sessions = sessions_at(clock)
    cookie = signed_in(sessions)
    while clock.now + IDLE_SECONDS / 2 < LIFE_SECONDS:
        clock.now += IDLE_SECONDS / 2
        assert sessions.find(cookie)
    clock.now = LIFE_SECONDS
    assert sessions.find(cookie) is None


def test_codes_and_sessions_are_bounded() -> None:
    sessions = sessions_at(Clock())
    codes = [sessions.new_code() for _ in range(MAX_CODES + 1)]
    assert sessions.exchange(codes[0]) is None
    assert sessions.exchange(codes[1])
    cookies = [signed_in(sessions) for _ in range(MAX_SESSIONS + 1)]
    assert sessions.find(cookies[0]) is None
    assert sessions.find(cookies[1])


def test_each_session_has_a_form_token_of_its_own_and_an_end() -> None:
    sessions = sessions_at(Clock())
    first, second = (sessions.find(signed_in(sessions)) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.owns(first.csrf)
    assert not first.owns(second.csrf)
    assert not first.owns("")
    cookie = signed_in(sessions)
    sessions.end(cookie)
    assert sessions.find(cookie) is None


def test_the_cookie_carries_the_daemon() -> None:
    assert sessions_at(Clock()).cookie_name == "memlocket_0192aa"
