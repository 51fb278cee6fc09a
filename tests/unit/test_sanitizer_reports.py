"""Public bug reports of other redactors, each as a test (redaction.md 16); ids are its rows."""

from __future__ import annotations

import base64
import hashlib
import json
import keyword
import random
import string
import sys
import time
import unicodedata
from typing import Any

import pytest
from secrets_generator_draw import Draw, survives
from secrets_generator_keys import pem
from secrets_generator_rows import shown

from memory_manager.security.redact import sanitize_row, sanitize_server_write

D = Draw("bug reports")
GH = "gh" + "p_"
GL = "gl" + "pat-"
SK = "sk" + "-ant-"
BREAKS = "\t\n\r\x1b\x9b"  # white space, and what starts a terminal sequence of its own
PEM = "-----BEGIN " + "RSA PRIVATE KEY-----"


@pytest.fixture(autouse=True)
def own_values(request: pytest.FixtureRequest) -> None:
    """What a test draws depends on no other test."""
    D.random.seed(request.node.name)


def _token() -> str:
    return GH + D.of("a", 36)


def _hidden_in_pages(layers: int) -> str:
    text = "token=" + D.of("a", 30)
    for _ in range(layers):
        text = "".join(f"%{ord(c):02X}" if not c.isalnum() else c for c in text)
    return text


