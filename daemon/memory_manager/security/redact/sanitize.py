"""Cleaning one text: scan, cut, and scan again until nothing is found.

Contract: redaction.md 2, 7.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from memory_manager.security.errors import SanitizerFailed
from memory_manager.security.redact.contact import contact_details
from memory_manager.security.redact.engine import (
    MIN_CHARACTERS,
    Budget,
    OverBudgetError,
    scan,
)
from memory_manager.security.redact.identity_numbers import identity_numbers
from memory_manager.security.redact.ids import OVERSIZE, mark, marks_in
from memory_manager.security.redact.labels import Family
from memory_manager.security.redact.result import SanitizeResult, Severity, count_rules
from memory_manager.security.redact.rule import Hit
from memory_manager.security.redact.spans import cut, found_rules, unite
from memory_manager.security.redact.values import is_secret_value

MAX_ROUNDS: Final = 6
SEGMENT_STEPS: Final = 500  # what a stretch between two marks costs beside its length

Found = list[tuple[str, Severity]]


@dataclasses.dataclass(frozen=True, slots=True)
class Personal:
    """Which of the owner's own data goes too; nothing unless the owner asked for it."""

    contact: bool = False
    identity_numbers: bool = False
    phone_region: str | None = None  # ISO 3166-1 alpha-2: numbers dialled there without +


KEEP_PERSONAL: Final = Personal()


def sanitize_server_write(text: str, *, redact_contact_pii: bool = False) -> SanitizeResult:
    """The cleaned text and which rules fired, how often.

    Credentials go always, contact data only with the flag. Raises TypeError for anything but a str
    and SanitizerFailed if the text could not be checked; neither carries any part of it.
    """
    _require_text(text)
    personal = Personal(contact=True) if redact_contact_pii else KEEP_PERSONAL
    clean, found = clean_text(text, personal=personal)
    if not found:
        return SanitizeResult(text, False, ())
    return SanitizeResult(clean, clean is not text, count_rules(found))


def _require_text(text: Any) -> None:
    if not isinstance(text, str):
        raise TypeError("the sanitizer needs a str")


def clean_text(
    text: str,
    *,
    personal: Personal = KEEP_PERSONAL,
    family: Family = Family.NONE,
    sure: bool = False,
) -> tuple[str, Found]:
    """The same for one leaf whose key says ``family``; the same object if nothing changed."""
    if len(text) < MIN_CHARACTERS and family is Family.NONE and personal == KEEP_PERSONAL:
        return text, []
    failed = False
    try:
        return _clean(text, personal, family, sure)
    except OverBudgetError:
        return mark(OVERSIZE), [(OVERSIZE, Severity.CREDENTIAL)]
    except Exception:
        failed = True
    # raised outside the handler, so that the error holds no context with the text in its frames
    if failed:
        raise SanitizerFailed
    return text, []


def _clean(text: str, personal: Personal, family: Family, sure: bool) -> tuple[str, Found]:
    found: Found = []
    budget = Budget()
    current = text
    for _ in range(MAX_ROUNDS):
        hits = _hits(current, budget, personal, family, sure)
        if not hits:
            return current, found
        found += found_rules(hits)
        current = cut(current, hits)
    # a text that keeps producing findings is not worth the risk
    return mark(OVERSIZE), [*found, (OVERSIZE, Severity.CREDENTIAL)]


def _hits(text: str, budget: Budget, personal: Personal, family: Family, sure: bool) -> list[Hit]:
    """United hits of all stretches between marks."""
    barriers = marks_in(text)
    if not barriers:
        found = _segment_hits(text, budget, personal, family, sure)
        return unite(found) if found else found
    hits: list[Hit] = []
    position = 0
    known: dict[str, list[Hit]] = {}
    for start, end in [*barriers, (len(text), len(text))]:
        segment = text[position:start]
        inside = known.get(segment)
        if inside is None:
            budget.charge(SEGMENT_STEPS)
            inside = unite(_segment_hits(segment, budget, personal, family, sure))
            known[segment] = inside
        hits += [
            Hit(
                hit.start + position,
                hit.end + position,
                hit.rule,
                hit.severity,
                hit.specificity,
                hit.bare_token,
            )
            for hit in inside
        ]
        position = end
    return hits


def _segment_hits(
    segment: str, budget: Budget, personal: Personal, family: Family, sure: bool
) -> list[Hit]:
    hits: list[Hit] = []
    if len(segment) >= MIN_CHARACTERS:
        hits = scan(segment, budget)
    if personal.contact and segment:
        hits += contact_details(segment, personal.phone_region)
    if personal.identity_numbers and segment:
        hits += identity_numbers(segment)
    if family is not Family.NONE:
        value = segment.strip()
        if value and is_secret_value(value, family, quoted=True, tight=True, sure=sure):
            start = segment.index(value)
            hits.append(Hit(start, start + len(value), "labelled-secret", Severity.CREDENTIAL, 0))
    return hits
