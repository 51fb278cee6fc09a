"""The anchor gate: which literals of the registry stand where in a lower-cased text.

Most texts hold none, so this is the part that must be fast. The portable form is one alternation in
``re``, shared prefixes folded into a trie; it needs no native package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any


class AnchorGate:
    """Finds every anchor, also those that start inside or at the same place as another one."""

    def __init__(self, anchors: Sequence[str]) -> None:
        known = frozenset(anchors)
        self._pattern = re.compile(_trie_pattern(anchors))
        # the trie answers the longest anchor at a place; the shorter ones there are its prefixes
        self._at_same_place = {
            anchor: tuple(
                anchor[:size] for size in range(len(anchor), 0, -1) if anchor[:size] in known
            )
            for anchor in anchors
        }

    def hits(self, lowered: str, start: int, end: int) -> Iterator[tuple[int, str]]:
        """(position, anchor), positions ascending, the longest anchor of a place first; ``lowered``
        has constant length.
        """
        search = self._pattern.search
        found = search(lowered, start, end)
        while found is not None:
            position = found.start()
            for anchor in self._at_same_place[found.group()]:
                yield position, anchor
            found = search(lowered, position + 1, end)


def _trie_pattern(anchors: Sequence[str]) -> str:
    root: dict[str, Any] = {}
    for anchor in anchors:
        if not anchor or anchor != anchor.lower():
            raise ValueError("anchors are non-empty lower-case literals")
        node = root
        for character in anchor:
            node = node.setdefault(character, {})
        node[""] = {}
    return _node_pattern(root)


def _node_pattern(node: dict[str, Any]) -> str:
    branches = [
        re.escape(character) + _node_pattern(child)
        for character, child in sorted(node.items())
        if character
    ]
    if not branches:
        return ""
    body = branches[0] if len(branches) == 1 else "(?:" + "|".join(branches) + ")"
    if "" in node:
        return "(?:" + body + ")?"
    return body


def lower_same_length(text: str) -> str:
    """Lower case with every index kept; a few letters lower to two characters."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return _UPPER.sub(lambda found: found[0].lower(), text)


_UPPER = re.compile(r"[A-Z]+")
