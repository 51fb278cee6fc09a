"""Whether the exact bytes of an opted-in row hold something that must never leave. Pure.

A finding blocks the row: the owner approved those bytes, so nothing is rewritten (redaction.md 10).
"""

from __future__ import annotations

from memory_manager.security.redact.result import Severity
from memory_manager.security.redact.rows import sanitize_row
from memory_manager.security.redact.sanitize import KEEP_PERSONAL, Personal, clean_text
from memory_manager.sync.wire.index_document import IndexDocument

_OURS = ("security_envelope", "agent_instance_id_hash", "created_at_ms", "updated_at_ms")
"""Members that hold no words of anybody."""


def blocking_rules(
    document: IndexDocument, raw: bytes, personal: Personal = KEEP_PERSONAL
) -> tuple[str, ...]:
    """Ids of the rules that fire, sorted; empty when the row may leave.

    ``personal``: which of the owner's own data must not leave either. SanitizerFailed when the text
    could not be checked.
    """
    members = {name: value for name, value in document.members().items() if name not in _OURS}
    result = sanitize_row(
        members,
        redact_contact_pii=personal.contact,
        redact_identity_numbers=personal.identity_numbers,
        phone_region=personal.phone_region,
    )
    found = {entry.rule for entry in result.redactions if _blocks(entry.severity, personal)}
    # what the members read as one text, which is how they travel
    _, whole = clean_text(raw.decode(), personal=personal)
    found |= {rule for rule, severity in whole if _blocks(severity, personal)}
    return tuple(sorted(found))


def _blocks(severity: Severity, personal: Personal) -> bool:
    return severity is not Severity.CONTACT_PII or personal != KEEP_PERSONAL
