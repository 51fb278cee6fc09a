"""Contact data: kept by default, removed at the owner's wish (redaction.md 9, C10, C11)."""

from __future__ import annotations

import pytest
from secrets_generator_draw import Draw
from secrets_generator_sets import positives

from memory_manager.security.redact import sanitize_server_write

GONE = [
    ("mail", "Write to maria.lopez@acme.io soon", "maria.lopez@acme.io"),
    ("mail-tag", "to bob+news@mail.acme.co.uk, please", "bob+news@mail.acme.co.uk"),
    ("mail-mailto", "mailto:bob.stone@acme.io", "bob.stone@acme.io"),
    ("mail-angle", "Bob Stone <bob.stone@acme.io>", "bob.stone@acme.io"),
    ("mail-chinese", "请联系wang.li@acme.cn谢谢", "wang.li@acme.cn"),
    ("mail-upper", "BOB.STONE@ACME.IO", "BOB.STONE@ACME.IO"),
    ("phone-pt", "liga +351 912 345 678 amanhã", "912 345 678"),
    ("phone-us", "call +1 (212) 555-2368 now", "555-2368"),
    ("phone-de", "Tel.: +49 30 901820", "901820"),
    ("phone-tight", "ring +442079460958 please", "+442079460958"),
    ("phone-label", "phone: 912 345 678", "912 345 678"),
    ("phone-mobile", "mobile: (212) 555-2368", "555-2368"),
    ("handle", "telegram: @maria_lo", "@maria_lo"),
    ("address", "lives at 12 Garden Street, Leeds", "12 Garden Street"),
    ("address-de", "wohnt Hauptstraße 5, 10115 Berlin", "Hauptstraße 5"),
    ("address-pt", "mora na Rua Augusta 12, Lisboa", "Rua Augusta 12"),
]
NEVER = [
    "git@github.com:acme/shop.git", "noreply@acme.io wrote", "no-reply@acme.io",
    "ssh bob@build.acme.io",
    "scp deploy@build.acme.io:/srv/x .", "rsync -a bob@10.0.0.5:/srv .", "npm i @acme/pkg@1.2.3",
    "left-pad@1.3.0", "mail someone@example.com", "someone@example.org",
    "192.0.2.17 and 198.51.100.4",
    "203.0.113.9", "Date: Mon Jan 5 10:00:00 2026 +0000", "author Bob 1735787045 +0000",
    "started 1735787045123", "ticket 123-456-789", "order 4929123456781234",
    "ISBN 978-3-16-148410-0",
    "version 10.0.22631.4317", "2025-01-02T03:04:05Z", "GUID 0190a5c8-7b1e-7c3a-9a55-1f2e3d4c5b6a",
    "@decorator", "user@host", "price 1 299 000", "lines 120-145", "0x1f4a", "3.14159265358979",
    "uses actions/checkout@v4", "image@sha256:" + Draw("digest").of("h", 64),
]  # fmt: skip


@pytest.mark.parametrize(("text", "gone"), [c[1:] for c in GONE], ids=[c[0] for c in GONE])
def test_contact_data_stays_by_default_and_goes_at_the_owners_wish(text: str, gone: str) -> None:
    assert sanitize_server_write(text).text is text
    result = sanitize_server_write(text, redact_contact_pii=True)
    assert gone not in result.text
    assert {entry.severity for entry in result.redactions} == {"contact_pii"}
    assert all(entry.rule.startswith("contact-") for entry in result.redactions)
    assert not result.high_risk
    assert sanitize_server_write(result.text, redact_contact_pii=True).text is result.text


@pytest.mark.parametrize("text", NEVER)
def test_what_only_looks_like_contact_data_stays(text: str) -> None:
    assert sanitize_server_write(text, redact_contact_pii=True).text is text


def test_credentials_go_alike_in_both_states() -> None:
    for sample in list(positives("contact", 0.01))[::7]:
        off = sanitize_server_write(sample.text)
        on = sanitize_server_write(sample.text, redact_contact_pii=True)
        credentials = tuple(e for e in on.redactions if e.severity != "contact_pii")
        assert credentials == off.redactions, sample.text
