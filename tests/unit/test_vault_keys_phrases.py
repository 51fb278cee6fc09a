"""Passphrases, recovery words and the choice of Argon2id's parameters."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_manager.vault import argon, passphrase, recovery_words
from memory_manager.vault.argon import CEILING, FLOOR, ArgonParameters
from memory_manager.vault.errors import KdfParametersRefused, WeakPassphrase, WrongRecoveryWords

MIB = 1024 * 1024


@pytest.mark.parametrize(
    "text",
    [
        "",
        "password",
        "correct horse",
        "correct horse battery staple",
        "Correct Horse Battery Staple!",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "Summer2026!",
        "12345678901234",
    ],
)
def test_guessable_passphrases_are_refused(text: str) -> None:
    with pytest.raises(WeakPassphrase) as refused:
        passphrase.check_strength(text)
    assert not text or text not in str(refused.value)


def test_generated_passphrases_pass_and_differ() -> None:
    made = {passphrase.generate_passphrase() for _ in range(20)}
    assert len(made) == 20
    for text in made:
        assert len(text.split()) == 6
        passphrase.check_strength(text)


def test_very_long_passphrases_are_estimated_quickly() -> None:
    begin = time.thread_time()
    passphrase.check_strength("tundra kettle orbit violet " * 400)
    assert time.thread_time() - begin < 2


def test_the_same_text_in_another_unicode_form_is_the_same_passphrase() -> None:
    assert argon.normalise("caf\u0065\u0301 ﬁne") == argon.normalise("café fine")


@pytest.mark.parametrize(
    "parameters",
    [
        ArgonParameters(FLOOR.t - 1, FLOOR.m_kib),
        ArgonParameters(FLOOR.t, FLOOR.m_kib - 1),
        ArgonParameters(CEILING.t + 1, FLOOR.m_kib),
        ArgonParameters(FLOOR.t, CEILING.m_kib + 1),
    ],
)
def test_limits_hold_for_our_own_calls_too(parameters: ArgonParameters) -> None:
    with pytest.raises(KdfParametersRefused):
        argon.passphrase_key("any", bytes(16), parameters)


@given(
    seconds=st.floats(min_value=0.005, max_value=20),
    memory=st.integers(min_value=64 * MIB, max_value=512 * 1024 * MIB),
)
def test_chosen_parameters_are_always_within_the_limits(seconds: float, memory: int) -> None:
    chosen = argon.choose(seconds, memory)
    argon.check_parameters(chosen)
    assert chosen.m_kib <= max(FLOOR.m_kib, memory // 1024 // 8)


@pytest.mark.parametrize("seconds_at_floor", [0.05, 0.1, 0.2, 0.3])
def test_ordinary_machines_get_half_a_second_to_one_and_a_half(seconds_at_floor: float) -> None:
    chosen = argon.choose(seconds_at_floor, 16 * 1024 * MIB)
    cost = seconds_at_floor * (chosen.t * chosen.m_kib) / (FLOOR.t * FLOOR.m_kib)
    assert 0.5 <= cost <= 1.5


def test_a_slow_machine_gets_the_floor() -> None:
    assert argon.choose(5.0, 16 * 1024 * MIB) == FLOOR


def test_only_one_derivation_runs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    derive, counting, together = argon.argon2id.kdf, threading.Lock(), threading.Barrier(3)
    running, most = 0, 0

    def counted(*arguments: Any, **limits: int) -> bytes:
        nonlocal running, most
        with counting:
            running += 1
            most = max(most, running)
        try:
            return derive(*arguments, **limits)  # lets other threads run meanwhile
        finally:
            with counting:
                running -= 1

    def one_of_three() -> bytearray:
        together.wait(30)
        return argon.passphrase_key("any", bytes(16), FLOOR)

    monkeypatch.setattr(argon.argon2id, "kdf", counted)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(one_of_three) for _ in range(3)]
    assert len({bytes(future.result()) for future in futures}) == 1
    assert most == 1


@given(st.binary(min_size=32, max_size=32))
def test_words_round_trip(entropy: bytes) -> None:
    words = recovery_words.words_of(entropy)
    assert len(words) == 24
    assert recovery_words.entropy_of(words) == entropy
    untidy = "  \n".join(word.upper() for word in words)
    assert recovery_words.entropy_of(untidy) == entropy


@pytest.mark.parametrize(
    "text",
    ["", "abandon", "abandon " * 24, "abandon " * 11 + "about", "abandon " * 23 + "memlocket"],
)
def test_wrong_words_are_refused(text: str) -> None:
    with pytest.raises(WrongRecoveryWords):
        recovery_words.entropy_of(text)


def test_a_changed_word_is_caught_by_the_checksum() -> None:
    words = list(recovery_words.words_of(recovery_words.new_entropy()))
    choices = recovery_words.word_list()
    caught = 0
    for position in range(24):
        other = list(words)
        other[position] = choices[(choices.index(words[position]) + 1) % len(choices)]
        try:
            recovery_words.entropy_of(other)
        except WrongRecoveryWords:
            caught += 1
    assert caught >= 20  # eight bits of checksum: 255 of 256


def test_positions_to_confirm_are_three_different_ones() -> None:
    for _ in range(50):
        positions = recovery_words.positions_to_confirm()
        assert len(set(positions)) == 3
        assert positions == tuple(sorted(positions))
        assert all(0 <= position < 24 for position in positions)
