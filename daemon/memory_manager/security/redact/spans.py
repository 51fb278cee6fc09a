"""Uniting overlapping hits and writing the marks. Contract: redaction.md 7."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from memory_manager.security.redact.ids import mark
from memory_manager.security.redact.result import Severity, severity_rank
from memory_manager.security.redact.rule import Hit

_ESCAPED: Final = tuple('"/\\bfnrtu')


def unite(hits: Iterable[Hit]) -> list[Hit]:
    """Disjoint hits in text order; an overlap takes the id of its most telling member.

    Severity decides first, then how specific the rule is, then length, then the id, so that the
    result does not depend on the order in which the hits were found.
    """
    ordered = sorted(hits, key=lambda hit: (hit.start, hit.end))
    united: list[Hit] = []
    group: list[Hit] = []
    end = -1
    for hit in ordered:
        if hit.end <= hit.start:
            continue
        if group and hit.start >= end:
            united.append(_merged(group, end))
            group = []
            end = -1
        group.append(hit)
        end = max(end, hit.end)
    if group:
        united.append(_merged(group, end))
    return united


def _merged(group: Sequence[Hit], end: int) -> Hit:
    best = min(
        group,
        key=lambda hit: (
            severity_rank(hit.severity),
            -hit.specificity,
            -(hit.end - hit.start),
            hit.rule,
        ),
    )
    bare = any(hit.bare_token for hit in group)
    return Hit(group[0].start, end, best.rule, best.severity, best.specificity, bare)


def cut(text: str, hits: Sequence[Hit]) -> str:
    """The text with every (disjoint, ordered) hit replaced by its mark.

    An edge inside an escape such as ``\\n`` or ``\\u202e`` moves by its backslash, so that JSON in
    a text stays JSON.
    """
    parts: list[str] = []
    position = 0
    for hit in hits:
        start = hit.start - _splits_escape(text, hit.start)
        parts.append(text[position : max(start, position)])
        parts.append(mark(hit.rule, bare=hit.bare_token))
        position = hit.end - _splits_escape(text, hit.end)
    parts.append(text[position:])
    return "".join(parts)


def _splits_escape(text: str, at: int) -> bool:
    """Whether the character at ``at`` is escaped by a backslash that is not escaped itself."""
    if text[at : at + 1] not in _ESCAPED or text[at - 1 : at] != "\\":
        return False
    backslashes = at - len(text[:at].rstrip("\\"))
    return backslashes % 2 == 1


def found_rules(hits: Iterable[Hit]) -> list[tuple[str, Severity]]:
    """(rule, severity) of each hit, for counting."""
    return [(hit.rule, hit.severity) for hit in hits]
