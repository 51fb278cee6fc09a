"""Secrets that a row splits over several of its strings. Contract: redaction.md 8.

Runs after the leaves were cleaned one by one, on the leaves as given and in storage order: a part
may look like a shorter secret of its own. Cheap tests come first, so that an
ordinary row pays almost nothing.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from typing import Final

from memory_manager.security.redact.anchors import find_anchors
from memory_manager.security.redact.engine import Budget, vendor_hits
from memory_manager.security.redact.ids import mark, marks_in
from memory_manager.security.redact.key_material import (
    armoured_blocks,
    aws_secrets_in,
    is_bare_header,
    key_lines,
)
from memory_manager.security.redact.randomness import MIN_CHARACTERS_PER_RUN, case_runs
from memory_manager.security.redact.rule import Hit
from memory_manager.security.redact.views import halves_of_token

MIN_PART: Final = 4
_KEY_ID_MARK: Final = mark("aws-access-key-id")


def split_secret_hits(texts: Sequence[str], key_id_found: bool) -> dict[int, list[Hit]]:
    """Hits by index of the text, for secrets no single text shows.

    ``key_id_found``: an AWS key id was removed from one of them.
    """
    found: dict[int, list[Hit]] = {}
    if len(texts) < 2:
        return found
    for index, hit in _parts(texts, key_id_found):
        if not any(start < hit.end and hit.start < end for start, end in marks_in(texts[index])):
            found.setdefault(index, []).append(hit)
    return found


def _parts(texts: Sequence[str], key_id_found: bool) -> Iterator[tuple[int, Hit]]:
    headers = [i for i, text in enumerate(texts) if "BEGIN " in text and "PRIVATE" in text]
    if headers:
        whole = "\n".join(texts)
        spread = list(_spread(texts, 1, armoured_blocks(whole, find_anchors(whole).seen)))
        yield from spread
        # a header alone in one field: the body may stand anywhere in the row
        if any(is_bare_header(texts[i]) and i not in {j for j, _ in spread} for i in headers):
            for index, text in enumerate(texts):
                for hit in key_lines(text):
                    yield index, hit
    if key_id_found or any(_KEY_ID_MARK in text for text in texts):
        for index, text in enumerate(texts):
            for hit in aws_secrets_in(text):
                yield index, hit
    for first in _chains(texts):
        chain = texts[first[0] : first[1]]
        whole = "".join(chain)
        for index, hit in _spread(chain, 0, vendor_hits(whole, find_anchors(whole), Budget())):
            part = chain[index][hit.start : hit.end]
            # a whole token may end where a plain word begins
            if len(part) >= MIN_PART and (hit.start > 0 or _is_no_word(part)):
                yield first[0] + index, hit


def _is_no_word(part: str) -> bool:
    return any(c.isdigit() for c in part) or case_runs(part) < MIN_CHARACTERS_PER_RUN


def _chains(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Ranges of neighbours whose touching ends could be halves of one token."""
    start = 0
    for index in range(1, len(texts) + 1):
        if index < len(texts) and halves_of_token(texts[index - 1][-80:], texts[index][:80]):
            continue
        if index - start > 1:
            yield start, index
        start = index


def _spread(texts: Sequence[str], gap: int, hits: Iterator[Hit]) -> Iterator[tuple[int, Hit]]:
    """Hits of the joined text as hits of its parts; those inside one part were judged before."""
    starts: list[int] = []
    position = 0
    for text in texts:
        starts.append(position)
        position += len(text) + gap
    for hit in hits:
        first = bisect.bisect_right(starts, hit.start) - 1
        last = bisect.bisect_right(starts, hit.end - 1) - 1
        if first == last:
            continue
        for index in range(first, last + 1):
            low = max(hit.start - starts[index], 0)
            high = min(hit.end - starts[index], len(texts[index]))
            if high > low:
                yield index, Hit(low, high, hit.rule, hit.severity, hit.specificity)
