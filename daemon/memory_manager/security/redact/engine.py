"""Scanning one text with all rules in all views at bounded cost. Contract: redaction.md 5, 6.

The gate of either tier says where anchors stand; every rule is evaluated there only and inside its
window. A step budget, not a clock, bounds the cost.
"""

from __future__ import annotations

import base64
import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from memory_manager.security.redact import (
    carriers,
    commands,
    credential_files,
    key_material,
    stated,
    views,
)
from memory_manager.security.redact.anchors import Found, find_anchors
from memory_manager.security.redact.labelled import labelled_secrets
from memory_manager.security.redact.late import late
from memory_manager.security.redact.marking import marked, marked_runs, runs, utf8
from memory_manager.security.redact.placeholders import is_filled_body, is_placeholder
from memory_manager.security.redact.result import Severity, severity_rank
from memory_manager.security.redact.rule import Hit, Rule
from memory_manager.security.redact.triggers import Trigger
from memory_manager.security.redact.validators import VALIDATORS

MIN_CHARACTERS: Final = 8
MAX_STEPS: Final = 4_000_000
MAX_DECODING_DEPTH: Final = 2
MIN_CODED_RUN: Final = 20
MIN_HEX_RUN: Final = 32
MIN_KEY_RUN: Final = 30
MIN_LINE: Final = 60
MAX_JUDGED: Final = 96
_OF_THE_BODY: Final = frozenset({"secret_key_body", "random_body", "mixed", "mixed_digits"})

_BASE64_RUN: Final = late(r"[A-Za-z0-9+/_-]{20,}={0,2}")
# base64 as mail and `base64` write it, lines of one width
_BASE64_LINES: Final = late(
    r"(?<![0-9A-Za-z+/=])[A-Za-z0-9+/]{60,76}(?:\r?\n[ \t>|#*-]{0,8}[A-Za-z0-9+/]{60,76})*"
    r"\r?\n[ \t>|#*-]{0,8}[A-Za-z0-9+/]{1,76}={0,2}(?![0-9A-Za-z+/=])"
)
# two groups of four that stand for three characters of text each, as in every encoded secret
_QUAD: Final = "[CDI-Za-f][C-HS-Xi-nyz0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]"
_QUADS: Final = late(_QUAD * 2)
_LONG_HEX: Final = late(r"[0-9a-fA-F]{32}")
_LINE_START: Final = late(r"\r?\n[ \t>|#*-]{0,8}")
_HEX_RUN: Final = late(r"(?:[0-9a-fA-F]{2}){16,}")
_TOKEN_RUN: Final = late(r"[0-9A-Za-z_-]*")
_PRINTABLE: Final = late(r"[\t\n\r\x20-\x7e\u00a0-\uffff]*")


class OverBudgetError(Exception):
    """The text asks for more steps than one string may cost."""


class Budget:
    """Counts the characters that verification may look at for one string."""

    def __init__(self, steps: int = MAX_STEPS) -> None:
        self._left = steps

    def charge(self, steps: int) -> None:
        self._left -= steps
        if self._left < 0:
            raise OverBudgetError


@functools.cache
def _compiled(rule: Rule) -> re.Pattern[str]:
    # compiled at the first anchor hit: a start pays only for what it meets
    return re.compile(rule.pattern)


