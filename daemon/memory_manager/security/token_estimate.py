"""How many tokens a text costs an agent, estimated so that it is hardly ever too few. Pure.

Contract: recall.md 10: characters / 3 for Latin script, one per character of CJK and other
scripts that tokenizers cut finely, and symbols like emoji at two.
"""

from __future__ import annotations

import math
import re

_ASCII_RUN = re.compile(r"[\x00-\x7f]+")
_LATIN = re.compile("[\u00a0-\u024f]")
_WIDE_SYMBOL = re.compile("[\u2190-\u2bff\U0001f000-\U0001ffff]")

CHARACTERS_PER_TOKEN = 3
SYMBOL_TOKENS = 2
BLOCK_HEADER_TOKENS = 8


def estimate_tokens(text: str) -> int:
    """Tokens of ``text`` without any header."""
    latin = sum(len(run) for run in _ASCII_RUN.findall(text))
    if latin == len(text):
        return math.ceil(latin / CHARACTERS_PER_TOKEN)
    latin += len(_LATIN.findall(text))
    symbols = len(_WIDE_SYMBOL.findall(text))
    others = len(text) - latin - symbols
    return math.ceil(latin / CHARACTERS_PER_TOKEN) + others + symbols * SYMBOL_TOKENS
