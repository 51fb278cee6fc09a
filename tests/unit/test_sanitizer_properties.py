"""Properties of the sanitizer on any text, from outside (redaction.md 2, 7, 8, 15.6)."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hostile_texts import FRAGMENTS
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from secrets_generator_draw import Draw, Sample, remains, survives
from secrets_generator_rows import shown
from secrets_generator_sets import positives

from memory_manager.security.redact import RULESET_VERSION, sanitize_row, sanitize_server_write

SAMPLES: list[Sample] = list(positives("properties", 0.04))
any_text = st.one_of(
    st.text(st.characters(), max_size=120),
    st.lists(st.sampled_from(FRAGMENTS), max_size=20).map("".join),
)
sample = st.sampled_from(range(len(SAMPLES))).map(SAMPLES.__getitem__)
quick = settings(
    max_examples=150, deadline=None, database=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip


@quick
@given(any_text, st.booleans())
@example("\ud800", False)
@example("", True)
@example("[REDACTED:labelled-secret][REDACTED", False)
def test_any_text_is_cleaned_once_and_for_all(text: str, contact: bool) -> None:
    first = sanitize_server_write(text, redact_contact_pii=contact)
    assert first.applied == bool(first.redactions) == (first.text is not text)
    assert first == sanitize_server_write(text, redact_contact_pii=contact)
    second = sanitize_server_write(first.text, redact_contact_pii=contact)
    assert second.text is first.text
    assert second.redactions == ()
    assert [r.rule for r in first.redactions] == sorted(
        (r.rule for r in first.redactions),
        key=lambda rule: next(
            (("high_risk", "credential", "contact_pii").index(r.severity), r.rule)
            for r in first.redactions
            if r.rule == rule
        ),
    )


@quick
@given(any_text)
def test_credentials_go_alike_with_and_without_contact_data(text: str) -> None:
    def credentials(contact: bool) -> set[tuple[str, str]]:
        result = sanitize_server_write(text, redact_contact_pii=contact)
        return {(r.rule, r.severity) for r in result.redactions if r.severity != "contact_pii"}

    assert credentials(False) <= credentials(True) | {("labelled-secret", "credential")}
    assert sanitize_server_write(text).high_risk == (
        sanitize_server_write(text, redact_contact_pii=True).high_risk
    )


@quick
@given(sample, any_text, any_text)
def test_nothing_told_about_a_text_holds_its_secret(found: Sample, before: str, after: str) -> None:
    text = f"{before}\n{found.text}\n{after}"
    result = sanitize_server_write(text)
    row = sanitize_row({"content": text, "metadata": {"note": found.text}})
    told = [repr(result), str(result), repr(result.redactions), repr(row), str(row)]
    told += [repr(row.redactions), json.dumps([r.as_json() for r in result.redactions])]
    told += [json.dumps([r.as_json() for r in row.redactions])]
    for text_told in told:
        assert not [s for s in found.secrets if survives(s, text_told)]
    allowed = {"rule", "severity", "count", "field"}
    assert all(set(entry.as_json()) <= allowed for entry in (*result.redactions, *row.redactions))


@quick
@given(sample, sample)
def test_two_texts_together_reveal_no_more_than_alone(first: Sample, second: Sample) -> None:
    together = sanitize_server_write(first.text + "\n" + second.text).text
    for found in (first, second):
        alone = sanitize_server_write(found.text).text
        hidden = [s for s in found.secrets if not survives(s, alone)]
        assert not [s for s in hidden if survives(s, together)]


json_values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), any_text,
              sample.map(lambda s: s.text)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=8)), inner, max_size=4
        ),
    ),
    max_leaves=8,
)  # fmt: skip


@settings(quick, max_examples=80)
@given(st.dictionaries(st.sampled_from(("a", "note", "list", "body")), json_values, min_size=1))
def test_json_stays_json(value: dict[str, Any]) -> None:
    cleaned = sanitize_server_write(json.dumps(value)).text
    assert isinstance(json.loads(cleaned), dict)


@settings(quick, max_examples=80)
@given(st.dictionaries(
    st.sampled_from(("content", "title", "tags", "metadata", "provenance")), json_values
))  # fmt: skip
def test_rows_keep_their_fields_and_come_through_a_second_time(row: dict[str, Any]) -> None:
    first = sanitize_row(row)
    assert first.row.keys() == row.keys()
    assert json.loads(json.dumps(first.row)) == first.row
    second = sanitize_row(first.row)
    assert second.row == first.row
    assert not second.applied
    assert first.applied == (shown(first.row) != shown(row)) or first.applied == bool(
        first.redactions
    )


@pytest.mark.parametrize("value", [None, 1, b"token=abc123def456", ["x"], object()])
def test_another_type_is_refused_without_being_shown(value: Any) -> None:
    with pytest.raises(TypeError) as caught:
        sanitize_server_write(value)
    assert "abc123" not in repr(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_the_flag_is_a_keyword_and_off() -> None:
    with pytest.raises(TypeError):
        sanitize_server_write("x", True)  # type: ignore[misc]
    assert not sanitize_server_write("mail bob@acme.io").applied


def test_the_documents_sample() -> None:
    result = sanitize_server_write("Deploy with token=not-a-real-secret", redact_contact_pii=False)
    assert result.text == "Deploy with token=[REDACTED:labelled-secret]"
    assert [(r.rule, r.severity, r.count) for r in result.redactions] == [
        ("labelled-secret", "credential", 1)
    ]
    assert isinstance(RULESET_VERSION, str)


def test_only_marks_with_a_known_id_are_trusted() -> None:
    draw = Draw("marks")
    token = "gh" + "p_" + draw.of("a", 36)
    for text, secret in (
        (f"[REDACTED:{token}]", token),
        ("password=[REDACTED:hunter2-prod-pw]", "hunter2-prod-pw"),
        (f"[REDACTED] {token}", token),
        (f"password: [REDACTED:jwt]{token}", token),
    ):
        assert not survives(secret, sanitize_server_write(text).text), text


def test_no_environment_variable_switches_the_sanitizer_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for word in ("DISABLE", "SKIP", "OFF", "ALLOW", "RAW", "DEBUG"):
        for name in ("REDACT", "REDACTION", "SANITIZER", "SANITIZE"):
            monkeypatch.setenv(f"MEMLOCKET_{word}_{name}", "1")
            monkeypatch.setenv(f"MEMLOCKET_{name}_{word}", "1")
    found = SAMPLES[0]
    assert not remains(found, sanitize_server_write(found.text).text)


def test_a_result_cannot_be_changed_and_keeps_its_secret_out_of_copies() -> None:
    found = SAMPLES[0]
    result = sanitize_server_write(found.text)
    with pytest.raises(AttributeError):
        result.text = found.text  # type: ignore[misc]
    assert not remains(found, pickle.dumps(result).decode("latin-1"))
