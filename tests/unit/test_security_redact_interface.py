"""The public interface of the sanitizer (redaction.md 1, 2, 7)."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
from secrets_generator import TOKENS, Maker, pem

from memory_manager.security.errors import SanitizerFailed
from memory_manager.security.redact import (
    RULESET_VERSION,
    Severity,
    label_words,
    name_words,
    sanitize_row,
    sanitize_server_write,
)
from memory_manager.security.redact import engine as redact_engine
from memory_manager.security.redact.ids import ALL_IDS
from memory_manager.security.redact.rules import RULES
from memory_manager.security.redact.validators import VALIDATORS


def test_the_documents_sample_runs_as_it_stands() -> None:
    result = sanitize_server_write("Deploy with token=not-a-real-secret", redact_contact_pii=False)
    assert result.text == "Deploy with token=[REDACTED:labelled-secret]"
    assert result.applied is True
    assert [(r.rule, r.severity, r.count) for r in result.redactions] == [
        ("labelled-secret", "credential", 1)
    ]
    assert result.as_json() == [{"rule": "labelled-secret", "severity": "credential", "count": 1}]


def test_the_flag_is_keyword_only() -> None:
    with pytest.raises(TypeError):
        cast("Any", sanitize_server_write)("some text", True)


@pytest.mark.parametrize("value", [None, 7, b"token=not-a-real-secret", ["x"]])
def test_anything_but_a_text_is_a_type_error_that_does_not_show_it(value: Any) -> None:
    with pytest.raises(TypeError) as caught:
        sanitize_server_write(value)
    assert "not-a-real-secret" not in str(caught.value)


def test_an_unchanged_text_is_the_same_object() -> None:
    text = "We decided to keep SQLite for the index. " * 20
    result = sanitize_server_write(text)
    assert result.text is text
    assert (result.applied, result.redactions, result.high_risk) == (False, (), False)


def test_high_risk_is_told_apart() -> None:
    result = sanitize_server_write("note: " + pem(Maker(1)).text)
    assert result.high_risk
    assert result.redactions[0].severity is Severity.HIGH_RISK
    assert not sanitize_server_write("token=not-a-real-secret").high_risk


def test_redactions_are_grouped_and_ordered_by_severity_then_id() -> None:
    make = Maker(2)
    text = "\n".join(
        [
            "token=not-a-real-secret",
            TOKENS["github-token"](make).text,
            "secret=also-not-a-secret",
            pem(make).text,
        ]
    )
    result = sanitize_server_write(text)
    assert [(r.rule, r.count) for r in result.redactions] == [
        ("private-key", 1),
        ("github-token", 1),
        ("labelled-secret", 2),
    ]


def test_the_raw_value_is_nowhere_in_the_result() -> None:
    make = Maker(3)
    for name, draw in TOKENS.items():
        sample = draw(make)
        result = sanitize_server_write(f"use {sample.text} now")
        row = sanitize_row({"content": f"use {sample.text} now", "metadata": {sample.text: 1}})
        shown = f"{result!r} {result} {result.redactions!r} {json.dumps(result.as_json())}"
        shown += f"{row!r} {[r.as_json() for r in row.redactions]}"
        for core in sample.cores:
            assert core[:8] not in shown, name


def test_a_typed_mark_with_an_unknown_id_is_read_not_trusted() -> None:
    text = "password: [REDACTED:hunter2-prod-pw]"
    assert "labelled-secret" in ALL_IDS
    assert "hunter2-prod-pw" not in ALL_IDS
    own = "password: [REDACTED:labelled-secret] and [REDACTED]"
    assert sanitize_server_write(own).text is own
    token = TOKENS["github-token"](Maker(4)).text
    result = sanitize_server_write(f"[REDACTED:{token}] {text}")
    assert token not in result.text


def test_nothing_matches_across_a_mark() -> None:
    token = TOKENS["github-token"](Maker(5)).text
    text = f"{token[:20]}[REDACTED:jwt]{token[20:]}"
    assert sanitize_server_write(text).text.count("[REDACTED:jwt]") == 1


def test_userinfo_gets_the_bare_mark() -> None:
    result = sanitize_server_write("see https://bot:kestrel-42-x@git.acme.io/app.git today")
    assert result.text == "see https://bot:[REDACTED]@git.acme.io/app.git today"
    assert [r.rule for r in result.redactions] == ["url-userinfo"]


def test_a_failing_reader_refuses_the_text_without_showing_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(text: str, budget: object) -> list[object]:
        raise RuntimeError(text)

    monkeypatch.setattr("memory_manager.security.redact.sanitize.scan", broken)
    for call in (
        lambda: sanitize_server_write("planted secret value"),
        lambda: sanitize_row({"content": "planted secret value"}),
    ):
        with pytest.raises(SanitizerFailed) as caught:
            call()
        assert "planted" not in str(caught.value)
        assert caught.value.__context__ is None
        assert caught.value.__cause__ is None


def test_a_text_over_budget_is_withheld_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "memory_manager.security.redact.sanitize.Budget", lambda: redact_engine.Budget(100)
    )
    result = sanitize_server_write("token=not-a-real-secret " * 50)
    assert result.text == "[REDACTED:oversize-unscannable]"
    assert [r.rule for r in result.redactions] == ["oversize-unscannable"]


def test_the_registry_is_well_formed(repository: Path) -> None:
    shapes = len({rule.id for rule in RULES})
    changelog = (repository / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"knows {shapes} credential shapes" in " ".join(changelog.split())
    for rule in RULES:
        assert re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", rule.id), rule.id
        assert rule.anchors, rule.id
        assert all(anchor == anchor.lower() for anchor in rule.anchors), rule.id
        assert rule.validator is None or rule.validator in VALIDATORS, rule.id
        assert 0 < rule.window <= 8192, rule.id
        assert rule.since, rule.id
        compiled = re.compile(rule.pattern)
        assert compiled.groups >= rule.group, rule.id
        for forbidden in ("(?=", "(?!", "(?<", "(?>", "++", "*+", "?+", "\\1"):
            assert forbidden not in rule.pattern, (rule.id, forbidden)
    assert RULESET_VERSION


def _ruleset_digest() -> str:
    """What decides which texts are redacted, as data: shapes, names of checks, word lists."""
    words = {
        name: sorted(value) if isinstance(value, frozenset) else value
        for module in (label_words, name_words)
        for name, value in vars(module).items()
        if name.isupper()
    }
    described = json.dumps([[repr(rule) for rule in RULES], words, sorted(ALL_IDS)], sort_keys=True)
    return hashlib.sha256(described.encode()).hexdigest()[:16]


def test_a_changed_rule_set_has_a_new_version() -> None:
    """When this fails: raise RULESET_VERSION, then pin the new digest beside it."""
    assert {RULESET_VERSION: _ruleset_digest()} == {"6": "20111fe87df99bb6"}
