"""The write sanitizer. ``sanitize_server_write`` cleans one text, ``sanitize_row`` a whole row."""

from __future__ import annotations

from memory_manager.security.redact.result import (
    FieldRedaction,
    Redaction,
    RowResult,
    SanitizeResult,
    Severity,
)
from memory_manager.security.redact.rows import sanitize_row
from memory_manager.security.redact.ruleset import RULESET_VERSION
from memory_manager.security.redact.sanitize import sanitize_server_write

__all__ = [
    "RULESET_VERSION",
    "FieldRedaction",
    "Redaction",
    "RowResult",
    "SanitizeResult",
    "Severity",
    "sanitize_row",
    "sanitize_server_write",
]
