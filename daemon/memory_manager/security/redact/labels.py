"""Reading a label: how strongly a name such as ``DB_PASSWORD`` or ``next_token`` speaks for a
secret.

Contract: redaction.md 4.3.
"""

from __future__ import annotations

import enum
import functools
import re
from typing import Final

from memory_manager.security.redact.label_words import (
    AMBIGUOUS_VENDORS,
    BLOCKING_ANYWHERE,
    BLOCKING_QUALIFIERS,
    BLOCKING_SUFFIXES,
    KEY_QUALIFIERS,
    KEY_WORDS,
    PASSWORD_PHRASES,
    PASSWORD_WORDS,
    PAT_COMPANIONS,
    SECRET_PHRASES,
    SECRET_WORDS,
    VENDOR_COMPANIONS,
    VENDOR_WORDS,
    WEAK_WORDS,
)


class Family(enum.IntEnum):
    """Ordered by strength: the stronger the label, the plainer a value may be."""

    NONE = 0
    WEAK = 1
    VENDOR = 2
    SECRET = 3
    PASSWORD = 4


_WORD: Final = re.compile(r"[A-Z]+(?![^\W\d_A-Z])|[A-Z]?[^\W\d_A-Z]+|\d+")
_GLUED_PASSWORD: Final = ("password", "passwd", "passphrase", "passwort", "senha")
_GLUED_SECRET: Final = (
    "secret",
    "token",
    "apikey",
    "secretkey",
    "accesskey",
    "privatekey",
)
_NEUTRAL_SUFFIXES: Final = frozenset(
    "prod production dev development staging stage test testing old new live local remote b64 "
    "base64 "
    "backup main admin root db database user value val str string text plain raw primary secondary "
    "default current temp data master replica base of for in".split()
)
_ACRONYMS: Final = re.compile(r"(?:API|JWT|AWS|DB|SSH|AES|RSA)(?=KEY|TOKEN|SECRET|PASSWORD|PASS)")


def label_words(label: str) -> list[str]:
    """The words of a name in camelCase, snake_case, kebab-case or dotted form, lower case."""
    return [word.lower() for word in _WORD.findall(_ACRONYMS.sub(r"\g<0>_", label))]


MAX_REMEMBERED: Final = 2048
_NAME: Final = re.compile(r"[A-Za-z_.-]{1,40}")
_WORD_BEFORE: Final = re.compile(r"[A-Za-z-]{0,20}")


def classify(label: str) -> Family:
    """How strongly this name labels a secret; NONE for names of things about secrets."""
    # only names are remembered: letters in words, nothing that could be a value
    return remembered(label) if _NAME.fullmatch(label) is not None else _classified(label)


@functools.lru_cache(MAX_REMEMBERED)
def remembered(label: str) -> Family:
    """``classify`` for names only."""
    return _classified(label)


def qualified(label: str, qualifier: str) -> Family:
    """The family of a label with the word before it: "api key", "public key"."""
    is_name = _NAME.fullmatch(label) is not None or label in _PHRASES
    if is_name and _WORD_BEFORE.fullmatch(qualifier) is not None:
        return _known(label, qualifier)
    return _qualified(label, qualifier)


@functools.lru_cache(MAX_REMEMBERED)
def _known(label: str, qualifier: str) -> Family:
    return _qualified(label, qualifier)


def _qualified(label: str, qualifier: str) -> Family:
    family = classify(label)
    if family is not Family.PASSWORD and qualifier and label != "PAT":
        both = classify(f"{qualifier}_{label}")
        if family is Family.NONE or both is Family.NONE or both > family:
            return both
    return family


def _classified(label: str) -> Family:
    words = label_words(label)
    if not words or any(word in BLOCKING_ANYWHERE for word in words):
        return classify_phrase(label)
    for index in range(len(words) - 1, -1, -1):
        family = _core(words, index)
        if family is None:
            continue
        if family is Family.NONE:
            return Family.NONE
        suffix = words[index + 1 :]
        if any(word in BLOCKING_SUFFIXES for word in suffix):
            return Family.NONE
        if any(word not in _NEUTRAL_SUFFIXES and not word.isdigit() for word in suffix):
            return max(Family.WEAK, classify_phrase(label))
        return max(family, classify_phrase(label)) if family is Family.WEAK else family
    if any(word in VENDOR_WORDS and word not in AMBIGUOUS_VENDORS for word in words) and all(
        word in VENDOR_WORDS or word in VENDOR_COMPANIONS or word.isdigit() for word in words
    ):
        return Family.VENDOR
    return classify_phrase(label)


def classify_phrase(label: str) -> Family:
    """The same for names that are not split into words, such as Chinese ones."""
    return _known_phrase(label) if _NAME.fullmatch(label) is not None else _phrase(label)


@functools.lru_cache(MAX_REMEMBERED)
def _known_phrase(label: str) -> Family:
    return _phrase(label)


def _phrase(label: str) -> Family:
    lowered = label.lower()
    plain = lowered.isascii()
    if any([phrase in lowered for phrase in (_PLAIN_PASSWORD if plain else PASSWORD_PHRASES)]):
        return Family.PASSWORD
    if any([phrase in lowered for phrase in (_PLAIN_SECRET if plain else SECRET_PHRASES)]):
        return Family.SECRET
    return Family.NONE


_PHRASES: Final = frozenset(PASSWORD_PHRASES + SECRET_PHRASES)
_PLAIN_PASSWORD: Final = tuple(phrase for phrase in PASSWORD_PHRASES if phrase.isascii())
_PLAIN_SECRET: Final = tuple(phrase for phrase in SECRET_PHRASES if phrase.isascii())


def _core(words: list[str], index: int) -> Family | None:
    """The family of the word at ``index`` with the one before it; None if it is no such word."""
    word = words[index]
    before = words[index - 1] if index else ""
    if word in PASSWORD_WORDS:
        return Family.PASSWORD
    if word in SECRET_WORDS:
        public = before in BLOCKING_QUALIFIERS or (before == "key" and "public" in words)
        return Family.NONE if public else Family.SECRET
    if word in KEY_WORDS:
        if before in BLOCKING_QUALIFIERS:
            return Family.NONE
        if (
            words[0] == "x"
            or before in KEY_QUALIFIERS
            or not VENDOR_WORDS.isdisjoint(words[:index])
        ):
            return Family.SECRET
        return Family.WEAK
    if word == "pat" and (len(words) == 1 or not PAT_COMPANIONS.isdisjoint(words)):
        return Family.SECRET
    if word in WEAK_WORDS:
        return Family.WEAK
    if word.endswith(_GLUED_PASSWORD):
        return Family.PASSWORD
    if word.endswith(_GLUED_SECRET):
        return Family.SECRET
    return None
