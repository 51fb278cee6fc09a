"""The optional pack of numbers that identify a person or an account. Off by default.

A check digit decides, and a label besides where every number of that length could pass one.
Contract: redaction.md 9.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from memory_manager.security.redact.late import late
from memory_manager.security.redact.result import Severity
from memory_manager.security.redact.rule import Hit
from memory_manager.security.redact.validators import luhn

_CARD: Final = late(r"(?<![\w.-])[2-6]\d{3}(?:[ -]?\d{4}){2}[ -]?\d{1,7}(?![\w-]|\.\d)")
_AMEX: Final = late(r"(?<![\w.-])3[47]\d{2}[ -]?\d{6}[ -]?\d{5}(?![\w-]|\.\d)")
_IBAN: Final = late(
    r"(?<![0-9A-Za-z])[A-Z]{2}\d{2}(?: ?[0-9A-Z]{4}){2,7}(?: ?[0-9A-Z]{1,3})?(?![0-9A-Za-z])"
)
_CPF: Final = late(r"(?<!\d)\d{3}\.?\d{3}\.?\d{3}-?\d{2}(?!\d)")
_CNPJ: Final = late(r"(?<!\d)\d{2}\.?\d{3}\.?\d{3}/?\d{4}-?\d{2}(?!\d)")
_NIF: Final = late(r"(?<!\d)[1235689]\d{2} ?\d{3} ?\d{3}(?!\d)")
_SSN: Final = late(r"(?<!\d)(?!000|666|9\d\d)\d{3}[- ]?(?!00)\d{2}[- ]?(?!0000)\d{4}(?!\d)")
_LABEL_REACH: Final = 40
_CPF_LABEL: Final = late(r"(?i:\bcpf\b)")
_CNPJ_LABEL: Final = late(r"(?i:\bcnpj\b)")
_NIF_LABEL: Final = late(r"(?i:\b(?:nif|nipc|contribuinte)\b)")
_SSN_LABEL: Final = late(r"(?i:\b(?:ssn|social security)\b)")


def identity_numbers(text: str) -> Iterator[Hit]:
    """Payment cards, IBANs, and labelled tax and social security numbers."""
    for pattern in (_CARD, _AMEX):
        for found in pattern.finditer(text):
            digits = _digits(found[0])
            if 13 <= len(digits) <= 19 and _is_issuer(digits) and luhn(digits):
                yield _hit(found, "contact-card")
    for found in _IBAN.finditer(text):
        if _is_iban(found[0].replace(" ", "")):
            yield _hit(found, "contact-iban")
    for label, pattern, check, rule in (
        (_CPF_LABEL, _CPF, _is_cpf, "contact-tax-number"),
        (_CNPJ_LABEL, _CNPJ, _is_cnpj, "contact-tax-number"),
        (_NIF_LABEL, _NIF, _is_nif, "contact-tax-number"),
        (_SSN_LABEL, _SSN, _any, "contact-social-security-number"),
    ):
        for found in pattern.finditer(text):
            near = text[max(0, found.start() - _LABEL_REACH) : found.start()]
            if label.search(near) and check(_digits(found[0])):
                yield _hit(found, rule)


def _hit(found: re.Match[str], rule: str) -> Hit:
    return Hit(*found.span(), rule, Severity.CONTACT_PII, 1)


def _digits(text: str) -> str:
    return "".join(c for c in text if c.isdigit())


def _is_issuer(digits: str) -> bool:
    """Prefixes and lengths of the card networks, the 2-series of Mastercard too."""
    if len(set(digits)) == 1:
        return False
    head = int(digits[:4])
    if digits[0] == "4":
        return len(digits) in (13, 16, 19)
    if 5100 <= head <= 5599 or 2221 <= head <= 2720:
        return len(digits) == 16
    if digits[:2] in ("34", "37"):
        return len(digits) == 15
    return len(digits) >= 14 and (
        digits[:2] in ("36", "38", "62", "65")
        or digits[:4] == "6011"
        or 3528 <= head <= 3589
        or 3000 <= head <= 3059
        or 6440 <= head <= 6599
    )


def _is_iban(value: str) -> bool:
    if not 15 <= len(value) <= 34:
        return False
    moved = value[4:] + value[:4]
    return int("".join(str(int(c, 36)) for c in moved)) % 97 == 1


def _weighted(digits: str, weights: range) -> int:
    return sum(int(d) * w for d, w in zip(digits, weights, strict=False))


def _is_cpf(digits: str) -> bool:
    if len(digits) != 11 or len(set(digits)) == 1:
        return False
    return all(
        (_weighted(digits[:size], range(size + 1, 1, -1)) * 10 % 11) % 10 == int(digits[size])
        for size in (9, 10)
    )


def _is_cnpj(digits: str) -> bool:
    if len(digits) != 14 or len(set(digits)) == 1:
        return False
    for size in (12, 13):
        weights = [*range(size - 7, 1, -1), *range(9, 1, -1)]
        rest = sum(int(d) * w for d, w in zip(digits, weights, strict=False)) % 11
        if int(digits[size]) != (0 if rest < 2 else 11 - rest):
            return False
    return True


def _is_nif(digits: str) -> bool:
    rest = _weighted(digits[:8], range(9, 1, -1)) % 11
    return len(digits) == 9 and int(digits[8]) == (0 if rest < 2 else 11 - rest)


def _any(digits: str) -> bool:
    return len(digits) == 9
