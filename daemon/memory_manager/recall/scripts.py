"""Which writing system a character belongs to, as far as search cares. Pure."""

from __future__ import annotations

import re
import unicodedata

_HAN = (
    "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff"
)
_KANA = "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff"
_HANGUL = "\u1100-\u11ff\u3131-\u318e\ua960-\ua97f\uac00-\ud7ff"
_SOUTH_EAST_ASIAN = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e80-\u0edf\u1000-\u109f\u1780-\u17d3"

UNSPACED = f"{_HAN}{_KANA}{_HANGUL}{_SOUTH_EAST_ASIAN}"
"""Inside of a character class: scripts whose words are not, or not reliably, split by spaces."""

UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")
HAN = re.compile(f"[{_HAN}]")
KANA = re.compile(f"[{_KANA}]")
HANGUL = re.compile(f"[{_HANGUL}]")
HIRAGANA_ONLY = re.compile("[\u3041-\u3096\u309d-\u309f]+")
CYRILLIC = re.compile("[\u0400-\u04ff]")
DEVANAGARI = re.compile("[\u0900-\u097f]")
EMOJI = re.compile("[\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]")

# Letters that NFKC and the tokenizer's diacritics table leave apart although people type either.
_FOLDED_LETTERS = str.maketrans(
    {
        "ß": "ss", "ẞ": "ss", "ı": "i", "İ": "i", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L",
        "đ": "d", "Đ": "D", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "\x00": " ",
    }
)  # fmt: skip


def fold_letters(text: str) -> str:
    """NFKC with sharp s, dotless i and stroked letters spelt plainly; case is kept."""
    if text.isascii():
        return text.replace("\x00", " ")
    return unicodedata.normalize("NFKC", text).translate(_FOLDED_LETTERS)


def strip_diacritics(text: str) -> str:
    """Latin, Greek and Cyrillic letters without combining accents, as the tokenizer sees them."""
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFD", text)
    return unicodedata.normalize(
        "NFC", "".join(c for c in decomposed if not "\u0300" <= c <= "\u036f")
    )


def is_word_character(character: str) -> bool:
    """Letters, numbers and marks: the token categories of the full-text tables."""
    return character.isalnum() or unicodedata.category(character) in ("Mn", "Mc", "Co")


_ASCII_WORD = re.compile("[A-Za-z0-9]+")


def words(text: str) -> list[str]:
    """Runs of word characters, case kept: the tokenizer of the full-text tables in Python."""
    if text.isascii():
        return _ASCII_WORD.findall(text)
    return "".join(c if is_word_character(c) else " " for c in text).split()
