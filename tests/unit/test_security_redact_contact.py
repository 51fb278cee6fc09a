"""Contact data goes when asked for; the optional pack; marks of an export (redaction.md 7, 9)."""

from __future__ import annotations

import pytest

from memory_manager.security.redact import sanitize_row, sanitize_server_write
from memory_manager.security.redact.export import shorten_marks, shorten_marks_in

PERSONAL = {
    "mail maria.lopes@acme.io now": "mail [REDACTED:contact-email] now",
    "bob@acme.io: hello": "[REDACTED:contact-email]: hello",
    "Call +351 912 345 678 today": "Call [REDACTED:contact-phone] today",
    "tel 0049 30 123456": "tel [REDACTED:contact-phone]",
    "phone: 020 7946 0958": "phone: [REDACTED:contact-phone]",
    "电话：13800138000": "电话：[REDACTED:contact-phone]",
    "telegram: @maria_lo": "telegram: [REDACTED:contact-handle]",
    "Rua Augusta 12, 1100-053 Lisboa": "[REDACTED:contact-address]",
    "Hauptstraße 5, 10115 Berlin": "[REDACTED:contact-address]",
    "12 rue de la Paix, 75002 Paris": "[REDACTED:contact-address]",
}
IMPERSONAL = (
    "git clone git@github.com:acme/shop.git", "ssh -p 22 deploy@web1.acme.io",
    "scp x bob@host.io:/srv", "support@example.com", "Mon Jan 5 10:00:00 2026 +0000",
    "ts 1735689600000", "id 123e4567-e89b-12d3-a456-426614174000", "order 4111111111111111",
    "ticket #12345678", "npm i foo@1.2.3", "telegram: enabled", "10 Best Way to do it",
    "192.0.2.1 198.51.100.7", "v1.2.3+20250101120000",
)  # fmt: skip
NUMBERS = {
    "4111 1111 1111 1111": "contact-card",
    "2223003122003222": "contact-card",
    "DE89 3704 0044 0532 0130 00": "contact-iban",
    "CPF 529.982.247-25": "contact-tax-number",
    "CNPJ: 11.222.333/0001-81": "contact-tax-number",
    "NIF 123 456 789": "contact-tax-number",
    "SSN: 078-05-1120": "contact-social-security-number",
}


@pytest.mark.parametrize("text", PERSONAL)
def test_contact_data_goes_only_when_asked_for(text: str) -> None:
    assert sanitize_server_write(text).text is text
    cleaned = sanitize_server_write(text, redact_contact_pii=True)
    assert cleaned.text == PERSONAL[text]
    assert {entry.severity for entry in cleaned.redactions} == {"contact_pii"}
    assert sanitize_server_write(cleaned.text, redact_contact_pii=True).text is cleaned.text


@pytest.mark.parametrize("text", IMPERSONAL)
def test_what_only_resembles_contact_data_stays(text: str) -> None:
    assert sanitize_server_write(text, redact_contact_pii=True).text is text


@pytest.mark.parametrize("text", NUMBERS)
def test_the_optional_pack_is_off_by_default(text: str) -> None:
    row = {"content": f"my {text} please"}
    assert not sanitize_row(row, redact_contact_pii=True).applied
    found = sanitize_row(row, redact_identity_numbers=True)
    assert [entry.rule for entry in found.redactions] == [NUMBERS[text]]


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1112",
        "DE89 3704 0044 0532 0130 01",
        "CPF 529.982.247-26",
        "1735689600000",
        "123 456 789",
    ],
)
def test_a_wrong_check_digit_or_no_label_is_no_number_of_a_person(text: str) -> None:
    assert not sanitize_row({"content": text}, redact_identity_numbers=True).applied


def test_marks_are_short_in_an_export() -> None:
    assert shorten_marks("a=[REDACTED:jwt] b=[REDACTED] c=[REDACTED:typed]") == (
        "a=[REDACTED] b=[REDACTED] c=[REDACTED:typed]"
    )
    assert shorten_marks_in({"[REDACTED:jwt]": 1, "[REDACTED]": ["[REDACTED:pgpass]", None]}) == {
        "[REDACTED]": 1,
        "[REDACTED]#2": ["[REDACTED]", None],
    }
    plain = "nothing here"
    assert shorten_marks(plain) is plain