# (row of the table, text, what must be gone)
GONE: list[tuple[str, str, str]] = [
    ("1-alphabet", GH + (v := string.ascii_lowercase + D.of("d", 10)), v),
    ("1-alphabet-inside", GH + (v := D.of("a", 5) + string.ascii_lowercase + D.of("a", 5)), v),
    ("2-hook", "password: " + (v := D.of("c", 28) + "hook" + D.of("l", 28)), v),
    ("2-pronounceable", "password=" + (v := "Oophoovahshoe4hookaeDohng"), v),
    ("2-token-word", GH + (v := D.of("a", 14) + "webhook" + D.of("a", 15)), v),
    ("3-newline", f"A=1\\n{GH}{(v := D.of('a', 36))}\\nB=2", v),
    ("3-return", f"A=1\\r\\nSECRET={(v := D.of('a', 30))}\\r\\nB=2", v),
    ("3-tab", f"\\t{GH}{(v := D.of('a', 36))}\\t", v),
    ("3-label", f"x\\npassword: {(v := D.of('a', 12) + '#9')}\\ny", v),
    ("4-slash", f"password = '{(v := D.of('a', 5) + '/' + D.of('a', 7) + '+8')}'", v),
    ("4-url", f"DB_PASSWORD={(v := 'p/' + D.of('a', 9) + '+' + D.of('a', 5))}", v),
    ("5-letters", f'api_token = "{(v := D.of("L", 32))}"', v),
    ("5-letters-lower", f"AUTH_TOKEN={(v := D.of('c', 40))}", v),
    ("6-name-value", f"env:\n- name: DB_PASSWORD\n  value: {(v := D.of('a', 22))}", v),
    ("6-name-value-quoted", f'- name: "API_KEY"\n  value: "{(v := D.of("a", 32))}"', v),
    ("15-access", f"{SK}oat01-{(v := D.of('w', 70))}", v),
    ("15-refresh", f"{SK}ort01-{(v := D.of('w', 44))}", v),
    ("15-json", json.dumps({"refreshToken": SK + "ort01-" + (v := D.of("w", 90))}), v),
    ("16-bad-checksum", GH + (v := D.of("a", 30) + "000000"), v),
    ("16-bad-npm", "npm" + "_" + (v := D.of("a", 30) + "zzzzzz"), v),
    ("17-unquoted", f"secret_key: {(v := D.of('a', 40))}", v),
    ("17-unquoted-env", f"DEPLOY_SECRET={(v := D.of('b', 40))}", v),
    ("21-chinese", f"这是说明。{'很长的文字' * 60}{GH}{(v := D.of('a', 36))}，完", v),
    ("21-surrogate", f"\ud800 password={(v := D.of('a', 14))} \udfff", v),
    ("21-nul", f"\x00\x00{GH}{(v := D.of('a', 36))}\x00", v),
    ("22-github", "github" + f"_pat_{(v := D.of('a', 22) + '_' + D.of('a', 59))}", v),
    ("22-openai", "sk" + f"-proj-{(v := D.of('w', 120))}", v),
    ("22-openai-service", "sk" + f"-svcacct-{(v := D.of('w', 120))}", v),
    ("23-proc-type", f"{PEM}\nProc-Type: 4,ENCRYPTED\nDEK-Info: A,0F\n\n{(v := D.of('b', 64))}", v),
    ("24-no-end", f"{PEM}\n{D.of('b', 64)}\n{(v := D.of('b', 64))}", v),
    ("25-uuid", f"API_KEY={(v := '01234567-89ab-4' + D.of('h', 3) + '-a012-' + D.of('h', 12))}", v),
    ("28-asia", f"the temporary id is ASIA{(v := D.of('3', 16))}", v),
    ("28-bearer", f"-H 'authorization: bearer {(v := D.of('a', 34))}'", v),
    ("28-test-test", "DATABASE_URL=postgres://test:test@localhost/app", "test:test@"),
    ("30-odbc", f"Driver=FreeTDS;Server=db;UID=sa;PWD={(v := D.of('a', 12))};", v),
    ("34-scheme", f"Authorization: Bearer {(v := D.of('w', 40))}", v),
    ("36-bell", f"\x07{GH}{(v := D.of('a', 36))}", v),
    ("36-word-and-control", f"prod\x01{GH}{(v := D.of('a', 36))}\x01next", v),
    ("37-hyphen", GL + (v := D.of("a", 19) + "-"), v),
    ("37-jwt", f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx{D.of('w', 20)}.{(v := D.of('w', 42) + '-')}", v),
    ("41-padding", f"password={(v := 'a' * 30 + 'Q7x')}", v),
    ("41-hex", f"secret: {(v := D.of('h', 10) + '7f')}", v),
    ("41-short", f"password: {(v := 'k' + D.of('d', 3) + D.of('c', 4))}", v),
    ("45-url-safe", base64.urlsafe_b64encode((GL + D.of("a", 20)).encode()).decode(), "Z2xwYXQ"),
    ("45-four-layers", (text := _hidden_in_pages(4)), text[-20:]),
    ("45-six-layers", (text := _hidden_in_pages(6)), text[-20:]),
]  # fmt: skip

KEPT: list[tuple[str, str]] = [
    ("7-attachment", D.of("b", 60) + "EAAA" + D.of("b", 300)),
    ("7-attachment-lines", "\n".join([D.of("b", 76), D.of("b", 20) + "EAAA" + D.of("b", 52)])),
    ("8-sri", "sha512-aws" + D.of("b", 83) + "=="),
    ("9-hex", "tokenizationId: " + D.of("h", 32)),
    ("9-yocto", f'SRCREV_meta = "{D.of("h", 40)}"'),
    ("10-lock", "org.slf4j:slf4j-api:2.0.6=default,runtimeClasspath"),
    ("11-vault-key", "vaultKey: 'inf-prod-db-id'"),
    ("11-name", 'secretKey: "OAUTH2_PROXY_CLIENT_ID"'),
    ("12-shortcut", '"key": "ctrl+shift+down"'),
    ("13-x", "api_key = " + "X" * 32),
    ("13-x-prefix", "token: " + GH + "x" * 36),
    ("13-mark", "password=REDACTED token=***REDACTED*** key=[REDACTED]"),
    ("18-camel", "token = getAccessTokenSilentlyAndRedirectHome"),
    ("18-expression", "password = form.cleaned_data['password']"),
    ("18-integrity", f'"integrity": "sha512-{D.of("b", 86)}==", "hash": "{D.of("h", 64)}"'),
    ("26-gitlab-hook", f"gitlab webhook {D.uuid()} was called"),
    ("26-datadog-sum", f"github.com/DataDog/datadog-go v4.8.3+incompatible h1:{D.of('b', 43)}="),
    ("26-npm-datadog", f'"datadog-ci": {{"integrity": "sha512-{D.of("b", 86)}=="}}'),
    ("26-pagerduty", "pagerDutyIncidentServiceConfiguration escalationPolicy"),
    ("29-region", "the ASIAANDPACIFICREGION team"),
    ("30-pdf", f"<xmpMM:InstanceID>uuid:{D.uuid()}</xmpMM:InstanceID>"),
    ("33-placeholder", "password: <your-secret-password>"),
    ("33-placeholder-token", "the mark [REDACTED:labelled-secret] hides a secret"),
    ("42-version", "npm i https://registry.acme.io/tool@3.16.1"),
    ("42-version-port", "http://localhost:4873/tool@3.16.1"),
    ("42-options", "options: token options, password options, secret options"),
]


@pytest.mark.parametrize(("text", "gone"), [c[1:] for c in GONE], ids=[c[0] for c in GONE])
def test_the_secret_of_a_report_goes(text: str, gone: str) -> None:
    result = sanitize_server_write(text)
    assert not survives(gone, result.text), result.text
    again = sanitize_server_write(result.text)
    assert again.text is result.text
    assert again.redactions == ()


@pytest.mark.parametrize("text", [c[1] for c in KEPT], ids=[c[0] for c in KEPT])
def test_the_false_alarm_of_a_report_stays(text: str) -> None:
    assert sanitize_server_write(text).text is text


def test_14_identifiers_of_a_whole_language_are_no_secrets() -> None:
    modules = [m for n, m in list(sys.modules.items()) if n in sys.stdlib_module_names]
    names = {name for module in modules for name in dir(module)}
    lines = " ".join(sorted(names | set(keyword.kwlist)))
    assert len(lines) > 20_000
    pieces = [lines[at : at + 5_000] for at in range(0, len(lines), 5_000)]
    changed = [piece for piece in pieces if sanitize_server_write(piece).applied]
    assert not changed


@pytest.mark.parametrize("filler", [" " * 1_000, "\t" * 1_000, "." * 4_000, "a a a " * 600])
def test_19_32_fillers_do_not_make_a_line_slow(filler: str) -> None:
    started = time.thread_time()
    for _ in range(3):
        sanitize_server_write(f"password ={filler}x")
    assert (time.thread_time() - started) / 3 < 0.1


@pytest.mark.parametrize(
    "text", ["A" * 100_000, "Basic " + "QUFB" * 25_000, "https://a:" + "b" * 100_000 + "@h"],
    ids=["letters", "basic", "userinfo"],
)  # fmt: skip
def test_20_a_line_of_100_kilobytes_ends_soon(text: str) -> None:
    started = time.thread_time()
    sanitize_server_write(text)
    assert time.thread_time() - started < 1.0


def test_24_a_bare_header_in_one_field_and_the_body_in_the_next() -> None:
    value = pem(Draw("split"), "plain")
    header, *body = value.text.split("\n")
    result = sanitize_row({"title": header, "content": "\n".join(body[:-1])})
    assert result.high_risk
    assert not any(survives(secret, shown(result.row)) for secret in value.secrets)


def test_27_two_views_of_one_secret_are_one_finding() -> None:
    coded = base64.b64encode(f"token={_token()}".encode()).decode()
    for text in (coded, f'{{"auth": "{coded}"}}', f"{_token()}"):
        result = sanitize_server_write(text)
        assert sum(entry.count for entry in result.redactions) == 1
        assert result.text.count("[REDACTED") == 1


@pytest.mark.parametrize(
    "text",
    [f"started at {1735787045123} ms", f"id {D.uuid()}", f"order {D.of('d', 16)}"],
    ids=["epoch", "uuid", "order"],
)
def test_31_numbers_are_no_contact_data(text: str) -> None:
    assert sanitize_server_write(text, redact_contact_pii=True).text is text


def test_33_redacting_twice_changes_nothing_and_ends() -> None:
    text = f"secret={D.of('a', 24)} and password: {D.password()}"
    first = sanitize_server_write(text).text
    for _ in range(3):
        assert sanitize_server_write(first).text is first


def test_35_no_invisible_character_protects_a_token() -> None:
    invisible = [
        chr(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in ("Cf", "Cc") and chr(code) not in BREAKS
    ]
    assert len(invisible) > 150
    left = []
    for character in invisible:
        secret = D.of("a", 36)
        text = GH[:3] + character + GH[3:] + secret[:9] + character + secret[9:]
        cleaned = sanitize_server_write(text).text
        if survives(secret, "".join(c for c in cleaned if c not in invisible)):
            left.append(f"U+{ord(character):04X}")
    assert not left


def test_38_a_record_keeps_its_structure() -> None:
    record = {"user": "bob", "n": [1, 2.5, None, True], "note": f"see {_token()}", "zß": "密码"}
    for options in ({}, {"indent": 2}, {"ensure_ascii": False}, {"separators": (",", ":")}):
        cleaned = json.loads(sanitize_server_write(json.dumps(record, **options)).text)
        assert cleaned.keys() == record.keys()
        assert cleaned["n"] == record["n"]
        assert cleaned["note"].startswith("see [REDACTED")


def test_39_inner_json_keys_and_depths_hide_nothing() -> None:
    token = _token()
    deep: Any = token
    for number in range(200):
        deep = [deep] if number % 2 else {"n": deep}
    rows: list[dict[str, Any]] = [
        {"content": json.dumps({"body": json.dumps({"t": json.dumps([token])})})},
        {"metadata": {token: {"x": 1}}},
        {"metadata": {"deep": deep}},
    ]
    for row in rows:
        result = sanitize_row(row)
        assert not survives(token[4:], repr(result.row))
        assert result.applied


def test_40_what_is_reported_holds_no_hash_of_the_secret() -> None:
    secret = _token()
    result = sanitize_server_write(f"use {secret}")
    row = sanitize_row({"metadata": {"token": secret}})
    told = repr(result) + str(result) + repr(result.redactions) + repr(row.redactions) + repr(row)
    for name in ("md5", "sha1", "sha256", "sha512", "blake2b"):
        digest = hashlib.new(name, secret.encode())
        assert digest.hexdigest()[:12] not in told
        assert base64.b64encode(digest.digest()).decode()[:12] not in told
    assert not survives(secret, told)
    assert str(len(secret)) not in told


def test_43_a_message_cleaned_as_a_whole_hides_a_token_cut_over_chunks() -> None:
    choice = random.Random("chunks")
    for _ in range(40):
        token = _token()
        text = f"first {token} last"
        cut = choice.randrange(8, len(text) - 8)
        joined = sanitize_server_write(text[:cut] + text[cut:]).text
        merged = sanitize_row({"content": text[:cut] + text[cut:]}).row["content"]
        assert not survives(token[4:], joined + merged)


def test_44_a_summary_of_a_memory_is_cleaned_as_the_memory_is() -> None:
    secret = D.password()
    memory = {"content": f"The admin password is {secret}.", "metadata": {"password": secret}}
    summary = {"content": f"Summary: admin logs in, password: {secret}", "title": "summary"}
    for row in (memory, summary):
        assert not survives(secret, shown(sanitize_row(row).row))


@pytest.mark.parametrize("unit", ["a=", "a.b-", "x_y=", '"a":', "key = ", "a:b:c "])
def test_46_field_patterns_cost_in_proportion_to_the_text(unit: str) -> None:
    def seconds(size: int) -> float:
        text = unit * (size // len(unit))
        started = time.thread_time()
        sanitize_server_write(text)
        return time.thread_time() - started

    seconds(1_000)
    small, large = min(seconds(10_000) for _ in range(3)), seconds(80_000)
    assert large < max(40 * small, 0.25)
