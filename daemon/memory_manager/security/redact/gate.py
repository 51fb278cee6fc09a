"""The anchor gate: which literals of the registry and of the readers stand where in a text.

Most texts hold none, so this is the part that must be fast. The portable form is an Aho-Corasick
automaton where ``ahocorasick_rs`` is installed, else one alternation in ``re`` with shared prefixes
folded into a trie. Both find the same literals at the same places. Contract: redaction.md 5.1.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

Match = tuple[int, int]
"""(position, number of the anchor); positions ascending, at one place the longest anchor first."""


class RegexGate:
    """Every anchor, also those that start inside or at the same place as another one."""

    def __init__(self, anchors: Sequence[str]) -> None:
        known = {anchor: number for number, anchor in enumerate(anchors)}
        self._search = re.compile(_trie_pattern(anchors)).search
        # the trie answers the longest anchor at a place; the shorter ones there are its prefixes
        self._at_same_place = {
            anchor: tuple(
                known[anchor[:size]] for size in range(len(anchor), 0, -1) if anchor[:size] in known
            )
            for anchor in anchors
        }

    def find(self, lowered: str) -> list[Match]:
        """All places; ``lowered`` has constant length."""
        found: list[Match] = []
        search, same = self._search, self._at_same_place
        match = search(lowered)
        while match is not None:
            position = match.start()
            for number in same[match.group()]:
                found.append((position, number))
            match = search(lowered, position + 1)
        return found


class AutomatonGate:
    """The same by an Aho-Corasick automaton, several times faster."""

    def __init__(self, anchors: Sequence[str], package: Any) -> None:
        automaton = package.AhoCorasick(list(anchors), matchkind=package.MatchKind.Standard)
        self._find: Callable[..., list[tuple[int, int, int]]] = automaton.find_matches_as_indexes
        self._fallback: RegexGate | None = None
        self._anchors = anchors

    def find(self, lowered: str) -> list[Match]:
        try:
            found = self._find(lowered, overlapping=True)
        except UnicodeEncodeError:  # a lone surrogate has no UTF-8 form
            if self._fallback is None:
                self._fallback = RegexGate(self._anchors)
            return self._fallback.find(lowered)
        if len(found) > 1:
            found.sort(key=_place)
        return [(start, number) for number, start, _ in found]


def _place(match: tuple[int, int, int]) -> tuple[int, int]:
    return match[1], -match[2]


Gate = RegexGate | AutomatonGate


def portable_gate(anchors: Sequence[str]) -> Gate:
    """The fastest gate that is installed."""
    try:
        package = importlib.import_module("ahocorasick_rs")
    except ImportError:
        return RegexGate(anchors)
    return AutomatonGate(anchors, package)


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


def places_of(lowered: str, anchors: Sequence[str], numbers: Iterable[int]) -> list[Match]:
    """The same for a few anchors, looked for one by one."""
    found: list[tuple[int, int, int]] = []
    find = lowered.find
    for number in numbers:
        anchor = anchors[number]
        position = find(anchor)
        while position >= 0:
            found.append((position, -len(anchor), number))
            position = find(anchor, position + 1)
    found.sort()
    return [(position, number) for position, _, number in found]


def lower_same_length(text: str) -> str:
    """Lower case with every index kept; a few letters lower to two characters."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return _UPPER.sub(lambda found: found[0].lower(), text)


_UPPER: Final = re.compile(r"[A-Z]+")
