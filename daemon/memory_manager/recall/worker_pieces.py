"""Cutting a long text into overlapping pieces that fit the model. Contract: recall.md 3.5. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

PIECE_TOKENS = 400
OVERLAP_TOKENS = 40
_PARAGRAPH = re.compile(r"\n[ \t]*\n\s*")
_SENTENCE = re.compile(r"[.!?\u0964\u3002\uff01\uff1f]+[\"'\u00bb\u201d\u300d)]*\s*|\n")
_WORD = re.compile(r"\s+")


def split_text(
    text: str,
    offsets: Sequence[tuple[int, int]],
    max_pieces: int,
    *,
    piece_tokens: int = PIECE_TOKENS,
    overlap_tokens: int = OVERLAP_TOKENS,
) -> list[str]:
    """Pieces of ``text`` of at most ``piece_tokens`` tokens, cut at the best border.

    ``offsets`` are the character spans of the tokens of the whole text. Neighbours share about
    ``overlap_tokens`` tokens. What lies behind ``max_pieces`` pieces is left out.
    """
    if len(offsets) <= piece_tokens:
        return [text]
    overlap = min(overlap_tokens, piece_tokens // 4)
    pieces: list[str] = []
    first = 0  # token
    while len(pieces) < max_pieces:
        start = offsets[first][0] if pieces else 0
        last = first + piece_tokens
        if last >= len(offsets):
            pieces.append(text[start:])
            break
        # the second half of the piece is searched, so that no piece is tiny
        end = _border(text, offsets[first + piece_tokens // 2][1], offsets[last][0])
        pieces.append(text[start:end])
        following = last
        while following > first + 1 and offsets[following - 1][0] >= end:
            following -= 1
        first = max(first + 1, following - overlap)
        first = _word_start(text, offsets, first, following)
    return [piece for piece in pieces if piece.strip()] or [text]


def _border(text: str, low: int, high: int) -> int:
    """The last paragraph, else sentence, else word border in ``(low, high]``, else ``high``."""
    for pattern in (_PARAGRAPH, _SENTENCE, _WORD):
        found = [match.end() for match in pattern.finditer(text, low, high)]
        if found:
            return found[-1]
    return high


def _word_start(text: str, offsets: Sequence[tuple[int, int]], first: int, limit: int) -> int:
    """The next token at or after ``first`` that begins a word; ``first`` if there is none soon."""
    for index in range(first, min(limit, first + 8)):
        position = offsets[index][0]
        if text[position : position + 1].isspace() or text[position - 1 : position].isspace():
            return index
    return first
