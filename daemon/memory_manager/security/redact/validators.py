"""Named checks that let a weak shape count. Contract: redaction.md 4.2.

They exist for shapes without a distinctive prefix, or whose prefix is also an ordinary word. A
checksum is never used to reject a distinctive prefix: one mistyped character must not leak the
rest.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Callable
from typing import Any, Final, cast

from memory_manager.security.redact.late import late
from memory_manager.security.redact.placeholders import is_placeholder
from memory_manager.security.redact.randomness import (
    MIN_CHARACTERS_PER_RUN,
    case_runs,
    looks_random,
)

Validator = Callable[[str, int, int], bool]
"""(text, start, end of the match) -> whether it counts."""

_BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BASE58_INDEX: Final = {character: value for value, character in enumerate(_BASE58)}
_BASE64_EDGE: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+")
_BASE64_REACH: Final = 12
MAX_RANDOM_RUNS: Final = 2.2


def _classes(body: str) -> tuple[bool, bool, bool]:
    upper = any("A" <= c <= "Z" for c in body)
    lower = any("a" <= c <= "z" for c in body)
    digit = any("0" <= c <= "9" for c in body)
    return upper, lower, digit


def mixed(text: str, start: int, end: int) -> bool:
    """Upper case, lower case and a digit all occur, or the letters alone look drawn at random."""
    upper, lower, digit = _classes(text[start:end])
    return upper and lower and (digit or case_runs(text[start:end]) < MAX_RANDOM_RUNS)


def mixed_digits(text: str, start: int, end: int) -> bool:
    """At least three digits among letters, or a digit and letters of both cases."""
    body = text[start:end]
    upper, lower, digit = _classes(body)
    return (upper and lower and digit) or (sum(c.isdigit() for c in body) >= 3 and (upper or lower))


def edges(text: str, start: int, end: int) -> bool:
    """Neither side continues as base64 text: the shape stands on its own.

    A slash is such a side only when what lies beyond it looks like base64 and not like a path.
    """
    before = text[start - 1] if start else " "
    after = text[end] if end < len(text) else " "
    if before in _BASE64_EDGE or after in _BASE64_EDGE:
        return False
    if before == "/" and _is_base64(text[max(0, start - 1 - _BASE64_REACH) : start - 1]):
        return False
    return not (after == "/" and _is_base64(text[end + 1 : end + 1 + _BASE64_REACH]))


def _is_base64(beyond: str) -> bool:
    return len(beyond) == _BASE64_REACH and beyond.isalnum() and all(_classes(beyond))


def word_edges(text: str, start: int, end: int) -> bool:
    """Neither side continues with a letter or digit."""
    before = text[start - 1] if start else " "
    after = text[end] if end < len(text) else " "
    return not (before.isascii() and before.isalnum()) and not (after.isascii() and after.isalnum())


def lone_word(text: str, start: int, end: int) -> bool:
    """No name goes on at either side."""
    before = text[start - 1] if start else " "
    after = text[end] if end < len(text) else " "
    return word_edges(text, start, end) and before not in "_-./" and after not in "_-"


def edges_mixed(text: str, start: int, end: int) -> bool:
    return edges(text, start, end) and mixed(text, start, end)


def edges_mixed_case(text: str, start: int, end: int) -> bool:
    upper, lower, digit = _classes(text[start + 3 : end])
    return edges(text, start, end) and upper and lower and digit


def edges_mixed_digits(text: str, start: int, end: int) -> bool:
    return edges(text, start, end) and mixed_digits(text, start, end)


MAX_LABEL: Final = 40
_FILL_WORD: Final = late("EXAMPLE|SAMPLE|PLACEHOLDER|DUMMY|FAKE|TEST|YOUR|ACCESS|KEY|HERE|XXXX")


def aws_key_id(text: str, start: int, end: int) -> bool:
    """AKIA.. needs its 16 characters; ASIA.. and the like can be English, so they need a digit.

    Of letters alone that could be words it is one where a key is spoken of just before.
    """
    if text[start + 4 : end].isalpha():
        before = text[start - 1] if start else " "
        after = text[end] if end < len(text) else " "
        if before.isalnum() or after.isalpha() or not text.startswith(("AKIA", "ABIA"), start):
            return False
        if not looks_random(text[start + 4 : end].lower()):
            label = text[max(0, start - MAX_LABEL) : start].lower()
            if "key" not in label or _FILL_WORD.search(text, start + 4, end) is not None:
                return False
    return not is_placeholder(text[start:end])


def secret_key_body(text: str, start: int, end: int) -> bool:
    """``sk-`` is also the end of English words and the start of class names: a part of the body
    must look drawn at random.
    """
    body = text[start + 3 : end]
    before = text[start - 1] if start else " "
    plain = body.encode("ascii", "replace")
    upper = len(plain.translate(None, _NO_CAPITALS))
    digits = len(plain.translate(None, _NO_DIGITS))
    scattered = digits >= 3 and upper >= 3 and any("a" <= c <= "z" for c in body)
    if before.isascii() and before.isalpha():
        return scattered
    return scattered or any(
        looks_random(part) or (sum(c.isdigit() for c in part) >= 2 and not part.isdigit())
        for part in _LONG_PART.findall(body)
    )


_NO_CAPITALS: Final = bytes(code for code in range(256) if not 65 <= code <= 90)
_NO_DIGITS: Final = bytes(code for code in range(256) if not 48 <= code <= 57)
_LONG_PART: Final = late(r"[^_-]{10,}")


def random_body(text: str, start: int, end: int) -> bool:
    """What follows the first underscore or hyphen is no name in lower case: digits, letters of
    both cases, or pairs of letters that no word holds.
    """
    body = text[start:end]
    cut = max(body.find("_"), body.find("-") if "_" not in body[:12] else -1) + 1
    rest = body[cut:]
    upper, lower, digit = _classes(rest)
    return (
        (upper and lower and (digit or case_runs(rest) < MIN_CHARACTERS_PER_RUN + 0.6))
        or sum(c.isdigit() for c in rest) >= 2
        or looks_random(rest)
    )


def edges_random(text: str, start: int, end: int) -> bool:
    """Stands on its own, and what follows the prefix looks drawn at random."""
    return edges(text, start, end) and random_body(text, start, end)


def edges_digits(text: str, start: int, end: int) -> bool:
    """Stands on its own and holds at least two digits and a letter."""
    body = text[start:end]
    return (
        edges(text, start, end)
        and sum(c.isdigit() for c in body) >= 2
        and any(c.isalpha() for c in body)
    )


def edges_mixed_tail(text: str, start: int, end: int) -> bool:
    """Stands on its own, and the part after a three-letter prefix mixes its kinds of character."""
    body = text[start + 3 : end]
    return edges(text, start, end) and all(_classes(body)) and case_runs(body) < 2.2


def not_placeholder(text: str, start: int, end: int) -> bool:
    return not is_placeholder(text[start:end])


def jose_header(text: str, start: int, end: int) -> bool:
    """The first part decodes to a JSON object with ``alg``."""
    header = text[start : text.index(".", start, end)]
    try:
        decoded = base64.urlsafe_b64decode(header + "=" * (-len(header) % 4))
        parsed: Any = json.loads(decoded)
    except (ValueError, RecursionError):
        return False
    return isinstance(parsed, dict) and "alg" in cast("dict[str, Any]", parsed)


def base58check(body: str) -> bool:
    """Base58 whose last four bytes are the double SHA-256 of the rest."""
    number = 0
    for character in body:
        value = _BASE58_INDEX.get(character)
        if value is None:
            return False
        number = number * 58 + value
    raw = number.to_bytes((number.bit_length() + 7) // 8, "big")
    raw = b"\0" * (len(body) - len(body.lstrip("1"))) + raw
    if len(raw) < 5:
        return False
    return hashlib.sha256(hashlib.sha256(raw[:-4]).digest()).digest()[:4] == raw[-4:]


def stellar_seed(body: str) -> bool:
    """Base32 with version byte 18 << 3 and a CRC16-XModem, little endian."""
    try:
        raw = base64.b32decode(body)
    except binascii.Error:
        return False
    crc = 0
    for byte in raw[:-2]:
        crc ^= byte << 8
        for _ in range(8):
            crc = ((crc << 1) ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xFFFF
    return raw[0] == 0x90 and crc.to_bytes(2, "little") == raw[-2:]


def luhn(digits: str) -> bool:
    """The check digit of payment cards."""
    total = 0
    for position, character in enumerate(reversed(digits)):
        value = int(character)
        if position % 2:
            value = value * 2 - 9 if value > 4 else value * 2
        total += value
    return total % 10 == 0


VALIDATORS: Final[dict[str, Validator]] = {
    "aws_key_id": aws_key_id,
    "edges": edges,
    "edges_digits": edges_digits,
    "edges_mixed": edges_mixed,
    "edges_mixed_case": edges_mixed_case,
    "edges_mixed_digits": edges_mixed_digits,
    "edges_mixed_tail": edges_mixed_tail,
    "edges_random": edges_random,
    "jose_header": jose_header,
    "mixed": mixed,
    "mixed_digits": mixed_digits,
    "not_placeholder": not_placeholder,
    "random_body": random_body,
    "secret_key_body": secret_key_body,
    "lone_word": lone_word,
    "word_edges": word_edges,
}
