"""The native tier: Hyperscan looks for every rule and literal in one pass.

The package is optional. The compiled database takes seconds to build, so it is built once, in the
background, and handed in as bytes by whoever keeps the cache file: nothing is read or written
here. Until a database is loaded, and wherever the package is missing, the portable gate serves.
Both find the same: the native gate only says which rules cannot match.

Contract: redaction.md 5.1, 5.3.
"""

from __future__ import annotations

import bisect
import dataclasses
import hashlib
import importlib
import platform
import re
import threading
from collections.abc import Sequence
from typing import Any, Final

from memory_manager.security.redact.gate import Match
from memory_manager.security.redact.rule import Rule
from memory_manager.security.redact.ruleset import RULESET_VERSION

_MAGIC: Final = b"memlocket-rules-2\n"
_DIGEST_BYTES: Final = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Content:
    """What a database looks for; ``wanted`` says which anchors are needed beside their rules."""

    rules: Sequence[Rule]
    anchors: Sequence[str]
    wanted: Sequence[bool]
    triggers: Sequence[str]


class NativeGate:
    """A loaded database.

    ``find`` answers None for what it leaves to the portable gate: a text that is not ASCII, whose
    letters this engine cannot fold, and a moment in which another thread uses the scratch space.
    """

    def __init__(self, package: Any, database: Any, content: Content):
        self._package = package
        self._database = database
        self._scratch = package.Scratch(database)
        database.scratch = self._scratch
        self._lock = threading.Lock()
        self._rules = len(content.rules)
        self._anchors = content.anchors
        self._triggers = self._rules + len(content.anchors)
        number_of = {anchor: number for number, anchor in enumerate(content.anchors)}
        self._of_rule = tuple(
            tuple(number_of[anchor] for anchor in rule.anchors) for rule in content.rules
        )

    def find(
        self, text: str, lowered: str
    ) -> tuple[list[Match], frozenset[int], frozenset[int]] | None:
        """Places of anchors, and the numbers of the rules and triggers that may match."""
        if not text.isascii() or not self._lock.acquire(blocking=False):
            return None
        ids: list[int] = []
        try:
            self._database.scan(text.encode(), match_event_handler=_note, context=ids)
        finally:
            self._lock.release()
        if not ids:
            return [], _NONE, _NONE
        first, last = self._rules, self._triggers
        ids.sort()
        low, high = bisect.bisect_left(ids, first), bisect.bisect_left(ids, last)
        rules = frozenset(ids[:low]) if low else _NONE
        triggers = frozenset([number - last for number in ids[high:]])
        wanted = {number - first for number in ids[low:high]}
        for number in rules:
            wanted.update(self._of_rule[number])
        found: list[tuple[int, int, int]] = []
        find = lowered.find
        for number in wanted:
            anchor = self._anchors[number]
            position = find(anchor)
            while position >= 0:
                found.append((position, -len(anchor), number))
                position = find(anchor, position + 1)
        found.sort()
        return [(position, number) for position, _, number in found], rules, triggers


_NONE: Final[frozenset[int]] = frozenset()


def _note(number: int, _start: int, _end: int, _flags: int, context: list[int]) -> None:
    context.append(number)


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
        return NativeGate(package, package.loadb(body, package.HS_MODE_BLOCK), content)
    except package.HyperscanError:
        return None


def _expressions(package: Any, content: Content) -> tuple[list[bytes], list[int], list[int]]:
    once = package.HS_FLAG_SINGLEMATCH | package.HS_FLAG_DOTALL
    expressions: list[bytes] = []
    flags: list[int] = []
    numbers = list(range(len(content.rules)))
    for rule in content.rules:
        if rule.lead or _CASELESS_PART.search(rule.pattern):
            # a pattern that begins before its literal or ignores case: its literals decide
            literals = b"|".join(_quoted(anchor) for anchor in rule.anchors)
            expressions.append(b"(?i:" + literals + b")")
            flags.append(once)
        else:
            expressions.append(rule.pattern.encode())
            flags.append(once)
    first = len(content.rules)
    for number, anchor in enumerate(content.anchors, first):
        # only ASCII texts are scanned
        if content.wanted[number - first] and anchor.isascii():
            expressions.append(_quoted(anchor))
            flags.append(once | package.HS_FLAG_CASELESS)
            numbers.append(number)
    for number, pattern in enumerate(content.triggers, first + len(content.anchors)):
        expressions.append(pattern.encode())
        flags.append(once)
        numbers.append(number)
    return expressions, numbers, flags


_CASELESS_PART: Final = re.compile(r"\(\?i")


def _quoted(literal: str) -> bytes:
    return b"".join(
        bytes((byte,)) if chr(byte).isalnum() and byte < 128 else b"\\x%02x" % byte
        for byte in literal.encode()
    )
