"""Reading JSON with comments, with the place of every member, so that an edit changes nothing else.

No kept-up Python library edits JSON with comments without writing the whole text anew, so this
reads just enough: comments and trailing commas, and with ``json5`` also bare keys, single quotes
and the wider numbers of OpenClaw's file. It never repairs: what does not parse raises Unreadable.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from typing import Final

MAX_DEPTH: Final = 200
PLACED_DEPTH: Final = 4
"""Members are looked up this deep at most; what lies deeper and is plain JSON needs no places."""
TOO_DEEP: Final = "it is nested too deeply"
LONG_NUMBER: Final = "it holds a number of too many digits"

_BLANKS = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*")
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_WORD = re.compile(r"[A-Za-z_$][\w$]*")
_WORDS: Final[dict[str, object]] = {"true": True, "false": False, "null": None}
_STRING5 = re.compile(
    r"""'(?:[^'\\\r\n]|\\(?:\r\n|[^\d]|0(?!\d)))*'|"(?:[^"\\\r\n]|\\(?:\r\n|[^\d]|0(?!\d)))*\""""
)
_NUMBER5 = re.compile(
    r"[+-]?(?:0[xX][0-9a-fA-F]+|Infinity|NaN|(?:(?:0|[1-9]\d*)\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
)
_ESCAPE5 = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\r\n|.)", re.DOTALL)
_ESCAPED5: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}


def _no_constant(name: str) -> object:
    raise ValueError(name)  # NaN and Infinity are no JSON


_PLAIN = json.JSONDecoder(parse_constant=_no_constant)


class Unreadable(ValueError):
    """The text is not what its reader accepts; says where, never what stands there."""


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """``"key": value`` from ``start`` to ``end``; ``comma`` is the place of a comma behind it."""

    key: str
    start: int
    value: Node
    comma: int | None

    @property
    def end(self) -> int:
        return self.value.end


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """A value from ``start`` to ``end``; ``members`` only for an object."""

    start: int
    end: int
    plain: object
    members: tuple[Member, ...] | None = None

    def member(self, key: str) -> Member | None:
        """The member of this name; Unreadable when there are two, since programs differ then."""
        found = [member for member in self.members or () if member.key == key]
        if len(found) > 1:
            raise Unreadable(f"it holds '{key}' twice")
        return found[0] if found else None


def parse(text: str, *, json5: bool = False) -> Node | None:
    """The one value of the text; None for a text of blanks and comments only."""
    return _Reader(text, json5).document()


class _Reader:
    def __init__(self, text: str, json5: bool) -> None:
        self._text = text
        self._json5 = json5
        self._at = 1 if text.startswith("\ufeff") else 0
        self._strings = _STRING5 if json5 else _STRING
        self._numbers = _NUMBER5 if json5 else _NUMBER

    def document(self) -> Node | None:
        self._skip()
        if self._at == len(self._text):
            return None
        node = self._value(0)
        self._skip()
        if self._at < len(self._text):
            raise self._refusal()
        return node

    def _refusal(self) -> Unreadable:
        line = self._text.count("\n", 0, self._at) + 1
        return Unreadable(f"it cannot be read at line {line}")

    def _skip(self) -> None:
        """Over blanks and comments."""
        found = _BLANKS.match(self._text, self._at)
        self._at = found.end() if found is not None else self._at

    def _next(self) -> str:
        self._skip()
        if self._at == len(self._text):
            raise self._refusal()
        return self._text[self._at]

    def _value(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise Unreadable(TOO_DEEP)
        character = self._next()
        start = self._at
        if depth >= PLACED_DEPTH and character in "{[" and (quick := self._plain_json()):
            return quick
        if character == "{":
            return self._object(depth)
        if character == "[":
            items = self._items("]", lambda: self._value(depth + 1))
            return Node(start, self._at, [item.plain for item in items])
        if character == '"' or (self._json5 and character == "'"):
            return self._text_node()
        if number := self._numbers.match(self._text, self._at):
            if number[0]:
                self._at = number.end()
                self._end_of_word()
                return Node(start, self._at, _number(number[0]))
        word = _WORD.match(self._text, self._at)
        if word is None or word[0] not in _WORDS:
            raise self._refusal()
        self._at = word.end()
        return Node(start, self._at, _WORDS[word[0]])

    def _plain_json(self) -> Node | None:
        """The value if it is JSON without comments, read by the standard library: files of many
        megabytes exist.
        """
        start = self._at
        try:
            plain, self._at = _PLAIN.raw_decode(self._text, start)
        except (ValueError, RecursionError):
            return None
        return Node(start, self._at, plain)

    def _text_node(self) -> Node:
        start = self._at
        value = self._string()
        return Node(start, self._at, value)

    def _end_of_word(self) -> None:
        if self._at < len(self._text) and re.match(r"[\w$.]", self._text[self._at]):
            raise self._refusal()

    def _string(self) -> str:
        found = self._strings.match(self._text, self._at)
        if found is None:
            raise self._refusal()
        self._at = found.end()
        if self._json5:
            plain = _ESCAPE5.sub(_unescaped, found[0][1:-1])
            # two escapes may be the halves of one character
            return plain.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        return str(json.loads(found[0]))

    def _items(self, closing: str, read: Callable[[], Node]) -> list[Node]:
        self._at += 1
        found: list[Node] = []
        while self._next() != closing:
            found.append(read())
            if self._next() == ",":
                self._at += 1
            elif self._text[self._at] != closing:
                raise self._refusal()
        self._at += 1
        return found

    def _object(self, depth: int) -> Node:
        start = self._at
        self._at += 1
        members: list[Member] = []
        while self._next() != "}":
            key_start = self._at
            key = self._key()
            if self._next() != ":":
                raise self._refusal()
            self._at += 1
            value = self._value(depth + 1)
            comma = None
            if self._next() == ",":
                comma = self._at
                self._at += 1
            elif self._text[self._at] != "}":
                raise self._refusal()
            members.append(Member(key, key_start, value, comma))
        self._at += 1
        plain = {member.key: member.value.plain for member in members}
        return Node(start, self._at, plain, tuple(members))

    def _key(self) -> str:
        if self._json5 and (word := _WORD.match(self._text, self._at)):
            self._at = word.end()
            return word[0]
        return self._string()


def _number(text: str) -> int | float:
    bare = text.lstrip("+-").lower()
    if bare.startswith("0x"):
        return int(bare, 16) * (-1 if text.startswith("-") else 1)
    try:
        return float(text) if re.search(r"[.a-z]", bare) else int(text)
    except ValueError:  # Python reads whole numbers of 4300 digits at most
        raise Unreadable(LONG_NUMBER) from None


def _unescaped(found: re.Match[str]) -> str:
    escape = found[1]
    if len(escape) > 1 and escape[0] in "ux":
        return chr(int(escape[1:], 16))
    if escape in ("\r\n", "\n", "\r", "\u2028", "\u2029"):
        return ""
    return _ESCAPED5.get(escape, escape)
