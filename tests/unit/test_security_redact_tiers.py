"""The native gate finds what the portable ones find, and trusts no database but its own.

Contract: redaction.md 5.1, 5.3, 15.6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import ahocorasick_rs
import pytest
from secret_carriers import carriers
from secret_look_alikes import look_alikes
from secrets_generator import CONTEXTS, LABELLED, TOKENS, Maker

from memory_manager.security.redact import anchors, sanitize_server_write
from memory_manager.security.redact.gate import AutomatonGate, RegexGate


def _texts() -> Iterator[str]:
    make = Maker("tiers")
    for draw in TOKENS.values():
        for context in CONTEXTS.values():
            yield context.format(draw(make).text)
    for labelled in LABELLED.values():
        yield labelled(make).text
    for sample in carriers(make).values():
        yield sample.text
    yield from look_alikes(make).values()


@pytest.fixture(scope="module")
def database() -> bytes:
    return anchors.compile_native_database()


def test_native_and_portable_tier_answer_the_same(database: bytes) -> None:
    texts = list(_texts())
    portable = [sanitize_server_write(text) for text in texts]
    assert anchors.use_native_database(database)
    try:
        native = [sanitize_server_write(text) for text in texts]
    finally:
        anchors.use_portable_tier()
    differing = [text for text, a, b in zip(texts, portable, native, strict=True) if a != b]
    assert not differing


def test_a_foreign_or_damaged_database_is_not_used(database: bytes) -> None:
    damaged = bytearray(database)
    damaged[-100] ^= 1
    other_key = bytearray(database)
    other_key[20] ^= 1
    for data in (b"", b"memlocket", database[:-1], bytes(damaged), bytes(other_key)):
        assert not anchors.use_native_database(data)


def test_the_automaton_finds_what_the_expression_finds() -> None:
    automaton = AutomatonGate(anchors.ANCHORS, ahocorasick_rs)
    expression = RegexGate(anchors.ANCHORS)
    for text in _texts():
        lowered = text.lower()
        assert automaton.find(lowered) == expression.find(lowered)
    assert automaton.find("\ud800 token=") == expression.find("\ud800 token=")


def test_every_anchor_can_stand_inside_a_run() -> None:
    from memory_manager.security.redact.marking import runs
    from memory_manager.security.redact.rules import RULES

    for rule in RULES:
        for anchor in rule.anchors:
            padded = "a" * 16 + anchor + "a" * 16
            assert list(runs(padded)) == [(0, len(padded))], (rule.id, anchor)


def test_a_rule_that_the_native_engine_reads_counts_no_characters_outside_ascii() -> None:
    from memory_manager.security.redact.native import COUNTS_CHARACTERS
    from memory_manager.security.redact.rules import RULES

    for rule in RULES:
        if COUNTS_CHARACTERS.search(rule.pattern) is None:
            outside_classes = re.sub(r"\\.|\[(?:\\.|[^\]])*\]", "", rule.pattern)
            assert "." not in outside_classes, rule.id
            assert rule.pattern.isascii(), rule.id
