"""The literals that the reading of a label starts at, and where one of them is no part of a label.

Contract: redaction.md 4.3, 5.2.
"""

from __future__ import annotations

from typing import Final

from memory_manager.security.redact.label_words import (
    AMBIGUOUS_VENDORS,
    PASSWORD_PHRASES,
    SECRET_PHRASES,
    STEMS,
    VENDOR_WORDS,
    WHOLE_STEMS,
)

WHOLE: Final = WHOLE_STEMS | (VENDOR_WORDS - AMBIGUOUS_VENDORS)
"""Literals that count as a word of their own only: ``pat`` in ``GITHUB_PAT``, not in ``path``."""
LABEL_ANCHORS: Final = (*STEMS, *PASSWORD_PHRASES, *SECRET_PHRASES, *sorted(WHOLE))


def is_part_of_word(text: str, position: int, size: int) -> bool:
    """Whether the letters at ``position`` are only a part of a word of a name.

    A capital begins a word of its own in camelCase, so what stands before it does not matter.
    """
    after = text[position + size : position + size + 1]
    if after.isalpha() and not "A" <= after <= "Z":
        return True
    return position > 0 and not "A" <= text[position] <= "Z" and text[position - 1].isalpha()


def expression(anchor: str) -> bytes:
    """What the native engine looks for: true wherever ``is_part_of_word`` is not."""
    first, rest = anchor[0], anchor[1:]
    return f"(?:(?:^|[^A-Za-z]){first}|{first.upper()})(?i:{rest})(?:[^a-z]|$)".encode()
