"""Other readings of one text: folded look-alikes, decoded escapes, joined breaks.

Every view knows which part of the raw text each of its characters came from, so that a hit found in
it removes the raw form. Contract: redaction.md 6.
"""

from __future__ import annotations

import bisect
import functools
import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from memory_manager.security.redact.late import late
from memory_manager.security.redact.marking import (
    LONG_WORD,
    has_controls,
    has_row_of_singles,
    words_beside,
)
from memory_manager.security.redact.randomness import MIN_CHARACTERS_PER_RUN, case_runs

MAX_LAYERS: Final = 8
Edit = tuple[int, int, str]
"""(start, end, replacement) in the parent text."""


class View:
    """A text derived from a parent by disjoint, ordered edits.

    ``only_commas``: it differs from the parent only by plain commas for wide ones. A comma stands
    in no literal, and a rule whose body may hold one is told by its literals, so the gate says of
    such a reading what it says of the text itself.
    """

    only_commas = False

    def __init__(self, parent: str, edits: Iterable[Edit], base: View | None = None) -> None:
        parts: list[str] = []
        self._base = base
        self._view_starts: list[int] = []
        self._parent_spans: list[tuple[int, int, bool]] = []
        self.edited: list[tuple[int, int]] = []
        view_starts, parent_spans, edited = self._view_starts, self._parent_spans, self.edited
        position = length = 0
        for start, end, replacement in edits:
            if start > position:
                view_starts.append(length)
                parent_spans.append((position, start, True))
                parts.append(parent[position:start])
                length += start - position
            size = len(replacement)
            edited.append((length, length + size))
            if size:
                view_starts.append(length)
                parent_spans.append((start, end, False))
                parts.append(replacement)
                length += size
            position = end
        if position < len(parent):
            view_starts.append(length)
            parent_spans.append((position, len(parent), True))
            parts.append(parent[position:])
        self.text = "".join(parts)

    def raw_span(self, start: int, end: int) -> tuple[int, int]:
        """The span of the raw text behind a non-empty span of this view."""
        first = self._parent_position(start)[0]
        last = self._parent_position(end - 1)[1]
        return self._base.raw_span(first, last) if self._base is not None else (first, last)

    def crosses_edit(self, start: int, end: int) -> bool:
        """Whether an edit lies strictly inside the span."""
        index = bisect.bisect_right(self.edited, (start, end + 1))
        candidates = self.edited[max(0, index - 1) : index + 1]
        if any(start < low < end for low, _ in candidates):
            return True
        return any(start < low < end for low, _ in self.edited[index : index + 2])

    def _parent_position(self, index: int) -> tuple[int, int]:
        piece = bisect.bisect_right(self._view_starts, index) - 1
        start, end, kept = self._parent_spans[piece]
        if kept:
            position = start + index - self._view_starts[piece]
            return position, position + 1
        return start, end


COMMA: Final = "\uff0c"
_ONLY_COMMAS: Final = {COMMA}
_CONFUSABLE: Final = dict(
    zip(
        "АВЕЅІЈКМНОРСТУХЬаесіјѕорхуһԁԛԝвкмнтгпΑΒΕΖΗΙΚΜΝΟΡΤΥΧαειικνορτυχƖǀ‐‑‒–—−﹣⁃․⁄∕։׃∶ꓸˍ",
        "ABESIJKMHOPCTYXbaecijsopxyhdqwBKMHTrnABEZHIKMNOPTYXaeiikvoptuxIl--------.//:::._",
        strict=False,
    )
)
_SAFE_CONTROLS: Final = frozenset("\n\r\t")
MAX_KEPT: Final = 16_384
MAX_REPLACED: Final = 64  # of so many different characters each is replaced on its own


@functools.lru_cache(16_384)
def _fold(character: str) -> str:
    """What a character looks like; nothing for one that is not seen."""
    if character in _SAFE_CONTROLS or " " <= character <= "~":
        return character
    known = _CONFUSABLE.get(character)
    if known is not None:
        return known
    category = unicodedata.category(character)
    code = ord(character)
    if category in ("Cf", "Cc") or code == 0x34F or 0xFE00 <= code <= 0xFE0F:
        return ""
    if 0xE0000 <= code <= 0xE0FFF or code in (
        0x115F,
        0x1160,
        0x17B4,
        0x17B5,
        0x3164,
        0xFFA0,
    ):
        return ""
    if category == "Zs":
        return " "
    if category == "Cs":
        return character
    plain = unicodedata.normalize("NFKC", character)
    if plain.isascii():
        return plain
    return character


