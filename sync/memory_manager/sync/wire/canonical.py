"""Canonical JSON: the one byte form of a signed or hashed document (sync.md 2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeGuard

from memory_manager.sync.errors import MalformedMessage

_LIMIT: Final = 1 << 53
_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False
)


def encode(document: Mapping[str, Any]) -> bytes:
    """Keys sorted, no spaces, UTF-8. MalformedMessage for floats, large integers, surrogates."""
    _check(document)
    return _written(document)


def decode(data: bytes) -> dict[str, Any]:
    """The object of canonical bytes; MalformedMessage for anything we would write otherwise."""
    try:
        document = json.loads(
            data.decode(),
            object_pairs_hook=_unique,
            parse_int=_exact,
            parse_float=_refuse,
            parse_constant=_refuse,
        )
    except (ValueError, RecursionError):
        raise MalformedMessage from None
    if not isinstance(document, dict) or _written(document) != data:
        raise MalformedMessage
    return document


def is_count(value: object) -> TypeGuard[int]:
    """Whether a member is a whole number from 0 on; ``true`` is none."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def hex_bytes(text: object, size: int) -> bytes:
    """The ``size`` bytes of a member in lower-case hex; ValueError or TypeError otherwise."""
    if not isinstance(text, str):
        raise TypeError("hex is text")
    raw = bytes.fromhex(text)
    if len(raw) != size or raw.hex() != text:
        raise ValueError("hex of another length or spelling")
    return raw


def _written(document: Mapping[str, Any]) -> bytes:
    try:
        return _ENCODER.encode(document).encode()
    except (TypeError, ValueError, RecursionError):
        raise MalformedMessage from None


def _check(value: object) -> None:
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, str):  # almost all of them
            continue
        if isinstance(item, Mapping):
            if not all(isinstance(key, str) for key in item):
                raise MalformedMessage
            pending.extend(item.values())
        elif isinstance(item, (list, tuple)):
            pending.extend(item)
        elif isinstance(item, float) or (isinstance(item, int) and abs(item) >= _LIMIT):
            raise MalformedMessage


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise MalformedMessage
    return found


def _exact(text: str) -> int:
    value = int(text)
    if abs(value) >= _LIMIT:
        raise MalformedMessage
    return value


def _refuse(_text: str) -> NoReturn:
    raise MalformedMessage
