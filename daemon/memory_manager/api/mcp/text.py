"""The text of tool results (xmemo.md 11.4): one block a memory, a blank line between, none inside.

A block begins with ``[id] path: `` and goes on with the content. Clients show its first 80
characters as a label and count blocks, so no memory may look like two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, cast

MAX_HIT_CHARACTERS: Final = 1_200
_CUT: Final = "…"
_BLOCK_START: Final = re.compile(r"^(\s*)(\[[0-9a-f]{8}-)", re.MULTILINE)

Item = Mapping[str, object]


def items_of(body: Item, name: str) -> list[Item]:
    """The list of items that an answer has under a name."""
    found = body.get(name)
    return cast("list[Item]", found) if isinstance(found, list) else []


def blocks(items: Iterable[Item]) -> str:
    """All items; the empty text for none."""
    return "\n\n".join(block(item) for item in items)


def block(item: Item) -> str:
    """One memory, cut after MAX_HIT_CHARACTERS of its content."""
    return f"[{item.get('id')}] {one_line(item.get('path'))}: {without_blank_lines(item)}"


def one_line(value: object) -> str:
    return " ".join(str("" if value is None else value).split())


def without_blank_lines(item: Item) -> str:
    """The content of an item; a line that looks like the start of a block gets a backslash."""
    # splitlines knows every line end, also those that a client might count as one
    lines = [line.rstrip() for line in str(item.get("content") or "").splitlines() if line.strip()]
    text = "\n".join(lines)
    if len(text) > MAX_HIT_CHARACTERS:
        text = text[: MAX_HIT_CHARACTERS - 1] + _CUT
    return _BLOCK_START.sub(r"\1\\\2", text)


def written(body: Item) -> str:
    """The confirmation of a write: what happened to which row, and what was taken out of it."""
    return confirmation(str(body.get("status") or "done").capitalize(), body)


def updated(body: Item) -> str:
    """The confirmation of a change; the answer's status is that of the row."""
    return confirmation("Updated", body)


def confirmation(verb: str, body: Item) -> str:
    said = f"{verb}: {body.get('id')}"
    if body.get("path"):
        said += f" {one_line(body['path'])}"
    redactions = body.get("redactions")
    if isinstance(redactions, list) and redactions:
        said += f". Removed before storing: {', '.join(str(name) for name in redactions)}"
    return said


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """``name: value`` lines, without those that have no value."""
    return "\n".join(f"{name}: {one_line(value)}" for name, value in pairs if value is not None)
