"""Other readings of one text: folded look-alikes, decoded escapes, joined breaks.

Every view knows which part of the raw text each of its characters came from, so that a hit found in
it removes the raw form. Contract: redaction.md 6.
"""

from __future__ import annotations

import bisect
import html
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from memory_manager.security.redact.late import late
from memory_manager.security.redact.randomness import MIN_CHARACTERS_PER_RUN, case_runs

MAX_LAYERS: Final = 8
Edit = tuple[int, int, str]
"""(start, end, replacement) in the parent text."""


class View:
    """A text derived from a parent by disjoint, ordered edits."""

    def __init__(self, parent: str, edits: Iterable[Edit], base: View | None = None) -> None:
        parts: list[str] = []
        self._base = base
        self._view_starts: list[int] = []
        self._parent_spans: list[tuple[int, int, bool]] = []
        self.edited: list[tuple[int, int]] = []
        position = length = 0

        def add(piece: str, start: int, end: int, kept: bool) -> None:
            nonlocal length
            if piece:
                self._view_starts.append(length)
                self._parent_spans.append((start, end, kept))
                parts.append(piece)
            length += len(piece)

        for start, end, replacement in edits:
            add(parent[position:start], position, start, True)
            self.edited.append((length, length + len(replacement)))
            add(replacement, start, end, False)
            position = end
        add(parent[position:], position, len(parent), True)
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


_CONFUSABLE: Final = dict(
    zip(
        "АВЕЅІЈКМНОРСТУХЬаесіјѕорхуһԁԛԝвкмнтгпΑΒΕΖΗΙΚΜΝΟΡΤΥΧαειικνορτυχƖǀ‐‑‒–—−﹣⁃․⁄∕։׃∶ꓸˍ",
        "ABESIJKMHOPCTYXbaecijsopxyhdqwBKMHTrnABEZHIKMNOPTYXaeiikvoptuxIl--------.//:::._",
        strict=False,
    )
)
_SAFE_CONTROLS: Final = frozenset("\n\r\t")
MAX_REMEMBERED: Final = 16_384