_ANSI: Final = late(
    r"\x1b(?:\[[0-?]{0,32}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[@-Z\\-_])"
    r"|\x9b[0-?]{0,32}[@-~]"
)
_ASCII: Final = bytes(range(128))
_KEPT: Final[set[str]] = set()  # characters met that look like themselves
_CONTROLS: Final = [chr(code) for code in (*range(32), 127) if chr(code) not in _SAFE_CONTROLS]


def normalised(text: str, data: bytes, marks: bytes, *, commas: bool = True) -> View | None:
    """Look-alikes folded, invisible characters and terminal codes dropped; None if unchanged.

    ``data`` is the text in UTF-8, ``marks`` are the kinds of its characters. Without ``commas`` a
    text with nothing but wide commas to fold counts as unchanged.
    """
    controls = has_controls(marks)
    if not controls and data.isascii():
        return None
    foreign = data.translate(None, _ASCII).decode("utf-8", "surrogatepass")
    told = foreign if commas else foreign.replace(COMMA, "")
    if not controls and _KEPT.issuperset(told):
        return None
    # not -=, which would go through all that is kept
    odd = set(foreign) - _KEPT
    if controls:
        odd.update(control for control in _CONTROLS if control in text)
    folds = {character: folded for character in odd if (folded := _fold(character)) != character}
    if len(_KEPT) < MAX_KEPT:
        _KEPT.update(odd - folds.keys())
    if not folds:
        return None
    if folds.keys() == _ONLY_COMMAS:
        if not commas:
            return None
        view = View(text.replace(COMMA, ","), ())
        view.only_commas = True
        return view
    resized = {c: folded for c, folded in folds.items() if len(folded) != 1}
    edits = _resized(text, resized) if resized else []
    replaced = {c: folded for c, folded in folds.items() if len(folded) == 1}
    if len(replaced) <= MAX_REPLACED:
        for character, folded in replaced.items():
            text = text.replace(character, folded)
    else:
        text = text.translate({ord(c): folded for c, folded in replaced.items()})
    return View(text, edits)


def _resized(text: str, folds: Mapping[str, str]) -> list[Edit]:
    """The characters of ``folds``, which vanish or become several, and terminal codes as edits."""
    edits: list[Edit] = []
    covered: set[int] = set()
    if "\x1b" in folds or "\x9b" in folds:
        edits = [(*found.span(), "") for found in _ANSI.finditer(text)]
        covered.update(index for start, end, _ in edits for index in range(start, end))
    if len(folds) > MAX_REPLACED:
        places = [(index, character) for index, character in enumerate(text) if character in folds]
    else:
        places = [(index, character) for character in folds for index in _places(text, character)]
    edits += [
        (index, index + 1, folds[character]) for index, character in places if index not in covered
    ]
    edits.sort()
    return edits


def _places(text: str, character: str) -> Iterator[int]:
    index = text.find(character)
    while index >= 0:
        yield index
        index = text.find(character, index + 1)