def scan(text: str, budget: Budget) -> list[Hit]:
    """Hits in all views of one text without marks, as raw spans; may overlap."""
    data = utf8(text)
    found = find_anchors(text, data)
    marks = marked(data)
    spans = marked_runs(marks)
    hits = scan_view(text, budget, spans, found)
    escaped = views.may_be_escaped(data)
    # in a text without literals and escapes nobody reads commas
    folded = views.normalised(text, data, marks, commas=escaped or not found.is_nothing)
    base = text
    if folded is not None:
        base = folded.text
        if not folded.only_commas:
            hits += _mapped(folded, scan_view(base, budget))
        else:
            # no key without a literal holds a comma: their runs are those of the text itself
            longer = None if found.has_vendors else ()
            hits += _mapped(folded, scan_view(base, budget, longer, found.on(base)))
    if escaped or folded is not None:
        hits += _unescaped_hits(base, budget, folded)
    together = views.joined(text, spans, marks, breaks=found.may(Trigger.BREAKS))
    if together is not None:
        for hit in vendor_hits(together.text, find_anchors(together.text), budget):
            # a joined word in front would make any token look prefixed
            if hit.rule != "prefixed-token" and together.crosses_edit(hit.start, hit.end):
                hits += _mapped(together, (hit,))
    stretches = _coded_stretches(text, spans)
    if stretches:
        hits += _decoded_hits(text, budget, 0, stretches)
    return hits


def _unescaped_hits(base: str, budget: Budget, folded: views.View | None) -> list[Hit]:
    """Hits in the readings in which escapes are decoded."""
    hits: list[Hit] = []
    decoded = views.unescaped(base)
    if decoded is not None:
        view, left = decoded
        inner = list(_mapped(view, scan_view(view.text, budget)))
        inner += [Hit(*span, "encoded-secret", Severity.CREDENTIAL, 0) for span in left]
        hits += inner if folded is None else _mapped(folded, inner)
    if "+" in base and views.FORM_PLUS.search(base):
        hits += _form_hits(base, budget, folded)
    return hits


def _form_hits(base: str, budget: Budget, folded: views.View | None) -> list[Hit]:
    """Hits in the reading of a form or query, where a plus stands for a blank."""
    plain = views.View(
        base, [(at, at + 1, " ") for at, character in enumerate(base) if character == "+"]
    )
    decoded = views.unescaped(plain.text)
    text = plain.text if decoded is None else decoded[0].text
    found = [hit for hit in scan_view(text, budget) if hit.severity is Severity.HIGH_RISK]
    if decoded is not None:
        found = _mapped(decoded[0], found)
    mapped = _mapped(plain, found)
    return mapped if folded is None else _mapped(folded, mapped)


def scan_view(
    text: str,
    budget: Budget,
    spans: Sequence[tuple[int, int]] | None = None,
    found: Found | None = None,
) -> list[Hit]:
    """Hits of every rule and reader on one reading of the text."""
    budget.charge(len(text))
    if found is None:
        found = find_anchors(text)
    if spans is None:
        spans = runs(text)
    hits = _keys_in_runs(text, spans)
    if found.is_nothing:
        return hits
    if found.has_vendors:
        hits += _anchored_hits(text, found, budget, spans)
    if found.may(Trigger.WORDS):
        hits += key_material.seed_phrases(text)
    # one character is looked for much faster than three
    if found.may(Trigger.USERINFO) and ":" in text and "://" in text:
        hits += carriers.url_userinfo(text)
    if found.may(Trigger.PGPASS) and text.count(":") >= credential_files.PGPASS_COLONS:
        hits += credential_files.pgpass_lines(text)
    if found.seen:
        hits += _read(text, budget, found)
    return hits


def _read(text: str, budget: Budget, found: Found) -> Iterator[Hit]:
    """Hits of the readers that ask for literals."""
    seen = found.seen
    if not seen.isdisjoint(key_material.HINTS):
        yield from key_material.armoured_blocks(text, seen)
        yield from key_material.jwk_members(text, seen)
    if not seen.isdisjoint(key_material.CODES_HINTS):
        yield from key_material.recovery_codes(found.lowered)
    yield from labelled_secrets(text, found.labels(), budget.charge)
    if not seen.isdisjoint(credential_files.STARTERS):
        yield from credential_files.credential_files(text, seen)
    if not seen.isdisjoint(carriers.STARTERS):
        yield from carriers.authorization(text, seen)
        yield from carriers.cookies(text, seen)
    if not seen.isdisjoint(stated.STARTERS):
        yield from stated.stated_secrets(text, seen)
    if not seen.isdisjoint(commands.STARTERS):
        yield from commands.command_lines(text, seen)


