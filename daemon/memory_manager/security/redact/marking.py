"""A text as kinds of characters, one byte for each: what a pass at the speed of memory can tell.

Contract: redaction.md 5.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MIN_RUN: Final = 16
LONG_WORD: Final = 8

_RUN_CLASS: Final = r"!#-&*-;=?-Z_a-z~|"
_CONTROL: Final = b"\x00"
_KINDS: Final = bytes(
    97
    if re.fullmatch(f"[{_RUN_CLASS}]", chr(code))
    else 32
    if code in (9, 10, 13) or (32 <= code and code != 127)
    else 0
    for code in range(256)
)
# a character has one byte in UTF-8 that is none of these
_CONTINUATIONS: Final = bytes(range(0x80, 0xC0))
_RUN_OF_MARKS: Final = b"a" * MIN_RUN
_WORD_BEHIND: Final = b" " + b"a" * LONG_WORD
_WORD_BEFORE: Final = b"a" * LONG_WORD + b" "
# an expression of plain characters is looked for faster than the bytes themselves
_ROW_OF_SINGLES: Final = re.compile(b" a" * 15)


def utf8(text: str) -> bytes:
    """The bytes of any text, also of one with lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def marked(data: bytes) -> bytes:
    """The kind of each character of a text in UTF-8: ``a`` for those of tokens, a blank for others,
    NUL for ASCII control characters.
    """
    if data.isascii():
        return data.translate(_KINDS)
    return data.translate(_KINDS, _CONTINUATIONS)


def has_controls(marks: bytes) -> bool:
    """Whether an ASCII control character that is no white space stands in the text."""
    return _CONTROL in marks


def has_row_of_singles(marks: bytes) -> bool:
    """Whether sixteen characters or more may stand with one blank between each two."""
    return _ROW_OF_SINGLES.search(marks) is not None


def words_beside(text: str, marks: bytes, spans: Iterable[tuple[int, int]]) -> list[int]:
    """The blanks right before and behind the long runs ``spans`` where ``LONG_WORD`` characters
    of another token follow.
    """
    found: list[int] = []
    precedes, follows = marks.endswith, marks.startswith
    for start, end in spans:
        if precedes(_WORD_BEFORE, 0, start) and text[start - 1] == " ":
            found.append(start - 1)
        if follows(_WORD_BEHIND, end) and text[end] == " ":
            found.append(end)
    return found


def runs(text: str) -> list[tuple[int, int]]:
    """Unbroken runs of token characters, long enough to hold a token."""
    return marked_runs(marked(utf8(text)))


def marked_runs(marks: bytes) -> list[tuple[int, int]]:
    """The same in a text whose kinds of characters are ``marks``."""
    find = marks.find
    start = find(_RUN_OF_MARKS)
    if start < 0:
        return []
    if _CONTROL in marks:
        find = marks.replace(_CONTROL, b" ").find
    spans: list[tuple[int, int]] = []
    while start >= 0:
        end = find(b" ", start)
        if end < 0:
            end = len(marks)
        spans.append((start, end))
        start = find(_RUN_OF_MARKS, end)
    return spans
