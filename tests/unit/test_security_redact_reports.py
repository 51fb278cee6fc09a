"""Lessons of public bug reports, one case each (redaction.md 16)."""

from __future__ import annotations

import base64

import pytest
from secrets_generator import Maker

from memory_manager.security.redact import sanitize_server_write

M = Maker("reports")
GHP = "gh" + "p_"
ALPHABET_BODY = "abcdefghijklmnopqrstuvwxyz" + M.digits(10)
HOOK_BODY = M.an(12) + "hook" + M.an(20)

GONE = [
    ("alphabet run", f"{GHP}{ALPHABET_BODY}", ALPHABET_BODY),
    ("dictionary word inside", f"{GHP}{HOOK_BODY}", HOOK_BODY),
    ("literal newline before and after", f"x\\n{GHP}{(v := M.an(36))}\\n", v),
    ("literal tab and return", f"x\\t{GHP}{(v := M.an(36))}\\r", v),
    ("slash and plus in a password", f"password='{(v := M.an(5) + '/+' + M.an(8) + '7')}'", v),
    ("letters only token", f"api_token={(v := 'xKqTzRwPmLbVnHgD')}", v),
    ("name and value lines", f"- name: API_TOKEN\n  value: {(v := M.an(30))}", v),
    ("oauth token of an assistant", f"sk-ant-oat01-{(v := M.w(60))}", v),
    ("refresh token of an assistant", f"sk-ant-ort01-{(v := M.w(60))}", v),
    ("unquoted random value", f"secret_key: {(v := M.an(40))}", v),
    ("CJK text before", f"这是一个很长的说明文字 {GHP}{(v := M.an(36))}", v),
    ("fine-grained token", f"github_pat_{(v := M.an(22) + '_' + M.an(59))}", v),
    ("key id of temporary credentials", f"ASIA{(v := M.of('ABCDEFGH234567', 16))}", v),
    ("bearer token alone", f"curl -H 'Authorization: Bearer {(v := M.an(40))}'", v),
    ("test:test in a database URL", "postgres://test:testing1@db/x", "testing1"),
    ("driver string", f"Driver=x;UID=sa;PWD={(v := M.password())};", v),
    ("body ends in a hyphen", f"glpat-{(v := M.an(19))}-", v),
    ("scheme and value go together", f"Authorization: bearer {(v := M.an(30))}", v),
    ("zero width inside", f"{GHP}{(v := M.an(36))[:10]}\u2060{v[10:]}", v[10:]),
    ("control character glued", f"\x07{GHP}{(v := M.an(36))}", v),
    ("uuid secret with 0-9", f"api_key: 01234567-89ab-4cde-8f01-{(v := M.hex(12))}", v),
    ("short hex secret", f"secret: {(v := '7f3a9c21b8')}", v),
    ("padded secret", f"password={(v := 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaQ7x')}", v),
    ("url-safe base64", base64.urlsafe_b64encode((GHP + M.an(36)).encode()).decode(), "Z2hwX"),
    ("five layers of percent", f"token%25252525253D{(v := M.an(30))}", v),
    ("pem body after a blank line", "-----BEGIN RSA PRIVATE KEY-----\n\n" + (v := M.b64(64)), v),
]

KEPT = [
    ("Square prefix in an attachment", M.b64(20) + "EAAA" + M.b64(300)),
    ("aws in an SRI hash", f"sha512-aws{M.b64(83)}=="),
    ("tokenization id", f"tokenizationId: {M.hex(32)}"),
    ("recipe revision", f'SRCREV = "{M.hex(40)}"'),
    ("lock file line", "org.slf4j:slf4j-api:2.0.6=default,runtimeClasspath"),
    ("name of a secret", 'secretKey: "OAUTH2_PROXY_CLIENT_ID"'),
    ("shortcut", '{"key": "ctrl+shift+down", "command": "x.y"}'),
    ("X-filled fake", f"api_key = {'X' * 32}"),
    ("camelCase identifier", "token = getAccessTokenSilentlyAndRedirect"),
    ("the word integrity", 'integrity = "sha384-' + M.b64(64) + '"'),
    ("region name", "ASIAANDPACIFICREGION"),
    ("PDF metadata", f"<xmpMM:DocumentID>uuid:{M.uuid()}</xmpMM:DocumentID>"),
    ("go checksum", f"github.com/x/datadog v1.0.0 h1:{M.b64(43)}="),
    ("placeholder holding the word", "password: <your-secret-password>"),
    ("version spec with at", "https://registry.acme.io/pkg@3.16.1"),
    ("the word options", "options: token, password, secret"),
    ("expression", "password = form.cleaned_data['password']"),
]


@pytest.mark.parametrize(("text", "gone"), [case[1:] for case in GONE], ids=[c[0] for c in GONE])
def test_the_secret_of_a_report_goes(text: str, gone: str) -> None:
    result = sanitize_server_write(text)
    assert gone not in result.text, result.text
    assert sanitize_server_write(result.text).text is result.text


@pytest.mark.parametrize("text", [case[1] for case in KEPT], ids=[case[0] for case in KEPT])
def test_the_false_alarm_of_a_report_stays(text: str) -> None:
    assert sanitize_server_write(text).text is text
