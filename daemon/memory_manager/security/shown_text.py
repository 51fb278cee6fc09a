"""How memories are shown to an agent, under a hard budget: their text cannot look like a block of
ours or like a speaker.

Pure; shared by the local context pack and the server's. Contract: recall.md 10.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from memory_manager.security.token_estimate import BLOCK_HEADER_TOKENS, estimate_tokens

T = TypeVar("T")

_BLANK_LINES = re.compile(
    r"(?:[ \t\f\v\u00a0\u200b\ufeff]*(?:\r\n|[\n\r\x1c-\x1e\x85\u2028\u2029]))+"
)
_BLOCK_START = re.compile(r"^([ \t]*)(\d{1,9})([.)])(?=[ \t]*\[)", re.MULTILINE)
_ROLE_MARKER = re.compile(
    r"^([ \t]*(?:[#>*_-]+[ \t]*)?)(system|assistant|user|human|tool|developer)([ \t*_]*:)",
    re.MULTILINE | re.IGNORECASE,
)
_CHAT_TAG = re.compile(
    r"<(?=\s*[/|]?\s*(?:(?:im_start|im_end|system|assistant|user|human|tool|developer|endoftext)\b|s>))"
    r"|\[(?=/?(?:INST|SYS)\])",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?]+(?=\s)|[。！？]|\n")
_ELLIPSIS = " ..."


def pack(
    found: Iterable[T], block: Callable[[int, T], str], *, max_items: int, max_tokens: int
) -> tuple[list[T], str, int]:
    """What of ``found`` fits, its text with one ``block(number, item)`` each and a blank line
    between them, and the estimated tokens of that text, at most ``max_tokens``.

    Greedy by rank: a block that does not fit is skipped and the next one tried. The best block is
    cut at a sentence border when it alone is too long.
    """
    kept: list[T] = []
    blocks: list[str] = []
    used = 0
    for item in found:
        if len(kept) >= max_items:
            break
        text = block(len(kept) + 1, item)
        cost = block_tokens(text)
        if used + cost > max_tokens:
            if kept:
                continue
            text = cut_to_tokens(text, max_tokens)
            cost = block_tokens(text)
            if not text or cost > max_tokens:
                continue
        kept.append(item)
        blocks.append(text)
        used += cost
    return kept, "\n\n".join(blocks), used


def memory_block(
    number: int, memory_type: str, path: str, created_at_ms: int, writer: str | None, content: str
) -> str:
    """One memory as one paragraph; lines of the content stay lines."""
    day = datetime.datetime.fromtimestamp(created_at_ms / 1000, tz=datetime.UTC).date()
    said = f"[{day.isoformat()}] {one_line(writer)}: " if writer else f"[{day.isoformat()}] "
    return f"{number}. [{one_line(memory_type)}] {one_line(path)}: {said}{plain_content(content)}"


def block_tokens(text: str) -> int:
    """What one block costs, its header included."""
    return estimate_tokens(text) + BLOCK_HEADER_TOKENS


def plain_content(content: str) -> str:
    """Content without blank lines, and with a visible mark where it looks like ours or a speaker's.

    A zero-width mark would be invisible to people; a backslash is seen by both.
    """
    text = _BLANK_LINES.sub("\n", content).strip()
    text = _BLOCK_START.sub(r"\1\2\\\3", text)
    text = _ROLE_MARKER.sub(r"\1\2\\\3", text)
    return _CHAT_TAG.sub(r"\\\g<0>", text)


def one_line(text: str) -> str:
    """White space of every kind as single spaces."""
    return " ".join(text.split())


def cut_to_tokens(text: str, max_tokens: int) -> str:
    """The longest start of ``text`` that fits, up to a sentence border where one is near."""
    if block_tokens(_ELLIPSIS) >= max_tokens:
        return ""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if block_tokens(text[:middle] + _ELLIPSIS) <= max_tokens:
            low = middle
        else:
            high = middle - 1
    cut = text[:low]
    borders = [match.end() for match in _SENTENCE_END.finditer(cut)]
    if borders and borders[-1] > low // 2:
        cut = cut[: borders[-1]]
    elif " " in cut[low // 2 :]:
        cut = cut[: cut.rindex(" ")]
    return cut.rstrip() + _ELLIPSIS if cut.strip() else ""