def scan_self_identifying(text: str, budget: Budget) -> Iterator[Hit]:
    """Only what needs no context: vendor shapes, key blocks, and labels that leave no doubt."""
    budget.charge(len(text))
    found = find_anchors(text)
    yield from vendor_hits(text, found, budget)
    yield from key_material.armoured_blocks(text, found.seen)
    if found.may(Trigger.WORDS):
        yield from key_material.seed_phrases(text)
    yield from labelled_secrets(text, found.labels(), budget.charge, strict=True)
    if found.may(Trigger.USERINFO) and "://" in text:
        yield from carriers.url_userinfo(text)


def vendor_hits(text: str, found: Found, budget: Budget) -> Iterator[Hit]:
    """The registry, evaluated at anchors inside long runs, and keys without an anchor."""
    spans = runs(text)
    yield from _keys_in_runs(text, spans)
    if found.has_vendors:
        yield from _anchored_hits(text, found, budget, spans)


def _keys_in_runs(text: str, spans: Iterable[tuple[int, int]]) -> list[Hit]:
    """Keys without a literal. All of them hold capitals, so a path or an address in small letters
    is passed over.
    """
    return [
        hit
        for start, end in spans
        if end - start >= MIN_KEY_RUN and not text[start:end].islower()
        for hit in key_material.long_run_keys(text, start, end)
    ]


def _anchored_hits(
    text: str, found: Found, budget: Budget, stretches: Sequence[tuple[int, int]]
) -> Iterator[Hit]:
    if not stretches:
        return
    covered: dict[str, int] = {}
    index = 0
    for position, anchor, rules in found.vendors():
        while index < len(stretches) and stretches[index][1] <= position:
            index += 1
        if index == len(stretches):
            break
        start, end = stretches[index]
        if position < start or position + len(anchor) > end:
            continue
        if anchor == "eyj":
            if position < covered.get(anchor, -1):
                continue
            run = _TOKEN_RUN.match(text, position)
            covered[anchor] = run.end() if run is not None else position
        for rule in rules:
            if position < covered.get(rule.pattern, -1):
                continue
            hit = _evaluate(rule, text, position, start, end, budget)
            if hit is not None:
                covered[rule.pattern] = hit.end
                yield hit
                if hit.rule == "aws-access-key-id":
                    yield from key_material.aws_secrets_near(text, hit.start, hit.end)


def _evaluate(
    rule: Rule, text: str, position: int, run_start: int, run_end: int, budget: Budget
) -> Hit | None:
    pattern = _compiled(rule)
    limit = min(position + rule.window, run_end)
    if rule.lead:
        low = max(run_start, position - rule.lead)
        found = pattern.search(text, low, limit)
        budget.charge(limit - low)
    else:
        found = pattern.match(text, position, limit)
        budget.charge((found.end() if found is not None else limit) - position)
    if found is None:
        return None
    start, end = found.span(rule.group)
    cut = found.end() == limit and limit < run_end
    if rule.validator is not None:
        if cut and rule.validator.startswith("edges"):
            return None  # the shape does not stand on its own, it goes on
        # the beginning of a body tells; the edges are asked about where it ends
        judged = min(end, start + MAX_JUDGED) if rule.validator in _OF_THE_BODY else end
        if not VALIDATORS[rule.validator](text, start, judged):
            return None
    if cut:
        # the window cut the body: it goes on while its kind of character does
        tail = _TOKEN_RUN.match(text, limit, run_end)
        if tail is not None and end == limit:
            budget.charge(tail.end() - limit)
            end = tail.end()
    if is_placeholder(text[start:end]) or _is_fill(rule, text, start, end, position):
        return None
    return Hit(start, end, rule.id, rule.severity, 2, rule.bare_token)