ESCAPE: Final = (
    r"%[0-7][0-9A-Fa-f]|\\u00[0-7][0-9A-Fa-f]|\\u\{0{0,4}[0-7][0-9A-Fa-f]\}|\\x[0-7][0-9A-Fa-f]"
    r"|\\U000000[0-7][0-9A-Fa-f]"
    r"|&#[xX]0{0,4}[0-7][0-9A-Fa-f];?|&#0{0,4}[0-9]{2,3};?|&(?:amp|lt|gt|quot|apos|lowbar|hyphen"
    r"|dash|colon|equals"
    r"|period|sol|plus|num|Tab|NewLine|commat|percnt|excl|dollar|ast);"
    r"|\\[nrt]|\\[\"'\\/_*`~\[\](){}#+\-.!|<>=:@$&]"
)
_ESCAPE: Final = late(ESCAPE)
FORM_PLUS: Final = late(
    r"\+(?:(?=secret|private|A[KS]IA)|(?<=begin\+)|(?<=secret\+)|(?<=private\+)|(?<=key\+)"
    r"|(?<=phrase\+)|(?<=wallet\+)|(?<=configure\+)|(?<=%3A\+)|(?<=%2C\+)|(?<=%3D\+)|(?<=%22\+)"
    r"|(?<=%7B\+)|(?<=A[KS]IA[0-9A-Z]{16}\+))",
    re.IGNORECASE,
)
"""A plus for a blank in what a form that holds something of high risk is told by."""
_DEEP: Final = late(r"%(?:25)*[0-7][0-9A-Fa-f]|\\u00[0-7][0-9A-Fa-f]")
_BACKSLASHED: Final = {"n": "\n", "r": "\r", "t": "\t"}


def may_be_escaped(data: bytes) -> bool:
    """Whether a character that escapes begin with stands in the text, or a plus for a blank."""
    return b"\\" in data or b"%" in data or b"&" in data or b"+" in data


def unescaped(text: str) -> tuple[View, list[tuple[int, int]]] | None:
    """Escapes decoded to a fixpoint, and raw spans still encoded at the limit; None if there are
    none.
    """
    if "\\" not in text and "%" not in text and "&" not in text:
        return None
    view: View | None = None
    current = text
    for _ in range(MAX_LAYERS):
        edits = [
            (found.start(), found.end(), decoded)
            for found in _ESCAPE.finditer(current)
            if (decoded := _decode(found[0])) != found[0]
        ]
        if not edits:
            break
        view = View(current, edits, view)
        current = view.text
    if view is None:
        return None
    left = [view.raw_span(*found.span()) for found in _DEEP.finditer(current)]
    return view, left


def _decode(escape: str) -> str:
    if escape == "\\\\":
        return "\\"
    if escape[0] == "%":
        return chr(int(escape[1:], 16))
    if escape[0] == "&":
        if escape.startswith("&#") and not escape.endswith(";"):
            escape += ";"
        decoded = html.unescape(escape)
        return decoded if decoded.isascii() else escape
    if escape[1] in _BACKSLASHED:
        return _BACKSLASHED[escape[1]]
    if escape[1] in "uUx":
        return chr(int(escape[2:].strip("{}"), 16))
    return escape[1]


_HALF: Final = r"[0-9A-Za-z_+/=.:~-]"
_GOES_ON: Final = r"(?=[0-9]|[A-Z]?[a-z_+/=.:~-]{1,79}+[0-9A-Z]|[A-Z][0-9A-Z])(?=" + _HALF + r"{3})"
_STRINGS: Final = (
    r"QUOTE(?=[ \t\r\n\\+.&|<\"'])(?<=" + _HALF + r"{3}QUOTE)[ \t]{0,8}"
    r"(?:\\?\r?\n[ \t]{0,40})?(?:[+.&]|\|\||<>|\\)?"
    r"[ \t]{0,8}(?:\\?\r?\n[ \t]{0,40})?[\"']"
)
# each begins with a literal, which is looked for at the speed of memory
_BREAKS: Final = tuple(
    (first, literal, late(pattern + _GOES_ON))
    for first, literal, pattern in (
        ('"', '"', _STRINGS.replace("QUOTE", '"')),
        ("'", "'", _STRINGS.replace("QUOTE", "'")),
        (
            "\n",
            "\n",
            r"\n(?<=[0-9A-Za-z_+/=.~\-\\\r \t]\n)[ \t]{0,40}(?:(?:>[ \t]?){1,4}|[|#*+][ \t]{0,4})?",
        ),
        ("\\", "\\n", r"\\n(?<=" + _HALF + r"{3}\\n)[ \t]{0,40}"),
        ("*", "*/", r"\*/[ \t]{0,4}/\*"),
        (">", "-->", r"-->[ \t]{0,4}<!--"),
    )
)
# the first blanks are spelt out, because a group costs much more to try than to literals
_SPACED: Final = late(
    r" [\w./+=:~-] [\w./+=:~-] [\w./+=:~-](?: [\w./+=:~-]){12,}(?![0-9A-Za-z_-])", re.ASCII
)
_TAIL: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+/=.:~"
_REACH: Final = 80


