"""Judging a value that stands behind a label, by how it stands there.

Contract: redaction.md 4.3, 13.6.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from memory_manager.security.redact import nearby
from memory_manager.security.redact.label_rules import rule_for
from memory_manager.security.redact.labels import Family, classify
from memory_manager.security.redact.late import late
from memory_manager.security.redact.result import Severity
from memory_manager.security.redact.rule import Hit
from memory_manager.security.redact.value_reader import read_value
from memory_manager.security.redact.values import (
    is_common_password,
    is_key_like,
    is_secret_value,
    is_snake_case,
)

_ARGUMENT: Final = late(r"\w(?:=[\"']|\[)")
_ARGUMENT_NAMED: Final = late(r"[A-Za-z_]\w{1,30}=(?:[A-Za-z_][\w.]*|\d{0,4})")
_FILE_NAME: Final = late(r"\.[a-z]{1,5}$")
_HYPHENATED: Final = late(r"(?:[A-Za-z]{3,16}[-_.]){2,8}[A-Za-z]{0,16}[0-9]{2,8}")
# a value that nothing but a blank ties to its label must be beyond doubt
_STRONG: Final = late(
    r"(?=[^\s]*[0-9])(?=[^\s]*[a-z])(?=[^\s]*[A-Z!#$%^*])[^\s/()={}<>\[\]:,]{8,200}"
    r"|0x[0-9a-fA-F]{64}"
    r"|(?=(?:[^\s0-9]*[0-9]){3})(?=[^\s]*[a-z])(?=[^\s]*[A-Z])[A-Za-z0-9][A-Za-z0-9/+]{9,80}"
)
_CELL_END: Final = late(r"[\"'`]?[ \t]{0,64}(?:\||\n|$)")
_SENTENCE: Final = late(
    r"(?:options?|flags?|arguments?|args?|params?|parameters?|switch|switches|values?|and|or|is|are"
    r"|was|for|to|must|can|cannot|will|should|instead|with|without|if|in|as|on|when|from|the|a|an|may|it|that|which)"
)
# behind a value the sentence ends or a small word follows, not the noun that the value describes
_SENTENCE_GOES_ON: Final = late(
    r"[\"'`]?[.,;)!?]*(?:[ \t]*(?:\r?\n|\\n|$)"
    r"|[ \t]+(?:and|or|for|on|to|is|was|works|worked|with|in|at|as|when|if|then|but)\b)"
)
_TELLING: Final = late(r"[0-9!@#$%^&*+=~]")
ANCHOR_REACH: Final = 4096
# names a value for its uses further on, in YAML
_ANCHOR: Final = late(r"&[A-Za-z][\w-]{0,40}[ \t]{1,4}")
# what stands before it is compared or chosen by a program
_CONDITION: Final = late(
    r"[ \t]{1,2}(?:if[ \t][^\n]{1,80}?[ \t]else[ \t]|(?:[=!]={1,2}|\?\?|is (?:not )?None)[ \t])"
)
_AUTH_SCHEME: Final = late(
    r"(?:bearer|basic|token|apikey|api-key|ssws|bot|key|jwt|splunk|digest)[ \t]+",
    re.IGNORECASE,
)


def judge(
    text: str,
    label: str,
    label_start: int,
    position: int,
    family: Family,
    charge: Callable[[int], None],
    *,
    tight: bool,
    kind: str,
    multiline: bool = False,
) -> Hit | None:
    if family is Family.NONE:
        return None
    anchor = _ANCHOR.match(text, position) if text[position : position + 1] == "&" else None
    start, end, quoted = read_value(text, position if anchor is None else anchor.end())
    if end <= start:
        return None
    charge(end - start)
    value = text[start:end]
    if not quoted and (_CONDITION.match(text, end) is not None or _is_alias(text, start, value)):
        return None
    scheme = _AUTH_SCHEME.match(text, start)
    if scheme is not None and not value[: scheme.end() - scheme.start()].isspace():
        inner, inner_end, _ = (
            (scheme.end(), end, quoted) if quoted else read_value(text, scheme.end())
        )
        if inner_end > inner and family is not Family.PASSWORD:
            start, end = inner, inner_end
            value = text[start:end]
    # an environment line, `DB_PASSWORD=swordfish`, is no place for an identifier
    environment = label.isupper() and tight and family is Family.PASSWORD and len(value) >= 8
    if family is Family.WEAK and label.isupper() and tight and label.endswith("KEY"):
        family = Family.VENDOR  # `ACME_KEY=...`: an environment line hands out keys
    sure = kind in ("option", "set") or (environment and value.isalpha())
    if kind == "bare" and not _tells_alone(text, value, end, family):
        if not (quoted and _in_quotes(value, family)):
            return None
    if kind == "compare" and not (quoted or is_key_like(value) or nearby.is_beyond_doubt(value)):
        return None
    if kind == "cell" and _CELL_END.match(text, end) is None:
        return None
    if kind in ("bare", "prose") and quoted and _ARGUMENT_NAMED.fullmatch(value):
        return None  # Pass `dtype=float32` to ...
    if "](" in value or (kind == "xml" and text[end : end + 1] not in ("<", "]", "\n", "\r", "")):
        return None
    if kind == "paren" and not _in_parentheses(value):
        return None
    if kind == "option" and not quoted and (_SENTENCE.fullmatch(value) or _metavariable(value)):
        return None
    if label.lower() == "pass" and not (quoted or tight) and is_snake_case(value):
        return None  # what a test, or a step of a compiler, is called
    if kind == "set" and not quoted and classify(value) is Family.PASSWORD and value.isalpha():
        return None  # the login is called so: `login token password ...`
    if kind == "prose" and not quoted and _prose_word(value):
        return None
    if (
        sure
        and not environment
        and (value.startswith("-") or (kind == "set" and not quoted and _prose_word(value)))
    ):
        if not (kind == "set" and after_login(text, label_start) and value.isalnum()):
            return None
    if (
        multiline
        and (
            (not quoted and value.endswith(":"))
            # the end of a signature and the text below it
            or text[label_start + len(label) : label_start + len(label) + 1] == ")"
        )
    ):
        return None
    if not is_secret_value(value, family, quoted=quoted, tight=tight, sure=sure):
        return None
    rule, severity = rule_for(text, label, label_start, value, kind)
    return Hit(start, end, rule, severity, 3 if severity is Severity.HIGH_RISK else 0)


def _is_alias(text: str, start: int, value: str) -> bool:
    """``*name`` behind an ``&name``: YAML refers to a value so."""
    low = max(0, start - ANCHOR_REACH)
    return value[:1] == "*" and text.find("&" + value[1:] + " ", low, start) >= 0


def _in_quotes(value: str, family: Family) -> bool:
    """A quoted value right after its label: ``the admin password `...` works``."""
    if _ARGUMENT.search(value):
        return False
    if is_key_like(value) or (len(value) >= 12 and nearby.is_beyond_doubt(value)):
        return True
    return (
        family is Family.PASSWORD
        and len(value) >= 8
        and sum(c.isdigit() for c in value) >= 2
        and any(c.isalpha() for c in value)
        and not any(c.isspace() for c in value)
    )


def _in_parentheses(value: str) -> bool:
    """A value between parentheses is rarely one: it must not be a name, a file or a term."""
    if len(value) < 10 or sum(c.isdigit() for c in value) < 2 or _FILE_NAME.search(value):
        return False
    return bool(_STRONG.fullmatch(value) or _HYPHENATED.fullmatch(value)) or is_key_like(value)


def _metavariable(value: str) -> bool:
    """``--token TOKEN`` in a usage line."""
    return value.isupper() and value.isalpha() and classify(value) is not Family.NONE


def _tells_alone(text: str, value: str, end: int, family: Family) -> bool:
    """Whether a value that only a blank ties to its label tells by itself that it is one."""
    if family is Family.PASSWORD:
        return (
            _STRONG.fullmatch(value) is not None
            or _HYPHENATED.fullmatch(value) is not None
            or (is_common_password(value) and _SENTENCE_GOES_ON.match(text, end) is not None)
        )
    if _STRONG.fullmatch(value):
        return len(value) >= 12 or value.startswith("0x")
    return len(value) >= 20 and value.isascii() and value.isalnum() and is_key_like(value)


def _prose_word(value: str) -> bool:
    """In running text an unquoted word without digits or symbols is just the next word."""
    return _TELLING.search(value, 0, len(value) - 1) is None and not value[-1:].isdigit()


def after_login(text: str, start: int) -> bool:
    """Whether a line of a netrc file may have begun before ``start``."""
    return "login" in text[max(0, start - 100) : start]
