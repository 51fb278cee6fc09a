"""Request bodies: strict JSON or a typed refusal, parsed once at the border.

Contract: sessions.md 14, xmemo.md 4.5 and A13. Pure; no error of this module quotes the input.
"""

from __future__ import annotations

import json
import math
import re
from typing import NoReturn, cast

from memory_manager.api.errors import InvalidJson

MAX_DEPTH = 64
_MAX_INTEGER_CHARACTERS = 17
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_BOM = b"\xef\xbb\xbf"


def parse_object(body: bytes) -> dict[str, object]:
    """The JSON object of a body; an empty body counts as ``{}``. InvalidJson otherwise."""
    value = parse_value(body) if body.strip() else {}
    if not isinstance(value, dict):
        raise InvalidJson("The request body must be a JSON object.")
    return cast("dict[str, object]", value)


def parse_value(body: bytes) -> object:
    """Any JSON value: UTF-8 without BOM, unique names, finite numbers, at most 64 levels."""
    if body.startswith(_BOM):
        raise InvalidJson
    try:
        text = body.decode("utf-8")  # json.loads(bytes) would also take UTF-16 and UTF-32
        value: object = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_integer,
        )
    except (ValueError, RecursionError):
        # the library's message shows the place, its arguments the whole document
        raise InvalidJson from None
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise InvalidJson("The request body is nested too deeply.")
    if _SURROGATE_ESCAPE.search(body):
        _refuse_lone_surrogates(value)
    return value


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidJson("The request body names one member twice.")
    return found


def _refuse_constant(_name: str) -> NoReturn:
    raise InvalidJson


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise InvalidJson("The request body holds a number out of range.")
    return value


def _integer(text: str) -> int | float:
    # int() refuses more than 4300 digits with an error of its own, and SQLite ends at 64 bits
    return int(text) if len(text) <= _MAX_INTEGER_CHARACTERS else _finite(text)


def _depth(value: object) -> int:
    deepest = 0
    stack = [(value, 1)]
    while stack:
        item, level = stack.pop()
        if isinstance(item, dict):
            deepest = max(deepest, level)
            stack.extend((child, level + 1) for child in cast("dict[str, object]", item).values())
        elif isinstance(item, list):
            deepest = max(deepest, level)
            stack.extend((child, level + 1) for child in cast("list[object]", item))
    return deepest


def _refuse_lone_surrogates(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidJson("The request body holds text that is not valid Unicode.") from None