def _spaced(text: str) -> list[Edit]:
    """The blanks of tokens written character by character."""
    return [
        # the first character of the token stands before the first blank
        (index, index + 1, "")
        for found in _SPACED.finditer(text)
        for index in range(found.start(), found.end(), 2)
    ]


def joined(
    text: str, spans: Sequence[tuple[int, int]], marks: bytes, *, breaks: bool = True
) -> View | None:
    """Tokens cut by a line break, string concatenation or blanks put together; None if none look
    so.

    ``spans`` are the long runs of the text, ``marks`` the kinds of its characters; ``breaks`` is
    False where it is known that nothing but blanks cuts a token.
    """
    edits = _spaced(text) if has_row_of_singles(marks) else []
    if breaks:
        edits += _broken(text)
    blanks = words_beside(text, marks, spans)
    if blanks:
        edits += _single_blanks(text, blanks)
    if not edits:
        return None
    edits.sort()
    disjoint: list[Edit] = []
    for edit in edits:
        if not disjoint or edit[0] >= disjoint[-1][1]:
            disjoint.append(edit)
    return View(text, disjoint)


def _broken(text: str) -> Iterator[Edit]:
    """Line breaks and what concatenates strings inside what could be one token."""
    for first, literal, pattern in _BREAKS:
        # one character is looked for much faster than two
        if first not in text or literal not in text:
            continue
        for found in pattern.finditer(text):
            start, end = found.span()
            if literal == "\n":
                start = _line_end(text, start)
            if text[start - 1 : start] in _TAIL and halves_of_token(
                text[max(0, start - _REACH) : start], text[end : end + _REACH]
            ):
                yield start, end, ""


def _line_end(text: str, newline: int) -> int:
    """Where the line before a newline ends without its continuation mark and trailing blanks."""
    low = max(0, newline - 10)
    line = text[low:newline].rstrip("\r \t")
    return low + len(line.removesuffix("\\").rstrip(" \t"))


def _single_blanks(text: str, blanks: Iterable[int]) -> Iterator[Edit]:
    """Of the blanks beside a long run those whose neighbours both hold digits and letters."""
    for blank in blanks:
        left = _token_end(text[max(0, blank - _REACH) : blank])
        right = _token_start(text[blank + 1 : blank + 1 + _REACH])
        if len(left) >= LONG_WORD and len(right) >= LONG_WORD:
            if _mixed(left) and _mixed(right):
                yield blank, blank + 1, ""


def _token_end(text: str) -> str:
    return text[len(text.rstrip(_TAIL)) :]


def _token_start(text: str) -> str:
    return text[: len(text) - len(text.lstrip(_TAIL))]


# the next line of a settings file is no second half: `DEBUG=1`, `status=200`
_NEW_NAME: Final = late(r"[A-Za-z_][\w.-]{0,30}(?:=[^=]|:$)")


# a token is plain ASCII
_HAS_DIGIT: Final = late("[0-9]")
_HAS_LETTER: Final = late("[A-Za-z]")
_HAS_CAPITAL: Final = late("[A-Z]")
_HAS_SMALL: Final = late("[a-z]")


def _mixed(word: str) -> bool:
    if _HAS_DIGIT.search(word) is None:
        return word != word.upper() and case_runs(word) < MIN_CHARACTERS_PER_RUN
    return _HAS_LETTER.search(word) is not None and _NEW_NAME.match(word) is None


def halves_of_token(left: str, right: str) -> bool:
    """Whether the end of one string and the start of the next could be one token.

    Together they must be long, and the second must not be a plain word.
    """
    right = _token_start(right)
    if len(right) < 3:
        return False
    left = _token_end(left)
    if len(left) + len(right) < 16 or len(left) < 3 or _NEW_NAME.match(right) is not None:
        return False
    if _HAS_DIGIT.search(right) is not None:
        return _HAS_LETTER.search(right) is not None or _HAS_DIGIT.search(left) is not None
    return _HAS_CAPITAL.search(right, 1) is not None and _HAS_SMALL.search(right) is not None
