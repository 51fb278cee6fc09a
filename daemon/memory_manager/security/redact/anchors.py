"""All literals of the rule set, looked up in one pass over a text.

Contract: redaction.md 4.1, 5.2.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Final

from memory_manager.security.redact import carriers, key_material, native
from memory_manager.security.redact.gate import (
    Gate,
    Match,
    lower_same_length,
    portable_gate,
)
from memory_manager.security.redact.labelled import LABEL_ANCHORS
from memory_manager.security.redact.rule import Rule
from memory_manager.security.redact.rules import RULES
from memory_manager.security.redact.triggers import PATTERNS, Trigger

_BY_ANCHOR: Final[dict[str, tuple[Rule, ...]]] = {}
for _rule in RULES:
    for _anchor in _rule.anchors:
        _BY_ANCHOR[_anchor] = (*_BY_ANCHOR.get(_anchor, ()), _rule)
_LABELS: Final = frozenset(LABEL_ANCHORS)
ANCHORS: Final = tuple(sorted(_BY_ANCHOR.keys() | _LABELS | carriers.HINTS | key_material.HINTS))
_RULES_OF: Final = tuple(_BY_ANCHOR.get(anchor, ()) for anchor in ANCHORS)
_NUMBER_OF: Final = {rule: number for number, rule in enumerate(RULES)}
_IS_LABEL: Final = tuple(anchor in _LABELS for anchor in ANCHORS)


_READ: Final = _LABELS | carriers.HINTS | key_material.HINTS
_NOTHING: Final[frozenset[str]] = frozenset()


class Found:
    """Which anchors stand where in one text; ``lowered`` is the text in lower case, as long.

    Of the literals of vendors only those are sure to be known whose rules may match.
    """

    __slots__ = ("_matches", "_possible", "_triggers", "lowered", "seen")

    def __init__(
        self,
        lowered: str,
        matches: list[Match],
        possible: frozenset[int] | None = None,
        triggers: frozenset[int] | None = None,
    ) -> None:
        self.lowered = lowered
        self._matches = matches
        self._possible = possible
        self._triggers = triggers
        self.seen = (
            frozenset([ANCHORS[number] for number in {number for _, number in matches}])
            if matches
            else _NOTHING
        )

    @property
    def has_vendors(self) -> bool:
        """Whether a rule of the registry may match."""
        return bool(self._matches) if self._possible is None else bool(self._possible)

    def may(self, trigger: Trigger) -> bool:
        """Whether the reading that the trigger stands for may find something."""
        return self._triggers is None or trigger in self._triggers

    def vendors(self) -> Iterator[tuple[int, str, tuple[Rule, ...]]]:
        """(position, anchor, rules to try there), positions ascending."""
        if not self.has_vendors:
            return
        for position, number in self._matches:
            rules = _RULES_OF[number]
            if rules and self._possible is not None:
                rules = tuple(rule for rule in rules if _NUMBER_OF[rule] in self._possible)
            if rules:
                yield position, ANCHORS[number], rules

    def labels(self) -> Iterator[tuple[int, str]]:
        """(position, literal a label contains), positions ascending."""
        for position, number in self._matches:
            if _IS_LABEL[number]:
                yield position, ANCHORS[number]


# the literals of vendors are left out: there the rules themselves are looked for
_CONTENT: Final = native.Content(
    RULES, ANCHORS, tuple(anchor in _READ for anchor in ANCHORS), PATTERNS
)


@functools.cache
def _gate() -> Gate:
    return portable_gate(ANCHORS)


class _Tier:
    """The native gate once a database is loaded; there is one for the whole process."""

    native: native.NativeGate | None = None


def find_anchors(text: str) -> Found:
    """One pass of the gate over the text."""
    lowered = lower_same_length(text)
    fast = _Tier.native
    if fast is not None:
        answer = fast.find(text, lowered)
        if answer is not None:
            return Found(lowered, *answer)
    return Found(lowered, _gate().find(lowered))


def native_is_possible() -> bool:
    """Whether the optional package of the native tier is installed."""
    return native.is_available()


def compile_native_database() -> bytes:
    """What ``use_native_database`` takes; takes seconds, so it belongs on a thread of its own."""
    return native.compile_database(_CONTENT)


def use_native_database(data: bytes) -> bool:
    """Switch to the native tier; False, and no change, if the bytes are not of this rule set, this
    package and this processor, or are damaged.
    """
    gate = native.load_database(data, _CONTENT)
    if gate is None:
        return False
    _Tier.native = gate
    return True


def use_portable_tier() -> None:
    """Back to the portable gate, for tests that compare the tiers."""
    _Tier.native = None
