"""All literals of the rule set, looked up in one pass over a text.

Contract: redaction.md 4.1, 5.2.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from memory_manager.security.redact import (
    carriers,
    commands,
    credential_files,
    key_material,
    label_places,
    native,
    stated,
)
from memory_manager.security.redact.gate import (
    Gate,
    Match,
    lower_same_length,
    places_of,
    portable_gate,
)
from memory_manager.security.redact.marking import utf8
from memory_manager.security.redact.rule import Rule
from memory_manager.security.redact.rules import RULES
from memory_manager.security.redact.triggers import PATTERNS, Trigger

MAX_GATED_WHOLE: Final = 4
"""Longer words hardly stand inside others, and a shape for each makes the database large."""
_BY_ANCHOR: Final[dict[str, tuple[Rule, ...]]] = {}
for _rule in RULES:
    for _anchor in _rule.anchors:
        _BY_ANCHOR[_anchor] = (*_BY_ANCHOR.get(_anchor, ()), _rule)
_LABELS: Final = frozenset(label_places.LABEL_ANCHORS)
HINTS: Final = (
    carriers.STARTERS
    | commands.STARTERS
    | credential_files.HINTS
    | key_material.HINTS
    | stated.STARTERS
)
"""Literals that readers ask for."""
ANCHORS: Final = tuple(sorted(_BY_ANCHOR.keys() | _LABELS | HINTS))
_RULES_OF: Final = tuple(_BY_ANCHOR.get(anchor, ()) for anchor in ANCHORS)
_NUMBER_OF: Final = {rule: number for number, rule in enumerate(RULES)}
_IS_LABEL: Final = tuple(anchor in _LABELS for anchor in ANCHORS)
_IS_WHOLE: Final = tuple(anchor in label_places.WHOLE for anchor in ANCHORS)
_IS_GATED_WHOLE: Final = tuple(
    anchor in label_places.WHOLE and anchor not in HINTS and len(anchor) <= MAX_GATED_WHOLE
    for anchor in ANCHORS
)
# literals outside ASCII stand at places that depend on how the whole text is lowered
_IS_PLACED: Final = tuple(
    anchor in _LABELS and anchor.isascii() and not whole
    for anchor, whole in zip(ANCHORS, _IS_GATED_WHOLE, strict=True)
)
_ANCHOR_NUMBER: Final = {anchor: number for number, anchor in enumerate(ANCHORS)}
_ANCHORS_OF_RULE: Final = tuple(
    tuple(_ANCHOR_NUMBER[anchor] for anchor in rule.anchors) for rule in RULES
)
_FIRST_ANCHOR: Final = len(RULES)
_FIRST_TRIGGER: Final = _FIRST_ANCHOR + len(ANCHORS)
_NOTHING: Final[frozenset[str]] = frozenset()


class Found:
    """Which anchors stand where in one text, as the portable gate tells."""

    __slots__ = ("_lowered", "_matches", "seen", "text")
    is_nothing = False
    """Whether no reading that waits for a literal or a trigger is to be done."""

    def __init__(self, text: str, lowered: str, matches: list[Match]) -> None:
        self.text = text
        self._lowered: str | None = lowered
        self._matches = matches
        self.seen = (
            frozenset([ANCHORS[number] for number in {number for _, number in matches}])
            if matches
            else _NOTHING
        )

    @property
    def lowered(self) -> str:
        """The text in lower case, as long."""
        if self._lowered is None:
            self._lowered = lower_same_length(self.text)
        return self._lowered

    @property
    def has_vendors(self) -> bool:
        """Whether a rule of the registry may match."""
        return bool(self._matches)

    def on(self, text: str) -> Found:
        """The same for a text as long that has the same literals at the same places."""
        found = Found(text, "", self._matches)
        found._lowered = None
        return found

    def may(self, trigger: Trigger) -> bool:
        """Whether the reading that the trigger stands for may find something."""
        return True

    def vendors(self) -> Iterator[tuple[int, str, tuple[Rule, ...]]]:
        """(position, anchor, rules to try there), positions ascending."""
        for position, number in self._matches:
            rules = _RULES_OF[number]
            if rules:
                yield position, ANCHORS[number], rules

    def labels(self) -> Iterator[tuple[int, str]]:
        """(position, literal a label contains), positions ascending."""
        text = self.text
        for position, number in self._matches:
            if _IS_LABEL[number]:
                anchor = ANCHORS[number]
                if not _IS_WHOLE[number] or not label_places.is_part_of_word(
                    text, position, len(anchor)
                ):
                    yield position, anchor


class NativeFound(Found):
    """The same from the native gate; places are looked up when they are asked for.

    ``seen`` and ``vendors`` leave out the literals of vendors none of whose rules can match, and
    ``seen`` those that are not written as their reader wants them.
    """

    __slots__ = ("_data", "_ends", "_events", "_possible", "_triggers")

    def __init__(self, text: str, data: bytes, events: Sequence[native.Event]) -> None:
        self.text = text
        self._lowered = None
        self._matches = []
        self._data = data
        self._events = events
        self._possible: set[int] = set()
        self._triggers: set[Trigger] = set()
        self._ends: list[tuple[int, int]] = []  # where anchors end, and their numbers
        for number, end in events:
            if number < _FIRST_ANCHOR:
                self._possible.add(number)
            elif number < _FIRST_TRIGGER:
                self._ends.append((end, number - _FIRST_ANCHOR))
            else:
                self._triggers.add(PATTERNS[number - _FIRST_TRIGGER][0])
        self.seen = frozenset([ANCHORS[number] for _, number in self._ends])

    def on(self, text: str) -> Found:
        found = NativeFound(text, self._data, self._events)
        found._matches = self._matches
        return found

    @property
    def has_vendors(self) -> bool:
        return bool(self._possible)

    def may(self, trigger: Trigger) -> bool:
        return trigger in self._triggers

    def vendors(self) -> Iterator[tuple[int, str, tuple[Rule, ...]]]:
        if not self._possible:
            return
        wanted = {number for rule in self._possible for number in _ANCHORS_OF_RULE[rule]}
        rules_of = {
            number: tuple(r for r in _RULES_OF[number] if _NUMBER_OF[r] in self._possible)
            for number in wanted
        }
        for position, number in places_of(self.lowered, ANCHORS, wanted):
            yield position, ANCHORS[number], rules_of[number]

    def labels(self) -> Iterator[tuple[int, str]]:
        if not self._matches:
            self._matches = self._label_places()
        return super().labels()

    def _label_places(self) -> list[Match]:
        labels = [(end, number) for end, number in self._ends if _IS_LABEL[number]]
        placed = sorted([(end, number) for end, number in labels if _IS_PLACED[number]])
        found = list(_starts(self._data, placed))
        if len(placed) < len(labels):
            others = {number for _, number in labels if not _IS_PLACED[number]}
            found += places_of(self.lowered, ANCHORS, others)
        if len(found) > 1:
            found.sort(key=lambda match: (match[0], -len(ANCHORS[match[1]]), match[1]))
        return found


class _NothingFound(NativeFound):
    """What the native gate says of most texts; nothing of it depends on the text."""

    __slots__ = ()
    is_nothing = True


def _starts(data: bytes, ends: Iterable[tuple[int, int]]) -> Iterator[Match]:
    """The places of literals in a text from where they end, ascending, in its UTF-8 form."""
    plain = data.isascii()
    read = length = 0  # bytes and the characters that they are
    for end, number in ends:
        length += end - read if plain else len(data[read:end].decode("utf-8", "surrogatepass"))
        read = end
        yield length - len(ANCHORS[number]), number


_CONTENT: Final = native.Content(
    RULES,
    ANCHORS,
    # the literals of vendors are left out: there the rules themselves are looked for
    tuple(anchor in _LABELS or anchor in HINTS for anchor in ANCHORS),
    _IS_GATED_WHOLE,
    _IS_PLACED,
    tuple(anchor in commands.AS_WRITTEN for anchor in ANCHORS),
    PATTERNS,
)
_NOTHING_FOUND: Final = _NothingFound("", b"", ())


@functools.cache
def _gate() -> Gate:
    return portable_gate(ANCHORS)


class _Tier:
    """The native gate once a database is loaded; there is one for the whole process."""

    native: native.NativeGate | None = None


def find_anchors(text: str, data: bytes | None = None) -> Found:
    """One pass of the gate over the text, which is ``data`` in UTF-8 where that is known."""
    fast = _Tier.native
    if fast is not None:
        if data is None:
            data = utf8(text)
        events = fast.find(text, data)
        if events is not None:
            return NativeFound(text, data, events) if events else _NOTHING_FOUND
    lowered = lower_same_length(text)
    return Found(text, lowered, _gate().find(lowered))


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
