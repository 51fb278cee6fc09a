"""The native tier: Hyperscan looks for every rule and literal in one pass.

The package is optional. The compiled database takes seconds to build, so it is built once, in the
background, and handed in as bytes by whoever keeps the cache file: nothing is read or written
here. Until a database is loaded, and wherever the package is missing, the portable gate serves.
Both find the same: the native gate only says which rules cannot match.

Contract: redaction.md 5.1, 5.3.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import platform
import re
import sys
import threading
from collections.abc import Sequence, Set
from typing import Any, Final

from memory_manager.security.redact import label_places
from memory_manager.security.redact.rule import Rule
from memory_manager.security.redact.ruleset import RULESET_VERSION
from memory_manager.security.redact.triggers import Trigger

_MAGIC: Final = b"memlocket-rules-5\n"
_DIGEST_BYTES: Final = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Content:
    """What a database looks for; ``wanted`` says which anchors are needed beside their rules,
    ``whole`` which of them as words of their own only, ``placed`` of which all places are,
    ``written`` which of them only as they are written.
    """

    rules: Sequence[Rule]
    anchors: Sequence[str]
    wanted: Sequence[bool]
    whole: Sequence[bool]
    placed: Sequence[bool]
    written: Sequence[bool]
    triggers: Sequence[tuple[Trigger, str]]


Event = tuple[int, int]
"""A number and the byte where a match ends: numbers of rules, behind them those of anchors, behind
them those of triggers.
"""


# the only letter outside ASCII that is one inside it in lower case
_KELVIN: Final = "\u212a"


class NativeGate:
    """A loaded database.

    ``find`` answers None for what it leaves to the portable gate: a text with a letter that this
    engine cannot fold, and a moment in which another thread uses the scratch space.
    """

    def __init__(self, package: Any, database: Any) -> None:
        self._database = database
        self._scratch = package.Scratch(database)
        database.scratch = self._scratch
        self._lock = threading.Lock()

    def find(self, text: str, data: bytes) -> list[Event] | None:
        """What may stand in the text, which is ``data`` in UTF-8: nothing else does."""
        if _KELVIN in text:
            return None
        if not self._lock.acquire(blocking=False):
            return None
        events: list[Event] = []
        try:
            self._database.scan(data, match_event_handler=_note, context=events)
        finally:
            self._lock.release()
        return events


def _note(number: int, _start: int, end: int, _flags: int, context: list[Event]) -> None:
    context.append((number, end))


def _package() -> Any | None:
    try:
        return importlib.import_module("hyperscan")
    except ImportError:
        return None


def is_available() -> bool:
    """Whether the optional package is installed and runs on this processor."""
    return _package() is not None


def database_key(content: Content) -> bytes:
    """32 bytes that change with the rules, the package and the processor."""
    package = _package()
    version = getattr(package, "__version__", "") if package is not None else ""
    described = repr((RULESET_VERSION, content, version, _processor()))
    return hashlib.sha256(described.encode()).digest()


def _processor() -> str:
    """What the package says of itself and the processor features it builds for."""
    package = _package()
    if package is None:
        return ""
    probe = package.Database(mode=package.HS_MODE_BLOCK)
    probe.compile(expressions=[b"probe"], ids=[0], elements=1, flags=[0])
    return repr(probe.info()) + platform.machine()


def compile_database(content: Content) -> bytes:
    """The serialised database with its key and digest; takes seconds. Needs the package."""
    package = _package()
    if package is None:
        raise RuntimeError("hyperscan is not installed")
    expressions, numbers, flags = _expressions(package, content)
    database = package.Database(mode=package.HS_MODE_BLOCK)
    database.compile(
        expressions=expressions,
        ids=numbers,
        elements=len(expressions),
        flags=flags,
    )
    body: bytes = package.dumpb(database)
    return _MAGIC + database_key(content) + hashlib.sha256(body).digest() + body


def load_database(data: bytes, content: Content) -> NativeGate | None:
    """The gate of a serialised database; None if it is not one of these rules and this machine."""
    package = _package()
    head = len(_MAGIC) + 2 * _DIGEST_BYTES
    if package is None or len(data) <= head or not data.startswith(_MAGIC):
        return None
    key = data[len(_MAGIC) : len(_MAGIC) + _DIGEST_BYTES]
    digest, body = data[len(_MAGIC) + _DIGEST_BYTES : head], data[head:]
    if key != database_key(content) or digest != hashlib.sha256(body).digest():
        return None
    try:
        return NativeGate(package, package.loadb(body, package.HS_MODE_BLOCK))
    except package.HyperscanError:
        return None


def _expressions(package: Any, content: Content) -> tuple[list[bytes], list[int], list[int]]:
    expressions: list[bytes] = []
    numbers = list(range(len(content.rules)))
    everywhere: set[int] = set()
    for rule in content.rules:
        if COUNTS_CHARACTERS.search(rule.pattern):
            # a pattern that ignores case, counts characters of any kind or goes on over a comma,
            # which may be written wide: its literals decide
            literals = b"|".join(_quoted(anchor) for anchor in rule.anchors)
            expressions.append(b"(?i:" + literals + b")")
        else:
            expressions.append(rule.pattern.encode())
    first = len(content.rules)
    foreign = "".join(anchor for anchor in content.anchors if not anchor.isascii())
    forms = _forms_of({character for character in foreign if not character.isascii()})
    for number, anchor in enumerate(content.anchors):
        if content.wanted[number]:
            if content.whole[number]:
                expressions.append(label_places.expression(anchor))
            elif content.written[number]:
                expressions.append(_quoted(anchor))
            else:
                folded = b"".join(forms.get(c) or _quoted(c) for c in anchor)
                expressions.append(b"(?i:" + folded + b")")
            numbers.append(first + number)
            if content.placed[number]:
                everywhere.add(first + number)
    for number, (_, pattern) in enumerate(content.triggers, first + len(content.anchors)):
        expressions.append(pattern.encode())
        numbers.append(number)
    flags = [
        package.HS_FLAG_DOTALL | (0 if number in everywhere else package.HS_FLAG_SINGLEMATCH)
        for number in numbers
    ]
    return expressions, numbers, flags


COUNTS_CHARACTERS: Final = re.compile(r"\(\?i|\[\^|\\[WDSwds]|!-~|,(?!\d*\})")


def _forms_of(characters: Set[str]) -> dict[str, bytes]:
    """For each character the UTF-8 forms of all that are it in lower case, as one expression."""
    known: dict[str, list[str]] = {character: [character] for character in characters}
    for code in range(sys.maxunicode + 1):
        lowered = chr(code).lower()
        if lowered in known and lowered != chr(code):
            known[lowered].append(chr(code))
    return {
        character: b"(?:" + b"|".join(_quoted(form) for form in forms) + b")"
        for character, forms in known.items()
    }


def _quoted(literal: str) -> bytes:
    return b"".join(
        bytes((byte,)) if chr(byte).isalnum() and byte < 128 else b"\\x%02x" % byte
        for byte in literal.encode()
    )