def _is_fill(rule: Rule, text: str, start: int, end: int, position: int) -> bool:
    """``ghp_xxxx``: a prefix with fill instead of a body; for rules anchored at their prefix."""
    if rule.group or rule.lead or start != position:
        return False
    prefix = max((a for a in rule.anchors if text[start:end].lower().startswith(a)), key=len)
    return is_filled_body(text[start + len(prefix) : end])


def _mapped(view: views.View, hits: Iterable[Hit]) -> list[Hit]:
    result: list[Hit] = []
    for hit in hits:
        if hit.end > hit.start:
            start, end = view.raw_span(hit.start, hit.end)
            result.append(Hit(start, end, hit.rule, hit.severity, hit.specificity, hit.bare_token))
    return result


def encoded_hits(
    text: str, budget: Budget, depth: int, spans: Iterable[tuple[int, int]]
) -> Iterator[Hit]:
    """Base64 and hex runs whose decoded text holds a secret; the whole run is removed."""
    stretches = _coded_stretches(text, spans)
    if stretches:
        yield from _decoded_hits(text, budget, depth, stretches)


def _coded_stretches(text: str, spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    return [
        (start, end)
        for start, end in spans
        if end - start >= MIN_CODED_RUN
        # letters of one case are passed over as early as can be: most runs are names
        and (not (run := text[start:end]).islower() or end - start >= MIN_HEX_RUN)
        and _may_be_coded(run)
    ]


def _decoded_hits(
    text: str, budget: Budget, depth: int, stretches: Sequence[tuple[int, int]]
) -> Iterator[Hit]:
    wrapped: set[tuple[int, int]] = set()
    if "\n" in text and any(end - start >= MIN_LINE for start, end in stretches):
        wrapped.update(found.span() for found in _BASE64_LINES.finditer(text))
    for start, end in [*sorted(wrapped), *stretches]:
        whole = (start, end) in wrapped
        for found in (_BASE64_LINES if whole else _BASE64_RUN).finditer(text, start, end):
            run = _LINE_START.sub("", found[0]) if whole else found[0]
            decoded = _from_base64(run) if _QUADS.search(found[0]) else None
            if decoded is None and _HEX_RUN.fullmatch(found[0].strip("_-")):
                decoded = _from_hex(found[0].strip("_-"))
            if decoded is None:
                continue
            budget.charge(len(decoded))
            inner = list(scan_self_identifying(decoded, budget))
            if not inner:
                inner += [h for h in scan_view(decoded, budget) if h.severity is Severity.HIGH_RISK]
            if depth + 1 < MAX_DECODING_DEPTH:
                inner += encoded_hits(decoded, budget, depth + 1, runs(decoded))
            if inner:
                worst = min(
                    inner,
                    key=lambda hit: (
                        severity_rank(hit.severity),
                        -hit.specificity,
                        hit.rule,
                    ),
                )
                yield Hit(*found.span(), worst.rule, worst.severity, worst.specificity)


def _may_be_coded(run: str) -> bool:
    """Whether a run may hold text in base64, which has letters of both cases, or in hex."""
    if not (run.islower() or run.isupper()) and _QUADS.search(run) is not None:
        return True
    return len(run) >= MIN_HEX_RUN and _LONG_HEX.search(run) is not None


def _from_base64(run: str) -> str | None:
    body = run.rstrip("=").replace("-", "+").replace("_", "/")
    if len(body) % 4 == 1:
        body = body[:-1]
    try:
        raw = base64.b64decode(body + "=" * (-len(body) % 4))
        return _printable(raw)
    except ValueError:
        return None


def _from_hex(run: str) -> str | None:
    try:
        return _printable(bytes.fromhex(run[: len(run) // 2 * 2]))
    except ValueError:
        return None


def _printable(raw: bytes) -> str | None:
    decoded = raw.decode("utf-8")
    return decoded if _PRINTABLE.fullmatch(decoded) else None
