"""What may be left out in the native tier, and what is kept in memory between two texts.

Contract: redaction.md 5.1, 5.2, 2.3.
"""

from __future__ import annotations

import re

import pytest
from secrets_generator import TOKENS, Maker

from memory_manager.security.redact import anchors, engine, labels, sanitize_server_write, views
from memory_manager.security.redact.labels import Family, classify
from memory_manager.security.redact.triggers import PATTERNS, Trigger


def _broken_texts() -> list[str]:
    make = Maker("triggers")
    texts: list[str] = []
    for draw in TOKENS.values():
        token = draw(make).text
        half = len(token) // 2
        for between in ("\n", "\n    ", " \\\n", "\n> ", '" + "', "' '", '" .\n  "', " ", "*/ /*"):
            texts.append(f'x = "{token[:half]}{between}{token[half:]}"')
        texts.append("key " + " ".join(token[:40]) + " end")
        texts.append(token.replace("_", "%5F").replace("-", "\\u002d"))
    return texts


def test_a_reading_that_finds_something_has_its_trigger() -> None:
    met: set[Trigger] = set()
    for text in _broken_texts():
        spans = engine.runs(text)
        every = {"lines": False, "quotes": False, "blanks": False}
        for name, trigger in (
            ("lines", Trigger.BREAK),
            ("quotes", Trigger.QUOTES),
            ("blanks", Trigger.BLANK),
        ):
            alone = views.joined(text, spans, **{**every, name: True})
            if alone is not None and alone.edited != getattr(
                views.joined(text, spans, **every), "edited", None
            ):
                met.add(trigger)
                assert re.search(PATTERNS[trigger], text), (trigger, text)
        if views.unescaped(text) is not None:
            met.add(Trigger.ESCAPE)
            assert re.search(PATTERNS[Trigger.ESCAPE], text)
    assert met == {Trigger.BREAK, Trigger.QUOTES, Trigger.BLANK, Trigger.ESCAPE}


def test_the_native_gate_says_what_may_be_left_out() -> None:
    pytest.importorskip("hyperscan", reason="the native tier is an extra")
    assert anchors.use_native_database(anchors.compile_native_database())
    try:
        plain = anchors.find_anchors("We moved the worker to the other queue.")
        assert not any(plain.may(trigger) for trigger in Trigger)
        assert not plain.seen
        assert anchors.find_anchors("a \\x41 b").may(Trigger.ESCAPE)
    finally:
        anchors.use_portable_tier()
    assert all(anchors.find_anchors("We moved.").may(trigger) for trigger in Trigger)


def test_only_names_are_remembered() -> None:
    labels.remembered.cache_clear()
    assert classify("db_password") is Family.PASSWORD
    assert labels.remembered.cache_info().currsize == 1
    classify("token" + "9f3" * 4)
    sanitize_server_write("pass4word9z is no name: " + "token" + "x8" * 12)
    assert labels.remembered.cache_info().currsize == 1
    for number in range(labels.MAX_REMEMBERED + 10):
        classify("key_" + "".join(chr(97 + int(digit)) for digit in str(number)))
    assert labels.remembered.cache_info().currsize <= labels.MAX_REMEMBERED
