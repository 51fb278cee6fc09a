"""First small sanitizer: labelled secrets, key blocks and the commonest vendor tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from memory_manager.security.redact.result import (
    FieldRedaction,
    RowResult,
    SanitizeResult,
    Severity,
    count_rules,
)

RULESET_VERSION = "0"

_RULES: tuple[tuple[str, Severity, re.Pattern[str]], ...] = (
    (
        "private-key",
        Severity.HIGH_RISK,
        re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*-----|\Z)", re.S),
    ),
    (
        "github-token",
        Severity.CREDENTIAL,
        re.compile(r"(?:gh[pousr]_[0-9A-Za-z]{36,255}|github_pat_[0-9A-Za-z_]{60,255})"),
    ),
    ("memlocket-token", Severity.CREDENTIAL, re.compile(r"mlk_[A-Za-z0-9_-]{43}")),
    ("aws-access-key-id", Severity.CREDENTIAL, re.compile(r"(?:AKIA|ASIA)[A-Z2-7]{16}")),
    (
        "labelled-secret",
        Severity.CREDENTIAL,
        re.compile(r"(?i)(?:token|secret|password|api_?key)=(?!\[REDACTED)(\S{8,200})"),
    ),
)


def sanitize_server_write(text: str, *, redact_contact_pii: bool = False) -> SanitizeResult:
    if not isinstance(text, str):
        raise TypeError("sanitize_server_write needs a str")
    found: list[tuple[str, Severity]] = []
    clean = text
    for rule, severity, pattern in _RULES:

        def replace(match: re.Match[str], rule: str = rule, severity: Severity = severity) -> str:
            found.append((rule, severity))
            if match.re.groups:
                return match[0][: match.start(1) - match.start()] + f"[REDACTED:{rule}]"
            return f"[REDACTED:{rule}]"

        clean = pattern.sub(replace, clean)
    if not found:
        return SanitizeResult(text, False, ())
    return SanitizeResult(clean, True, count_rules(found))


def sanitize_row(row: Mapping[str, Any], *, redact_contact_pii: bool = False) -> RowResult:
    found: list[FieldRedaction] = []

    def walk(value: Any, path: str) -> Any:
        if isinstance(value, str):
            result = sanitize_server_write(value)
            found.extend(
                FieldRedaction(r.rule, r.severity, r.count, path) for r in result.redactions
            )
            return result.text
        if isinstance(value, Mapping):
            return {key: walk(item, f"{path}.{key}") for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [walk(item, f"{path}.{index}") for index, item in enumerate(value)]
        return value

    cleaned = {key: walk(value, key) for key, value in row.items()}
    high_risk = any(entry.severity is Severity.HIGH_RISK for entry in found)
    return RowResult(cleaned, tuple(found), high_risk, bool(found))
