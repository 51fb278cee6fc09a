"""Random values from written shapes, samples, and the measure of what survived (redaction.md 15.2).

A shape is a line of text: ``{w:20}`` draws 20 characters of the alphabet ``w``, ``{w:20..40}`` a
random length, ``<a/b/c>`` one of the choices, ``|`` nothing (it splits a prefix, so that no
scanner of this repository takes it for a token). ``‹...›`` marks a secret, ``«...»`` what must
survive. Without ``‹›`` every drawn part of eight or more characters is a secret.
"""

from __future__ import annotations

import dataclasses
import random
import re
import string
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "w": string.ascii_letters + string.digits + "_-",
    "h": "0123456789abcdef",
    "H": "0123456789ABCDEF",
    "d": string.digits,
    "u": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase + string.digits,
    "c": string.ascii_lowercase,
    "C": string.ascii_uppercase,
    "L": string.ascii_letters,
    "b": string.ascii_letters + string.digits + "+/",
    "3": string.ascii_uppercase + "234567",
    "5": "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz",
    "z": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
}
SMALLEST_CORE = 8
_PART = re.compile(r"\{(\w+)(?::(\d+)(?:\.\.(\d+))?)?\}|<([\w.+$-]+(?:/[\w.+$-]+)+)>|([‹›«»|])")


@dataclasses.dataclass(frozen=True, slots=True)
class Value:
    """A drawn text, the secret parts of it and the parts that must survive."""

    text: str
    secrets: tuple[str, ...]
    keep: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Sample:
    """One text to clean: what must be gone, what must stay, and where it came from."""

    text: str
    secrets: tuple[str, ...]
    keep: tuple[str, ...]
    severity: str  # high_risk or credential
    family: str
    template: str


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """A kind of secret: a family to report under, a name, and how one is drawn."""

    family: str
    name: str
    draw: Callable[[Draw], Value]
    severity: str = "credential"


SYLLABLES = (
    "ba ko ri tu me sha lo qui ven dor mi pra zel fa nok gri wu thi ka jo rem sul pe vix ond"
).split()
WORDS = (
    "autumn winter kestrel quartz harbor velvet copper lantern meadow orchid pebble thunder "
    "saffron glacier walnut ember falcon juniper marble nimbus"
).split()


class Draw:
    """Random parts of one seeded stream."""

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)

    def of(self, kind: str, size: int) -> str:
        """``size`` characters; a digit and a letter are among twelve or more where both can be."""
        alphabet = ALPHABETS[kind]
        while True:
            body = "".join(self.random.choice(alphabet) for _ in range(size))
            mixed = any(c.isdigit() for c in alphabet) and any(c.isalpha() for c in alphabet)
            if size < 12 or not mixed:
                return body
            if any(c.isdigit() for c in body) and any(c.isalpha() for c in body):
                return body

    def pick(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def uuid(self) -> str:
        raw = self.of("h", 32)
        third = self.pick(("8", "9", "a", "b")) + raw[17:20]
        return f"{raw[:8]}-{raw[8:12]}-4{raw[13:16]}-{third}-{raw[20:]}"

    def password(self) -> str:
        """What people and password tools choose, eight or more characters."""
        style = self.random.randrange(10)
        symbol = self.pick(tuple("!#%-_.@$*+/^"))
        number = str(self.random.randrange(10, 9999))
        word = self.pick(WORDS)
        if style == 0:
            return word.capitalize() + symbol + number + self.of("a", 3)
        if style == 1:
            return word + number + symbol + self.pick(WORDS)
        if style == 2:
            return self.of("a", self.random.randrange(12, 24))
        if style == 3:
            return "".join(self.pick(SYLLABLES) for _ in range(5)).capitalize() + number
        if style == 4:
            return self.of("b", 10) + symbol + self.of("b", 6) + number
        if style == 5:
            body = list(self.of("a", 12) + "#!%9")
            self.random.shuffle(body)
            return "x" + "".join(body)
        if style == 6:
            return "-".join(self.pick(WORDS) for _ in range(4)) + number
        if style == 7:
            return f"{word.capitalize()}_{number}"
        if style == 8:
            return f"{word.title()}.{self.pick(WORDS).title()}{number}"
        return word.replace("a", "4").replace("e", "3").title() + number + symbol + self.of("l", 4)

    def value(self, shape: str) -> Value:
        """A text of the written shape; see the module's docstring."""
        out: list[str] = []
        drawn: list[str] = []
        marks: dict[str, list[str]] = {"‹": [], "«": []}
        started: dict[str, int] = {}
        at = 0
        for part in _PART.finditer(shape):
            out.append(shape[at : part.start()])
            at = part.end()
            kind, low, high, choice, mark = part.groups()
            if mark in ("‹", "«"):
                started[mark] = len("".join(out))
            elif mark in ("›", "»"):
                opened = "‹" if mark == "›" else "«"
                marks[opened].append("".join(out)[started[opened] :])
            elif choice is not None:
                out.append(self.pick(choice.split("/")))
            elif kind:
                piece = self._piece(kind, int(low or 0), int(high or low or 0))
                out.append(piece)
                drawn.append(piece)
        text = "".join(out) + shape[at:]
        secrets = marks["‹"] or [piece for piece in drawn if len(piece) >= SMALLEST_CORE]
        return Value(text, tuple(secrets), tuple(marks["«"]))

    def _piece(self, kind: str, low: int, high: int) -> str:
        if kind == "uuid":
            return self.uuid()
        if kind == "pw":
            return self.password()
        return self.of(kind, self.random.randint(low, high))


def shapes(table: str, severity: str = "credential", prefix: str = "") -> list[Shape]:
    """Shapes of a table: a line each, ``family name: written shape``; ``#`` starts a remark."""
    found: list[Shape] = []
    for line in table.strip().splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        title, written = line.strip().split(": ", 1)
        family, _, name = title.partition(" ")
        found.append(Shape(prefix + family, f"{family}-{name}", _drawer(written), severity))
    return found


def _drawer(written: str) -> Callable[[Draw], Value]:
    return lambda draw: draw.value(written)


def survives(secret: str, output: str) -> bool:
    """Whether a usable part of ``secret`` is in ``output``.

    That is a common substring of max(6, a quarter) characters, or of max(4, n - 3) in a secret
    of under ten.
    """
    size = len(secret)
    bound = max(6, -(-size // 4)) if size >= 10 else max(4, size - 3)
    if size < bound:
        return secret in output
    return any(secret[at : at + bound] in output for at in range(size - bound + 1))


def remains(sample: Sample, output: str) -> tuple[str, ...]:
    """The secrets of ``sample`` of which a usable part is left in ``output``."""
    return tuple(secret for secret in sample.secrets if survives(secret, output))