class _Folding(dict[int, int | str]):
    """Code point -> what it looks like, filled on demand; keeps the length of the text.

    Characters that vanish or become several are left as they are here and remembered in ``odd``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.odd: dict[str, str] = {}

    def __missing__(self, code: int) -> int | str:
        character = chr(code)
        folded = _fold(character)
        if len(self) > MAX_REMEMBERED:
            self.clear()
        if len(folded) == 1:
            self[code] = folded
            return folded
        if len(self.odd) < MAX_REMEMBERED:
            self.odd[character] = folded
        self[code] = code
        return code


def _fold(character: str) -> str:
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


_FOLDING: Final = _Folding()
_ANSI: Final = late(
    r"\x1b(?:\[[0-?]{0,32}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[@-Z\\-_])"
    r"|\x9b[0-?]{0,32}[@-~]"
)
_PLAIN: Final = bytes((9, 10, 13, *range(32, 127)))


def normalised(text: str) -> View | None:
    """Look-alikes folded, invisible characters and terminal codes dropped; None if unchanged."""
    if text.isascii() and not text.encode().translate(None, _PLAIN):
        return None
    edits: list[Edit] = [(*found.span(), "") for found in _ANSI.finditer(text)]
    folded = text.translate(_FOLDING)
    odd = _FOLDING.odd.keys() & set(text)
    if odd:
        covered = {index for start, end, _ in edits for index in range(start, end)}
        edits += [
            (index, index + 1, _FOLDING.odd[character])
            for index, character in enumerate(text)
            if character in odd and index not in covered
        ]
        edits.sort()
    if not edits and folded == text:
        return None
    return View(folded, edits)


ESCAPE: Final = (
    r"%[0-7][0-9A-Fa-f]|\\u00[0-7][0-9A-Fa-f]|\\u\{0{0,4}[0-7][0-9A-Fa-f]\}|\\x[0-7][0-9A-Fa-f]"
    r"|\\U000000[0-7][0-9A-Fa-f]"
    r"|&#[xX]0{0,4}[0-7][0-9A-Fa-f];?|&#0{0,4}[0-9]{2,3};?|&(?:amp|lt|gt|quot|apos|lowbar|hyphen"
    r"|dash|colon|equals"
    r"|period|sol|plus|num|Tab|NewLine|commat|percnt|excl|dollar|ast);"
    r"|\\[nrt]|\\[\"'\\/_*`~\[\](){}#+\-.!|<>=:@$&]"
)
_ESCAPE: Final = late(ESCAPE)
FORM_WORDS: Final = (
    r"(?:begin|secret|private|key|phrase|wallet|configure)\+|\+(?:secret|private)"
    r"|%(?:3A|2C|3D|22|7B)\+|A[KS]IA[0-9A-Z]{16}\+|\+A[KS]IA"
)
"""What a form that holds something of high risk is told by; case does not matter."""
_DEEP: Final = late(r"%(?:25)*[0-7][0-9A-Fa-f]|\\u00[0-7][0-9A-Fa-f]")
_BACKSLASHED: Final = {"n": "\n", "r": "\r", "t": "\t"}


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
            (*found.span(), decoded)
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
# each begins with a literal or a small class, which the matcher looks for much faster than for
# alternatives
_BREAKS: Final = tuple(
    late(pattern + _GOES_ON)
    for pattern in (
        r"[\"'](?=[ \t\r\n\\+.&|<\"'])(?<=" + _HALF + r"{3}[\"'])[ \t]{0,8}"
        r"(?:\\?\r?\n[ \t]{0,40})?(?:[+.&]|\|\||<>|\\)?"
        r"[ \t]{0,8}(?:\\?\r?\n[ \t]{0,40})?[\"']",
        r"\n(?<=[0-9A-Za-z_+/=.~\-\\\r \t]\n)[ \t]{0,40}(?:(?:>[ \t]?){1,4}|[|#*+][ \t]{0,4})?",
        r"\\n(?<=" + _HALF + r"{3}\\n)[ \t]{0,40}",
        r"\*/[ \t]{0,4}/\*",
        r"-->[ \t]{0,4}<!--",
    )
)
# the first blanks are spelt out, because a group costs much more to try than to literals
_SPACED: Final = late(r" [\w./+=:~-] [\w./+=:~-] [\w./+=:~-](?: [\w./+=:~-]){12,}(?![0-9A-Za-z_-])")
_TAIL: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+/=.:~"
_SINGLES: Final = bytes(
    97
    if chr(code) in "_./+=:~-" or (code < 128 and chr(code).isalnum())
    else 32
    if code == 32
    else 46
    for code in range(256)
)
_ROW_OF_SINGLES: Final = b" a" * 15 + b" a"
_LONG_WORD: Final = 8
_REACH: Final = 80


def spaced(text: str) -> list[Edit]:
    """The blanks of tokens written character by character."""
    if text.isascii() and _ROW_OF_SINGLES not in text.encode().translate(_SINGLES):
        return []
    return [
        # the first character of the token stands before the first blank
        (index, index + 1, "")
        for found in _SPACED.finditer(text)
        for index in range(found.start(), found.end(), 2)
    ]


def joined(
    text: str,
    spans: Sequence[tuple[int, int]],
    *,
    lines: bool = True,
    quotes: bool = True,
    blanks: bool = True,
) -> View | None:
    """Tokens cut by a line break, string concatenation or blanks put together; None if none look
    so.

    ``spans`` are the long runs of the text. A flag is false where it is known that there are no
    such halves.
    """
    edits = spaced(text)
    for pattern in _BREAKS[0 if quotes else 1 : None if lines else 1]:
        for found in pattern.finditer(text):
            start, end = found.span()
            if text[start] == "\n":
                start = _line_end(text, start)
            if text[start - 1 : start] in _TAIL and halves_of_token(
                text[max(0, start - _REACH) : start], text[end : end + _REACH]
            ):
                edits.append((start, end, ""))
    if blanks:
        edits += _single_blanks(text, spans)
    if not edits:
        return None
    edits.sort()
    disjoint: list[Edit] = []
    for edit in edits:
        if not disjoint or edit[0] >= disjoint[-1][1]:
            disjoint.append(edit)
    return View(text, disjoint)


def _line_end(text: str, newline: int) -> int:
    """Where the line before a newline ends without its continuation mark and trailing blanks."""
    low = max(0, newline - 10)
    line = text[low:newline].rstrip("\r \t")
    return low + len(line.removesuffix("\\").rstrip(" \t"))


def _single_blanks(text: str, spans: Sequence[tuple[int, int]]) -> Iterator[Edit]:
    """Blanks beside a long run, when both neighbours hold digits and letters."""
    for start, end in spans:
        for blank in (start - 1, end):
            if text[blank : blank + 1] != " ":
                continue
            left = _token_end(text[max(0, blank - _REACH) : blank])
            right = _token_start(text[blank + 1 : blank + 1 + _REACH])
            if len(left) >= _LONG_WORD and len(right) >= _LONG_WORD:
                if _mixed(left) and _mixed(right):
                    yield blank, blank + 1, ""


def _token_end(text: str) -> str:
    return text[len(text.rstrip(_TAIL)) :]


def _token_start(text: str) -> str:
    return text[: len(text) - len(text.lstrip(_TAIL))]


# the next line of a settings file is no second half: `DEBUG=1`, `status=200`
_NEW_NAME: Final = late(r"[A-Za-z_][\w.-]{0,30}(?:=[^=]|:$)")


def _mixed(word: str) -> bool:
    if not any(c.isdigit() for c in word):
        return case_runs(word) < MIN_CHARACTERS_PER_RUN and word != word.upper()
    return any(c.isalpha() for c in word) and _NEW_NAME.match(word) is None


def halves_of_token(left: str, right: str) -> bool:
    """Whether the end of one string and the start of the next could be one token.

    Together they must be long, and the second must not be a plain word.
    """
    left, right = _token_end(left), _token_start(right)
    if len(left) + len(right) < 16 or len(right) < 3 or len(left) < 3:
        return False
    if _NEW_NAME.match(right):
        return False
    if any(c.isdigit() for c in right):
        return any(c.isalpha() for c in right) or any(c.isdigit() for c in left)
    return any("A" <= c <= "Z" for c in right[1:]) and any("a" <= c <= "z" for c in right)
