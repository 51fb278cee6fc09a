"""Passwords of words and a number, ``blue7_river``, beside names of things, ``user_2_name``.

Both are written alike; only the words tell them apart. Contract: redaction.md 4.3.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Final

from memory_manager.security.redact.label_words import KEY_WORDS, PASSWORD_WORDS, SECRET_WORDS
from memory_manager.security.redact.late import late
from memory_manager.security.redact.name_words import NAME_WORDS

MAX_CHARACTERS: Final = 64
TELLING_NUMBER: Final = 3
"""A number of so many digits is rare in a name, unless it is one of the known ones."""
_JOINED: Final = late(r"[A-Za-z0-9]+(?:[_-]+[A-Za-z0-9]+)+|[A-Za-z0-9]+\.[A-Za-z0-9]+")
_SEPARATOR: Final = re.compile(r"[._-]+")
_PIECE: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
# algorithms and encodings
_SCHEME: Final = late(
    r"(?:sha|md|utf|rfc|iso|rsa|aes|des|crc|base|blake|argon|pbkdf|pkcs|ipv|oauth|chacha)"
    r"\d{1,5}[a-z]{0,8}|x509|x25519|x448|ed25519|ed448|[bs]?crypt|scram|hmac|gcm|cbc|cfb|ctr|poly\d{4}|salsa\d\d"
)
# versions, types, machines, spelled short: v2, s3, int32, k8s, 2fa
_NUMBERED: Final = late(
    r"v\d+[a-z]?|(?:cp|http|tls|ssl|u?int|float|str|win|arm|amd)\d{1,5}[a-z]{0,2}|[a-z]\d{1,3}|mp[34]"
    r"|ec2|k8s|i18n|l10n|a11y|p2p|b64|\d(?:fa|d|x|nd|rd|th|st)|[a-z]{3,}[24][a-z]{3,}|[a-z]{2,4}2[a-z]{2,4}"
)
_KNOWN_NUMBERS: Final = frozenset(
    "16 32 64 100 128 160 192 200 224 256 384 400 401 403 404 443 448 500 502 503 512 1024 1305 "
    "2048 2898 4096 8080 8601 8859 25519".split()
)
_DIGITS_INSIDE: Final = re.compile(r"[A-Za-z](\d+)[A-Za-z]")
_YEAR: Final = late(r"(?:19|20)\d\d")
_SECRET_WORDS: Final = PASSWORD_WORDS | SECRET_WORDS | KEY_WORDS


@dataclasses.dataclass(slots=True)
class _Words:
    """What a value is made of."""

    free: int = 0  # words that names of things do not have
    naming: int = 0
    known: int = 0  # of these, the words of three letters and more
    secret: bool = False  # one of the naming words says secret, password or key
    digits: int = 0  # of the longest number; a known one counts as one digit
    years: int = 0
    schemes: int = 0


def is_chosen(value: str, *, password: bool) -> bool:
    """Words that no name is made of and a number, or words and a number that names do not have.

    ``password``: a strong label stands before it, so words of names may be among the others.
    """
    if len(value) > MAX_CHARACTERS or _JOINED.fullmatch(value) is None:
        return False
    words = _words(value)
    if not words.free or not words.digits:
        return False
    if "." in value:  # an attribute, a module, a file
        return password and not words.naming and words.free == 2 and words.digits >= 2
    if words.digits >= TELLING_NUMBER:
        return True
    if not words.naming:
        return words.free >= 2 or words.digits >= 2
    # names end in a number more often than they hold one
    fewest = words.naming + value[-1].isdigit()
    return password and words.digits >= 2 and words.free >= fewest and not words.secret


def is_name(value: str) -> bool:
    """``db-secret-v2``: at least half of the words are of names of things, and no number tells."""
    if len(value) > MAX_CHARACTERS or _JOINED.fullmatch(value) is None:
        return False
    words, parts = _words(value), _SEPARATOR.split(value)
    if 2 * sum(any(c.isdigit() for c in part) for part in parts) > len(parts) + 1:
        return False  # groups drawn at random
    return words.known > 0 and words.naming >= words.free and words.digits < TELLING_NUMBER


def is_type_name(value: str) -> bool:
    """``Ed448PrivateKey``: nothing but words that names of things are made of."""
    if len(value) > MAX_CHARACTERS or not value.isalnum():
        return False
    words = _words(value)
    return words.naming >= 2 and not words.free and words.digits <= 1


def is_scheme(value: str) -> bool:
    """``pbkdf2_sha256``: how something is hashed or encrypted."""
    if len(value) > MAX_CHARACTERS or _JOINED.fullmatch(value) is None:
        return False
    words = _words(value)
    return words.schemes > 0 and not (words.free or words.digits > 1 or words.years)


def _words(value: str) -> _Words:
    words = _Words()
    for part in _SEPARATOR.split(value):
        lowered = part.lower()
        if _SCHEME.fullmatch(lowered):
            words.schemes += 1
            words.known += 1
            words.naming += 1
        elif _NUMBERED.fullmatch(lowered):
            words.naming += 1
        elif _YEAR.fullmatch(part):
            words.years += 1
        elif any(number not in _KNOWN_NUMBERS for number in _DIGITS_INSIDE.findall(part)):
            # tr0ub4dor, or drawn at random
            words.free += 1
            words.digits = max(words.digits, sum(c.isdigit() for c in part))
        else:
            _count_pieces(part, words)
    return words


def _telling_digits(number: str) -> int:
    return 1 if number in _KNOWN_NUMBERS else len(number.lstrip("0"))


def _count_pieces(part: str, words: _Words) -> None:
    for piece in _PIECE.findall(part):
        lowered = piece.lower()
        if piece.isdigit():
            words.digits = max(words.digits, _telling_digits(piece))
        elif len(piece) <= 2 or lowered in NAME_WORDS or lowered.removesuffix("s") in NAME_WORDS:
            words.naming += 1
            words.known += len(piece) > 2
            words.secret = words.secret or lowered in _SECRET_WORDS
        else:
            words.free += 1
