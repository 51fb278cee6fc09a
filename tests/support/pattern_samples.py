"""Texts that a public scanner's patterns match, drawn from the installed package at run time.

Nothing of the scanner is kept here: the rule file is read from the library that the optional
package installs (MIT licence), a text is drawn for each pattern, and both are thrown away.
"""

from __future__ import annotations

import importlib.util
import random
import re
import string
from collections.abc import Iterator
from pathlib import Path
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

POOL = string.ascii_letters + string.digits
LABEL_TAILS = ("_api_key", "_token", "_secret_key", "_key", "_secret")
# the scanner's rules share this operator; people write the first two of its forms
OPERATOR = r"(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)"
MANY = 14  # how many more than the least an unbounded repeat draws
_RULE = re.compile(
    r"^\[\[rules\]\]\s+id = \"(?P<id>[^\"]+)\".*?^regex = (?:'''(?P<a>.+?)'''|\"(?P<b>.+?)\"$)",
    re.M | re.S,
)
_CATEGORIES = {
    op.CATEGORY_DIGIT: string.digits,
    op.CATEGORY_WORD: POOL + "_",
    op.CATEGORY_SPACE: " ",
    op.CATEGORY_NOT_SPACE: POOL,
    op.CATEGORY_NOT_DIGIT: string.ascii_letters,
    op.CATEGORY_NOT_WORD: "-",
}


def public_rules() -> list[tuple[str, str]]:
    """(id, pattern) of every content rule in the installed scanner; empty without it."""
    spec = importlib.util.find_spec("betterleaks")
    if spec is None or spec.origin is None:
        return []
    found: dict[str, str] = {}
    for library in Path(spec.origin).parent.glob("*.so"):
        raw = library.read_bytes()
        start, end = raw.find(b"[[rules]]"), raw.rfind(b"[[rules]]") + 4_000
        for rule in _RULE.finditer(raw[start:end].decode("utf-8", "replace")):
            found.setdefault(rule["id"], rule["a"] or rule["b"])
    return sorted(found.items())


def _python_pattern(pattern: str) -> str:
    text = pattern.replace("(?i)", "").replace("(?-i)", "").replace("(?-i:", "(?:")
    for name, members in (("alnum", "0-9A-Za-z"), ("alpha", "A-Za-z"), ("digit", "0-9")):
        text = text.replace(f"[:{name}:]", members)
    return text.replace("\\z", "\\Z")


class PatternSampler:
    """Draws texts that a pattern matches, with natural words where any word may stand."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.groups: dict[int, str] = {}

    def draw(self, pattern: str) -> tuple[str, str]:
        """A matching text and its secret: the first group's text, or the whole."""
        self.groups = {}
        plain = _python_pattern(pattern).replace(OPERATOR, "(?:=|: )")
        text = self._sequence(_parser.parse(plain))
        return text.strip(), self.groups.get(1, text).strip()

    def _sequence(self, parsed: Any) -> str:
        return "".join(self._one(code, value) for code, value in parsed)

    def _one(self, code: Any, value: Any) -> str:
        if code is op.LITERAL:
            return chr(value)
        if code is op.NOT_LITERAL:
            return self.random.choice([c for c in POOL if ord(c) != value])
        if code is op.ANY:
            return self.random.choice(POOL)
        if code is op.IN:
            return self.random.choice(self._members(value))
        if code is op.BRANCH:
            return self._sequence(self.random.choice(value[1]))
        if code is op.SUBPATTERN:
            text = self._sequence(value[3])
            if value[0] is not None:
                self.groups[value[0]] = text
            return text
        if code in (op.MAX_REPEAT, op.MIN_REPEAT):
            return self._repeat(*value)
        return ""  # edges and look-arounds take no room

    def _repeat(self, low: int, high: int, inner: Any) -> str:
        if low == 0 and high not in (1, op.MAXREPEAT):
            first = inner[0]
            wordy = first[0] is op.IN and (op.CATEGORY, op.CATEGORY_WORD) in first[1]
            return self.random.choice(LABEL_TAILS) if wordy and high <= 30 else ""
        top = low + MANY if high is op.MAXREPEAT else min(int(high), low + MANY)
        return "".join(self._sequence(inner) for _ in range(self.random.randint(low, top)))

    def _members(self, value: Any) -> str:
        negated = value[0][0] is op.NEGATE
        found = ""
        for code, part in value:
            if code is op.LITERAL:
                found += chr(part)
            elif code is op.RANGE:
                found += "".join(map(chr, range(part[0], min(part[1], 0x7E) + 1)))
            elif code is op.CATEGORY:
                found += _CATEGORIES[part]
        if negated:
            return "".join(c for c in POOL if c not in found) or "~"
        return "".join(c for c in found if c in POOL) or found


def drawn(seed: str, rounds: int = 2) -> Iterator[tuple[str, str, str]]:
    """(rule id, text, secret) of every rule whose pattern really matches the drawn text."""
    sampler = PatternSampler(seed)
    for name, pattern in public_rules():
        try:
            check = re.compile(_python_pattern(pattern), re.I)
        except re.error:
            continue
        for _ in range(rounds):
            text, secret = sampler.draw(pattern)
            if len(secret) >= 8 and check.search(text):
                yield name, text, secret
