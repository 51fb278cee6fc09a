"""Whole rows: keys, lists, nested documents, split secrets (redaction.md 8)."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from secrets_generator import TOKENS, Maker, aws_pair, leaked, pem

from memory_manager.security.redact import sanitize_row, sanitize_server_write
from memory_manager.security.redact.rows import ROW_FIELDS


def _password(seed: int) -> str:
    return Maker(f"row-{seed}").password()


def test_a_secret_goes_from_every_place_of_a_row() -> None:
    make = Maker("places")
    secrets = [TOKENS["github-token"](make).text for _ in range(12)]
    row: dict[str, Any] = {
        "content": f"see {secrets[0]}",
        "path": f"notes/{secrets[1]}",
        "tags": [secrets[2], "plain"],
        "metadata": {
            "url": f"https://x.io/?k={secrets[3]}",
            secrets[4]: "value",
            "deep": [[{"a": {"b": [secrets[5]]}}]],
            "argv": ["tool", f"--x={secrets[6]}"],
            "json": json.dumps({"inner": json.dumps({"a": secrets[7]})}),
            "bytes": secrets[8].encode(),
            "tuple": (secrets[9],),
        },
        "provenance": {"cwd": f"/tmp/{secrets[10]}", "branch": f"fix/{secrets[11]}"},
    }
    result = sanitize_row(row)
    shown = repr(result.row) + repr(result) + repr([r.as_json() for r in result.redactions])
    for secret in secrets:
        assert not leaked(secret[4:], shown)
    assert result.applied
    assert sum(entry.count for entry in result.redactions) == len(secrets)
    assert result.rules == ("github-token",)


def test_the_input_row_is_not_changed() -> None:
    row = {"content": "x", "metadata": {"password": _password(1), "list": [1, "two"]}}
    before = json.dumps(row)
    sanitize_row(row)
    assert json.dumps(row) == before


def test_a_harmless_row_comes_back_equal() -> None:
    row = {
        "id": "0190a5c8-7b1e-7c3a-9a55-1f2e3d4c5b6a",
        "content": "We use ruff.",
        "agent_instance_id_hash": "sha256:" + "ab" * 32,
        "created_at": "2025-01-02T03:04:05Z",
        "updated_at_ms": 1_735_787_045_000,
        "metadata": {
            "count": 3,
            "ok": True,
            "none": None,
            "token_count": 1200,
            "keys": ["a", "b"],
            "key": "ctrl+shift+p",
            "session_id": Maker("session").w(21),
            "doc": '{"a": 1}',
        },
        "tags": ["python", "lint"],
    }
    result = sanitize_row(row)
    assert result.row == row
    assert (result.applied, result.redactions, result.high_risk) == (False, (), False)


@pytest.mark.parametrize("seed", range(20))
def test_a_secret_key_arms_the_value_below_it(seed: int) -> None:
    value = _password(seed)
    for place in (
        {"password": value},
        {"db": {"Password": [value]}},
        {"credentials": {"first": {"of": value}}},
        {"senha": value},
        {"密码": value},
        {"name": "DB_PASSWORD", "value": value},
        {"env": [{"key": "API_TOKEN", "value": value}]},
        {"headers": [["X-Api-Key", value]]},
        {"argv": ["tool", "--password", value, "--verbose"]},
        {"config": json.dumps({"client_secret": value})},
    ):
        result = sanitize_row({"content": "note", "metadata": place})
        assert value not in json.dumps(result.row, ensure_ascii=False), place


def test_letters_only_values_go_after_an_option() -> None:
    result = sanitize_row({"content": "x", "metadata": {"argv": ["t", "--token", "swordfish"]}})
    assert result.row["metadata"]["argv"] == ["t", "--token", "[REDACTED:labelled-secret]"]


def test_numbers_and_booleans_are_not_armed() -> None:
    metadata = {"password": 1234567, "token": True, "secret": None, "api_key": 1.5}
    assert sanitize_row({"metadata": metadata}).row == {"metadata": metadata}


def test_labels_about_secrets_do_not_arm() -> None:
    metadata = {
        "password_hash": "abc123def456",
        "token_type": "bearer1",
        "secret_name": "db-prod-2",
        "cache_key": "user:42:abc123",
        "public_key": "abc123def456abc123",
        "trace": "00-ab12cd34",
    }
    assert sanitize_row({"metadata": metadata}).row == {"metadata": metadata}


def test_a_cleaned_key_collides_into_a_numbered_one() -> None:
    make = Maker("keys")
    first, second = TOKENS["npm-token"](make).text, TOKENS["npm-token"](make).text
    result = sanitize_row({"metadata": {first: 1, second: 2}})
    assert result.row["metadata"] == {"[REDACTED:npm-token]": 1, "[REDACTED:npm-token]#2": 2}
    assert all(first not in entry.field for entry in result.redactions)


def test_a_cleaned_key_is_no_label_on_the_next_pass() -> None:
    row = {"metadata": {"[REDACTED:npm-token]": "version2-of-it"}}
    assert sanitize_row(row).row == row


def test_json_text_stays_json_in_its_style() -> None:
    token = TOKENS["groq-key"](Maker("json")).text
    for text in (
        json.dumps({"a": [1, token], "ключ": "значение"}, ensure_ascii=False),
        json.dumps({"a": token}, separators=(",", ":")),
        json.dumps([token, "plain"], indent=2),
    ):
        cleaned = sanitize_row({"content": text}).row["content"]
        assert json.loads(cleaned)
        assert token not in cleaned
        assert ("\n" in cleaned) == ("\n" in text)
        assert ("ключ" in cleaned) == ("ключ" in text)
    untouched = '{ "a" :  1,   "b": "oddly spaced" }'
    assert sanitize_row({"content": untouched}).row["content"] is untouched


def test_too_deep_a_subtree_is_withheld() -> None:
    token = TOKENS["groq-key"](Maker("deep")).text
    value: Any = token
    for _ in range(100):
        value = {"a": [value]}
    result = sanitize_row({"metadata": value})
    assert token not in repr(result.row)
    assert "[REDACTED:subtree-withheld]" in repr(result.row)
    assert result.rules == ("subtree-withheld",)
    cyclic: dict[str, Any] = {}
    cyclic["self"] = cyclic
    assert "subtree-withheld" in repr(sanitize_row({"metadata": cyclic}).row)


def test_other_leaves_are_judged_by_their_text() -> None:
    moment = datetime.datetime(2025, 1, 2, tzinfo=datetime.UTC)
    assert sanitize_row({"metadata": {"at": moment}}).row["metadata"]["at"] is moment

    class Shown:
        def __str__(self) -> str:
            return TOKENS["groq-key"](Maker("shown")).text

    assert sanitize_row({"metadata": {"x": Shown()}}).row["metadata"]["x"] == "[REDACTED:groq-key]"


def test_a_key_header_and_body_in_two_fields_go_together() -> None:
    sample = pem(Maker("split"))
    header, *body, footer = sample.text.split("\n")
    result = sanitize_row({"title": header, "content": "\n".join([*body, footer])})
    assert result.high_risk
    assert not any(leaked(core, repr(result.row)) for core in sample.cores)
    again = sanitize_row(result.row)
    assert (again.row, again.applied) == (result.row, False)


def test_a_key_id_in_metadata_makes_the_secret_in_the_content_go() -> None:
    key_id, secret = aws_pair(Maker("cross")).cores
    result = sanitize_row({"content": f"use {secret} here", "metadata": {"id": f"AKIA{key_id}"}})
    assert result.high_risk
    assert secret not in repr(result.row)
    again = sanitize_row(result.row)
    assert (again.row, again.applied) == (result.row, False)


def test_a_token_cut_over_two_fields_goes() -> None:
    token = TOKENS["anthropic-key"](Maker("cut")).text
    row = {"content": token[:40], "metadata": {"rest": token[40:]}}
    result = sanitize_row(row)
    assert not leaked(token[41:], repr(result.row))
    assert {entry.field for entry in result.redactions} >= {"metadata.rest"}


def test_contact_data_goes_only_with_the_flag_and_credentials_always() -> None:
    row = {
        "content": "Mail maria.lopez@acme.io or call +351 912 345 678.",
        "metadata": {"telegram": "x", "password": _password(3)},
    }
    kept, removed = sanitize_row(row), sanitize_row(row, redact_contact_pii=True)
    assert kept.row["content"] == row["content"]
    assert removed.row["content"] == (
        "Mail [REDACTED:contact-email] or call [REDACTED:contact-phone]."
    )
    assert kept.row["metadata"] == removed.row["metadata"]
    assert kept.rules == ("labelled-secret",)
    assert removed.rules == ("labelled-secret", "contact-email", "contact-phone")


@pytest.mark.parametrize(
    "text",
    [
        "git@github.com:acme/app.git",
        "noreply@acme.io wrote",
        "ssh deploy@build.acme.io",
        "scp deploy@build.acme.io:/srv/x .",
        "npm i @acme/pkg@1.2.3",
        "mail someone@example.com",
        "Date: Mon Jan 5 10:00:00 2026 +0000",
        "epoch 1735787045000 and order 4929123456781234",
        "id 0190a5c8-7b1e-7c3a-9a55-1f2e3d4c5b6a, ticket 123-456-789",
    ],
)
def test_what_only_looks_like_contact_data_stays(text: str) -> None:
    assert sanitize_row({"content": text}, redact_contact_pii=True).row["content"] is text


def test_labelled_contact_data_goes_with_the_flag() -> None:
    for text, gone in (
        ("phone: 912 345 678", "912 345 678"),
        ("telegram: @maria_lo", "@maria_lo"),
        ("lives at 12 Garden Street, Leeds", "12 Garden Street"),
        ("Rua Augusta 12, Lisboa", "Rua Augusta 12"),
        ("Hauptstraße 5, 10115 Berlin", "Hauptstraße 5"),
    ):
        result = sanitize_row({"content": text}, redact_contact_pii=True)
        assert gone not in result.row["content"], text
        assert not result.high_risk


@pytest.mark.parametrize("name", ROW_FIELDS)
@pytest.mark.parametrize("contact_pii", [False, True])
def test_names_of_our_own_fields_need_no_cleaning(name: str, contact_pii: bool) -> None:
    """They are passed over by ``sanitize_row``, which is right only while they are harmless."""
    assert not sanitize_server_write(name, redact_contact_pii=contact_pii).applied


@pytest.mark.parametrize(
    "row",
    [
        {"key": "API_TOKEN", "value": "ember-thunder-nimbus-nimbus97"},
        {"headers": {"X-Auth-Token": "marble-meadow-harbor-glacier38"}},
        {"headers": [["X-Api-Key", "orchid-falcon-velvet-juniper89"]]},
    ],
    ids=["pair", "object", "list"],
)
def test_passphrases_of_words_and_a_number_go(row: dict[str, object]) -> None:
    cleaned = json.dumps(sanitize_row({"metadata": row}).row)
    assert "labelled-secret" in cleaned
    assert not any(word in cleaned for word in ("nimbus", "glacier", "juniper"))


def test_names_of_resources_with_a_number_stay() -> None:
    row = {
        "metadata": {
            "api_token": "billing-credentials-2",
            "api_key": "oauth2-proxy-client-secret-01",
        }
    }
    assert sanitize_row(row).row == row


def test_a_cleaned_name_labels_nothing() -> None:
    row = {"metadata": {"DEPLOY_TOKEN: tfp_" + "S6ZZzWZV5nUY": "password\\u0041https://"}}
    once = sanitize_row(row)
    assert once.applied
    again = sanitize_row(once.row)
    assert (again.row, again.redactions) == (once.row, ())


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: \u202eAKIA" + "IOSFODNN7ABCDEFG ok",
        "x\r\nnpm_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dE3fG6",
    ],
    ids=["bidi", "line"],
)
def test_json_in_a_text_stays_json(text: str) -> None:
    result = sanitize_server_write(json.dumps({"a": text}))
    assert result.applied
    assert "[REDACTED:" in json.loads(result.text)["a"]
