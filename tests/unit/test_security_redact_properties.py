"""Properties that hold for any text (redaction.md 2, 7, 15.6)."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from secrets_generator import LABELLED, TOKENS, Maker, leaked

from memory_manager.security import redact
from memory_manager.security.redact import sanitize_row, sanitize_server_write

FRAGMENTS = [
    "token", "password", "secret", "api_key", "key", "Bearer ", "Authorization: ", "=", ":", ": ",
    " is ", '"', "'", "`", "\\", "\\n", "\n", " ", "%41", "&#65;", "\u200b", "\u00ad", "\x00",
    "\x1b[31m", "密码", "：", "senha", "é", "[REDACTED]", "[REDACTED:jwt]", "[REDACTED:", "]",
    "https://", "a:b@", "://", "@", "?sig=", "--password ", "-u ", "eyJ", ".", "-----BEGIN ",
    "PRIVATE KEY-----", "-----END ", "AKIA", "sk-", "ghp_", "x", "abc123def456", "Summer-2024x",
    "not-a-real-secret", "{", "}", "[", "(", ")", "<", ">", "|", "İ", "\ud800", "\uffff", "🔑",
    "abandon ", "0x", "deadbeef", "recovery codes\n", "a1b2-c3d4\n", "${X}", "None", "string",
]  # fmt: skip

texts = st.one_of(
    st.text(st.characters(), max_size=200),
    st.lists(st.sampled_from(FRAGMENTS), max_size=24).map("".join),
)
quick = settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)


@quick
@given(texts)
def test_cleaning_is_idempotent_and_deterministic(text: str) -> None:
    first = sanitize_server_write(text)
    assert sanitize_server_write(text) == first
    second = sanitize_server_write(first.text)
    assert second.text is first.text
    assert second.redactions == ()
    assert first.applied == (first.text is not text)
    assert first.applied == bool(first.redactions)


@quick
@given(texts)
def test_contact_cleaning_is_idempotent_too(text: str) -> None:
    first = sanitize_server_write(text, redact_contact_pii=True)
    second = sanitize_server_write(first.text, redact_contact_pii=True)
    assert second.text is first.text


json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=8)), inner, max_size=4
        ),
    ),
    max_leaves=10,
)


@settings(quick, max_examples=60)
@given(st.dictionaries(st.sampled_from(["content", "path", "metadata", "provenance"]), json_values))
def test_rows_keep_their_keys_and_come_through_a_second_time(row: dict[str, object]) -> None:
    first = sanitize_row(row)
    assert set(first.row) == set(row)
    second = sanitize_row(first.row)
    assert second.row == first.row
    assert not second.applied


@settings(quick, max_examples=60)
@given(st.integers(0, 10**9), st.text(max_size=40), st.text(max_size=40))
def test_no_text_around_a_token_saves_it(seed: int, before: str, after: str) -> None:
    choice = random.Random(seed)
    name = choice.choice(["github-token", "anthropic-key", "stripe-key", "jwt", "gitlab-pat"])
    sample = TOKENS[name](Maker(seed))
    result = sanitize_server_write(f"{before} {sample.text} {after}")
    for core in sample.cores:
        assert not leaked(core, result.text)


def test_two_texts_together_reveal_no_more_than_alone() -> None:
    make = Maker("together")
    samples = [draw(make) for draw in (*TOKENS.values(), *LABELLED.values())]
    for first, second in zip(samples, samples[1:] + samples[:1], strict=True):
        result = sanitize_server_write(first.text + "\n" + second.text)
        for core in (*first.cores, *second.cores):
            assert not leaked(core, result.text), (first.text, second.text, result.text)


def test_json_documents_stay_json() -> None:
    make = Maker("documents")
    for draw in TOKENS.values():
        document = {"note": f"see {draw(make).text}, please", "list": [draw(make).text]}
        cleaned = sanitize_server_write(json.dumps(document)).text
        assert set(json.loads(cleaned)) == {"note", "list"}


def test_no_pattern_repeats_a_group_possessively() -> None:
    # CPython before 3.11.5 matches such patterns wrongly, and then finds no secret at all
    package = Path(str(redact.__file__)).parent
    sources = [path.read_text("utf-8") for path in package.rglob("*.py")]
    assert len(sources) > 10
    assert not [
        found for text in sources if (found := re.search(r"\)(?:[*+?]|\{[^{}]*\})\+", text))
    ]
