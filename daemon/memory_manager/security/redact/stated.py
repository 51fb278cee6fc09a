"""Values that stand right behind fixed words and are told by both together: session cookies, keys
of wireless networks, PINs, tokens in a setting of nix.

Contract: redaction.md 4.3, 13.6.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Set
from typing import Final

from memory_manager.security.redact.carriers import wanted
from memory_manager.security.redact.late import late
from memory_manager.security.redact.result import Severity
from memory_manager.security.redact.rule import Hit


@dataclasses.dataclass(frozen=True, slots=True)
class Statement:
    """``hints`` are literals of which one must stand in the text, in lower case; group 1 of
    ``pattern`` is the value, which ``check`` judges.
    """

    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    check: Callable[[str], bool]
    rule: str = "labelled-secret"


def _is_mixed(value: str) -> bool:
    return sum(c.isdigit() for c in value) >= 2 and any(c.isalpha() for c in value)


def _is_network_key(value: str) -> bool:
    tells = any(c.isdigit() or not c.isalnum() for c in value.rstrip(".,;)"))
    return tells and not value.endswith(("://", ":"))


def _is_pin(value: str) -> bool:
    return not "1900" <= value <= "2099"


_STATEMENTS: Final = (
    Statement(
        ("sessionid", "sessid", "connect.sid", "laravel_session", "ci_session"),
        late(
            r"(?:(?i:\b(?:php|asp|j|django_?|my)?sess(?:ion)?id[a-z]{0,8})|\bASP\.NET_SessionId"
            r"|\bconnect\.sid|\blaravel_session|\bci_session)=[\"']?([0-9A-Za-z%._~+/-]{16,512})"
        ),
        _is_mixed,
        "cookie",
    ),
    Statement(
        ("wpa", "wi-fi", "wifi", "wlan"),
        late(
            r"(?i:\b(?:wpa[23]?(?:[-/ ](?:psk|personal|wpa[23]))?|wi-?fi|wlan)[ -]"
            r"(?:key|pass|psk|pw|code))[ \t]{0,2}(?:\bis\b|[:=])[ \t]{0,4}[\"'`]?"
            r"([^\s\"'`<>${}]{8,63})(?=[\s\"'`.,;)]|$)"
        ),
        _is_network_key,
    ),
    Statement(
        (
            *(
                "pin:",
                "pin :",
                "pin=",
                "pin =",
                "pin is",
                "pin was",
                "pin code",
                "pin-code",
                "pincode",
            ),
            *(f"pin {digit}" for digit in range(10)),
        ),
        late(
            r"(?:\b[Pp][Ii][Nn](?:[ -]?[Cc][Oo][Dd][Ee])?[ \t]{0,2}(?:\b(?:is|was)\b|[:=])"
            r"|\bPIN(?:[ -]?[Cc]ode)?(?=[ \t])|\bpin[ -]code(?=[ \t])"
            r"|\b(?:my|his|her|your|our|their|door|card|sim|gate|bank|phone|alarm|safe) pin(?= ))"
            r"[ \t]{0,3}[\"'`*]{0,2}([0-9]{4})(?![0-9A-Za-z_]|[.,:/-][0-9]|[ -][0-9])"
        ),
        _is_pin,
    ),
    Statement(
        ("access-tokens",),
        late(
            r"(?:access-tokens[ \t]{0,4}=[ \t]{0,4}[\"']?|(?<=[0-9A-Za-z]) )"
            r"[\w.-]{3,80}\.[a-z]{2,12}(?:/[\w./-]{1,80})?=([0-9A-Za-z:_.-]{16,400})"
        ),
        _is_mixed,
    ),
)
STARTERS: Final = frozenset(hint for statement in _STATEMENTS for hint in statement.hints)
"""Without one of these the reader finds nothing."""


def stated_secrets(text: str, seen: Set[str]) -> Iterator[Hit]:
    """Values behind their fixed words."""
    for statement in _STATEMENTS:
        if seen.isdisjoint(statement.hints):
            continue
        for found in statement.pattern.finditer(text):
            value = found[1]
            if wanted(value) and statement.check(value):
                yield Hit(*found.span(1), statement.rule, Severity.CREDENTIAL, 1)
