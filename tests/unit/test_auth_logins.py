"""The state machine of waiting logins (xmemo.md 9), step by step and against a model."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from memory_manager.auth.errors import TooManyAttempts, UnknownLogin
from memory_manager.auth.logins import (
    ATTEMPT_WINDOW_SECONDS,
    INTERVAL_SECONDS,
    LIFE_SECONDS,
    MAX_OPEN,
    MAX_WRONG_CODES,
    Login,
    LoginDesk,
    LoginKind,
    LoginState,
    Poll,
    Redirect,
    plain_code,
    shown_name,
)
from memory_manager.auth.scopes import MEMORY_SCOPES


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def randomness(seed: int = 1) -> Callable[[int], bytes]:
    return random.Random(seed).randbytes


def desk_at(clock: Clock, *, auto_approve: bool = False) -> LoginDesk:
    return LoginDesk(auto_approve=auto_approve, clock=clock, random_bytes=randomness())


def start(desk: LoginDesk, name: str = "cli") -> tuple[Login, str]:
    return desk.start(LoginKind.DEVICE, name, MEMORY_SCOPES)


def test_the_way_of_an_approved_login() -> None:
    clock = Clock()
    desk = desk_at(clock)
    login, secret = start(desk)
    assert desk.poll(secret) == (Poll.PENDING, None)
    desk.decide(login.user_code, approve=True)
    assert desk.poll(secret) == (Poll.CLAIMED, login)
    assert desk.poll(secret)[0] is not Poll.CLAIMED  # a second poll at the same time
    desk.finish(login)
    for _ in range(3):
        clock.now += LIFE_SECONDS
        assert desk.poll(secret) == (Poll.EXPIRED, None)


def test_a_failed_write_gives_the_login_back() -> None:
    desk = desk_at(Clock())
    login, secret = start(desk)
    desk.decide(login.user_code, approve=True)
    assert desk.poll(secret)[0] is Poll.CLAIMED
    desk.give_back(login)
    assert desk.poll(secret)[0] is Poll.CLAIMED


def test_polling_too_fast_adds_five_seconds_each_time() -> None:
    clock = Clock()
    desk = desk_at(clock)
    _, secret = start(desk)
    assert desk.poll(secret)[0] is Poll.PENDING
    assert desk.poll(secret)[0] is Poll.SLOW_DOWN
    clock.now += INTERVAL_SECONDS
    assert desk.poll(secret)[0] is Poll.SLOW_DOWN
    clock.now += INTERVAL_SECONDS + 10
    assert desk.poll(secret)[0] is Poll.PENDING


def test_an_approved_login_answers_even_an_impatient_client() -> None:
    desk = desk_at(Clock())
    login, secret = start(desk)
    desk.poll(secret)
    desk.decide(login.user_code, approve=True)
    assert desk.poll(secret)[0] is Poll.CLAIMED


@pytest.mark.parametrize("approve", [True, False])
def test_a_code_decides_once(approve: bool) -> None:
    desk = desk_at(Clock())
    login, _ = start(desk)
    desk.decide(login.user_code, approve=approve)
    with pytest.raises(UnknownLogin):
        desk.decide(login.user_code, approve=not approve)


def test_a_denied_login_stays_denied_until_it_expires() -> None:
    clock = Clock()
    desk = desk_at(clock)
    login, secret = start(desk)
    desk.decide(login.user_code, approve=False)
    assert [desk.poll(secret)[0] for _ in range(3)] == [Poll.DENIED] * 3
    clock.now += LIFE_SECONDS
    assert desk.poll(secret)[0] is Poll.EXPIRED


def test_an_expired_login_cannot_be_approved() -> None:
    clock = Clock()
    desk = desk_at(clock)
    login, secret = start(desk)
    clock.now += LIFE_SECONDS - 0.001
    assert desk.poll(secret)[0] is Poll.PENDING
    clock.now += 0.001
    assert desk.pending() == []
    with pytest.raises(UnknownLogin):
        desk.decide(login.user_code, approve=True)
    assert desk.poll(secret)[0] is Poll.EXPIRED


def test_thirty_two_are_open_at_once_and_the_oldest_makes_room() -> None:
    desk = desk_at(Clock())
    secrets = [start(desk, f"c{number}")[1] for number in range(MAX_OPEN + 3)]
    assert len(desk.pending()) == MAX_OPEN
    assert [desk.poll(secret)[0] for secret in secrets[:4]] == [Poll.EXPIRED] * 3 + [Poll.PENDING]
    desk.start(LoginKind.OAUTH, "other kind", MEMORY_SCOPES, Redirect("c", "http://x", None, "ch"))
    assert len(desk.pending()) == MAX_OPEN + 1


@pytest.mark.parametrize("spelling", [str.lower, lambda c: c.replace("-", ""), lambda c: f" {c} "])
def test_codes_are_compared_without_case_and_dashes(spelling: Callable[[str], str]) -> None:
    desk = desk_at(Clock())
    login, _ = start(desk)
    assert desk.look_up(spelling(login.user_code)) is login
    assert len(plain_code(login.user_code)) == 8


def test_guessing_is_stopped_and_may_go_on_later() -> None:
    clock = Clock()
    desk = desk_at(clock)
    login, _ = start(desk)
    for number in range(MAX_WRONG_CODES):
        with pytest.raises(UnknownLogin):
            desk.look_up(f"WRNG-{number:04}")
    for _ in range(100 - MAX_WRONG_CODES):
        with pytest.raises(TooManyAttempts):
            desk.look_up(login.user_code)
    clock.now += ATTEMPT_WINDOW_SECONDS
    assert desk.look_up(login.user_code) is login


def test_a_device_secret_is_no_oauth_secret_and_the_reverse() -> None:
    desk = desk_at(Clock())
    device, device_secret = start(desk)
    redirect = Redirect("client", "http://127.0.0.1:1/", "s", "c" * 43)
    oauth, oauth_secret = desk.start(LoginKind.OAUTH, "editor", MEMORY_SCOPES, redirect)
    for login in (device, oauth):
        desk.decide(login.user_code, approve=True)
    assert desk.claim(device_secret) is None
    assert desk.poll(oauth_secret) == (Poll.EXPIRED, None)
    assert desk.claim(oauth_secret) is oauth
    assert desk.claim(oauth_secret) is None


def test_auto_approval_comes_after_one_pending_answer_and_is_told() -> None:
    clock, told = Clock(), list[Login]()
    desk = LoginDesk(
        auto_approve=True, clock=clock, random_bytes=randomness(), on_auto_approval=told.append
    )
    login, secret = start(desk)
    assert desk.poll(secret)[0] is Poll.PENDING
    assert told == []
    clock.now += desk.interval_seconds
    assert desk.poll(secret) == (Poll.CLAIMED, login)
    assert told == [login]


def test_every_letter_of_a_code_is_equally_likely() -> None:
    desk = desk_at(Clock())
    counts = dict.fromkeys("BCDFGHJKLMNPQRSTVWXZ", 0)
    for _ in range(1_000):
        for letter in plain_code(start(desk)[0].user_code):
            counts[letter] += 1
    assert max(counts.values()) < 1.35 * min(counts.values())


@pytest.mark.parametrize(
    ("declared", "shown"),
    [
        ("@xmemo/client", "@xmemo/client"),
        ("evil\u202egpj.exe", "evilgpj.exe"),
        ("a\nApproved\x1b[31m", "aApproved[31m"),
        ("\u200b\x00", "unnamed"),
    ],
)
def test_names_cannot_disguise_themselves(declared: str, shown: str) -> None:
    assert shown_name(declared, "unnamed") == shown


class LoginModel(RuleBasedStateMachine):
    """Any order of steps: one credential at most for a login, and none without a yes."""

    logins = Bundle("logins")

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.desk = desk_at(self.clock)
        self.said_yes: set[str] = set()
        self.said_no: set[str] = set()
        self.made: dict[str, int] = {}
        self.started: dict[str, float] = {}
        self.numbers = itertools.count()

    @rule(target=logins)
    def start(self) -> tuple[str, str]:
        login, secret = start(self.desk, f"c{next(self.numbers)}")
        self.started[secret] = self.clock.now
        return login.user_code, secret

    @rule(login=logins, approve=st.booleans())
    def decide(self, login: tuple[str, str], approve: bool) -> None:
        try:
            self.desk.decide(login[0], approve=approve)
        except (UnknownLogin, TooManyAttempts):
            return
        decided = [s for s, at in self.started.items() if s == login[1]]
        (self.said_yes if approve else self.said_no).update(decided)

    @rule(login=logins, written=st.booleans())
    def poll(self, login: tuple[str, str], written: bool) -> None:
        secret = login[1]
        answer, claimed = self.desk.poll(secret)
        if self.clock.now - self.started[secret] >= LIFE_SECONDS or self.made.get(secret):
            assert answer is Poll.EXPIRED
        if answer is Poll.CLAIMED:
            assert claimed is not None
            assert secret in self.said_yes
            assert secret not in self.said_no
            if written:
                self.desk.finish(claimed)
                self.made[secret] = self.made.get(secret, 0) + 1
            else:
                self.desk.give_back(claimed)
        else:
            assert claimed is None

    @rule(seconds=st.sampled_from([0.5, 5, 30, 299, 600]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @invariant()
    def nobody_gets_two(self) -> None:
        assert all(count == 1 for count in self.made.values())
        assert len(self.desk.pending()) <= MAX_OPEN
        assert all(login.state is LoginState.PENDING for login in self.desk.pending())


TestLoginModel = LoginModel.TestCase
TestLoginModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
