"""The form of one registry entry, and of one finding. Contract: redaction.md 4.1."""

from __future__ import annotations

import dataclasses

from memory_manager.security.redact.result import Severity


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """A credential shape that announces itself by a literal.

    ``anchors`` are lower-case literals, compared with the lower-cased text. ``pattern`` (the RE2
    subset: no lookaround, no back-reference) is matched from an anchor, or searched from ``lead``
    characters before it, and never beyond ``window`` characters after it. ``group`` is what gets
    removed. ``validator`` names a check in ``validators`` for shapes without a distinctive prefix.
    """

    id: str
    anchors: tuple[str, ...]
    pattern: str
    severity: Severity = Severity.CREDENTIAL
    group: int = 0
    validator: str | None = None
    window: int = 320
    lead: int = 0
    since: str = "1"
    bare_token: bool = False  # rendered as [REDACTED], see redaction.md 7


@dataclasses.dataclass(frozen=True, slots=True)
class Hit:
    """One span to remove, in indices of the text it was found in. Holds no text."""

    start: int
    end: int
    rule: str
    severity: Severity
    specificity: int = 2  # 2 vendor shape, 1 carrier, 0 label
    bare_token: bool = False
