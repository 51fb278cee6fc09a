"""Passwords of words and a number beside names of things, behind the same labels.

Contract: redaction.md 4.3, 12.
"""

from __future__ import annotations

import pytest
from secrets_generator_chosen import CHOSEN, NAMES, RESOURCES, chosen_samples, harmless_names
from secrets_generator_draw import Draw, remains

from memory_manager.security.redact import sanitize_row, sanitize_server_write
from memory_manager.security.redact.chosen_words import is_chosen, is_name

SEED = "words"


def test_a_password_of_words_and_a_number_goes_wherever_it_stands() -> None:
    left = [
        sample.text
        for sample in chosen_samples(Draw(SEED), 2)
        if remains(sample, sanitize_server_write(sample.text).text)
    ]
    assert not left


def test_a_name_with_a_number_stays_behind_the_same_labels() -> None:
    altered = [
        text for _, text in harmless_names(Draw(SEED), 4) if sanitize_server_write(text).applied
    ]
    assert not altered


@pytest.mark.parametrize("kind", CHOSEN)
def test_a_field_of_a_row_called_password_is_read_the_same(kind: str) -> None:
    secret = CHOSEN[kind](Draw(SEED))
    cleaned = sanitize_row({"content": "x", "metadata": {"db": {"password": secret}}})
    assert secret not in repr(cleaned.row)


@pytest.mark.parametrize("kind", [*NAMES, *RESOURCES])
def test_what_is_made_of_the_words_of_names_is_not_chosen(kind: str) -> None:
    draw = Draw(SEED)
    for _ in range(20):
        name = {**NAMES, **RESOURCES}[kind](draw)
        assert not is_chosen(name, password=False), name


@pytest.mark.parametrize("kind", CHOSEN)
def test_what_is_chosen_is_no_name(kind: str) -> None:
    draw = Draw(SEED)
    for _ in range(20):
        value = CHOSEN[kind](draw)
        assert is_chosen(value, password=True), value
        assert not is_name(value), value


@pytest.mark.parametrize("number", ["2024", "64", "256"])
def test_a_known_number_beside_words_of_names_tells_nothing(number: str) -> None:
    assert is_name(f"shop-tls-{number}")
    assert not is_chosen(f"shop_tls_{number}", password=True)
