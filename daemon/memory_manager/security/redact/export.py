"""Marks as they leave the house: short, so that other scanners do not take them for secrets.

``[REDACTED:rule-id]`` in the place of a password alarms other tools; the bare form does not.
Contract: redaction.md 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from memory_manager.security.redact.ids import BARE_TOKEN, marks_in


def shorten_marks(text: str) -> str:
    """The text with every mark of ours in its bare form; the same object if there is none."""
    marks = marks_in(text)
    if not marks:
        return text
    parts: list[str] = []
    position = 0
    for start, end in marks:
        parts += (text[position:start], BARE_TOKEN)
        position = end
    return "".join([*parts, text[position:]])


def shorten_marks_in(value: Any) -> Any:
    """The same for all strings of a JSON value, keys too; a key that meets another gets ``#2``."""
    if isinstance(value, str):
        return shorten_marks(value)
    if isinstance(value, Mapping):
        shortened: dict[str, Any] = {}
        for key, item in cast("Mapping[str, Any]", value).items():
            name, number = shorten_marks(key), 2
            while name in shortened:
                name, number = f"{shorten_marks(key)}#{number}", number + 1
            shortened[name] = shorten_marks_in(item)
        return shortened
    if isinstance(value, list | tuple):
        return [shorten_marks_in(item) for item in cast("list[Any]", value)]
    return value
