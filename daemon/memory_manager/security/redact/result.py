"""What the sanitizer answers: cleaned values and counts of rules, never anything of a removed
value.

Contract: redaction.md 2.1, 2.3.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable
from typing import Any


class Severity(enum.StrEnum):
    """Ordered from the worst; the order decides which id an overlap gets."""

    HIGH_RISK = "high_risk"
    CREDENTIAL = "credential"
    CONTACT_PII = "contact_pii"


_ORDER = {severity: position for position, severity in enumerate(Severity)}


def severity_rank(severity: Severity) -> int:
    """0 for the worst."""
    return _ORDER[severity]


@dataclasses.dataclass(frozen=True, slots=True)
class Redaction:
    """One rule of the closed list and how many spans it removed."""

    rule: str
    severity: Severity
    count: int

    def as_json(self) -> dict[str, str | int]:
        return {"rule": self.rule, "severity": self.severity.value, "count": self.count}


@dataclasses.dataclass(frozen=True, slots=True)
class FieldRedaction:
    """The same for a row; ``field`` is the dotted path of the value, itself sanitized."""

    rule: str
    severity: Severity
    count: int
    field: str

    def as_json(self) -> dict[str, str | int]:
        return {
            "rule": self.rule,
            "severity": self.severity.value,
            "count": self.count,
            "field": self.field,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class SanitizeResult:
    """One cleaned text; ``text`` is the very input object when nothing changed."""

    text: str = dataclasses.field(repr=False)
    applied: bool
    redactions: tuple[Redaction, ...]

    @property
    def high_risk(self) -> bool:
        """Whether agent capture must skip the whole event."""
        return any(entry.severity is Severity.HIGH_RISK for entry in self.redactions)

    def as_json(self) -> list[dict[str, str | int]]:
        """The redactions only; the text travels on its own."""
        return [entry.as_json() for entry in self.redactions]


@dataclasses.dataclass(frozen=True, slots=True)
class RowResult:
    """One cleaned row with the same keys as the input, and what was removed where."""

    row: dict[str, Any] = dataclasses.field(repr=False)
    redactions: tuple[FieldRedaction, ...]
    high_risk: bool
    applied: bool

    @property
    def rules(self) -> tuple[str, ...]:
        """Distinct rule ids, worst severity first: the short form that is stored on a row."""
        seen: dict[str, None] = {}
        for entry in sorted(self.redactions, key=lambda e: (severity_rank(e.severity), e.rule)):
            seen.setdefault(entry.rule)
        return tuple(seen)


def count_rules(found: Iterable[tuple[str, Severity]]) -> tuple[Redaction, ...]:
    """Group (rule, severity) pairs in the documented order: severity, then rule id."""
    counts: dict[tuple[str, Severity], int] = {}
    for rule, severity in found:
        counts[rule, severity] = counts.get((rule, severity), 0) + 1
    ordered = sorted(counts.items(), key=lambda item: (_ORDER[item[0][1]], item[0][0]))
    return tuple(Redaction(rule, severity, count) for (rule, severity), count in ordered)
