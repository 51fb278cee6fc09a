"""The sanitizer's second look: what was stored under older rules is read under the present ones.

Until ``cleaning`` has rewritten such a row, and for good where it cannot, the values that leave the
vault are cleaned here: a rule made today holds for yesterday's rows at once. Contract: redaction.md
10.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final, TypeVar

from memory_manager.security.errors import SanitizerFailed
from memory_manager.security.redact import RULESET_VERSION, sanitize_row
from memory_manager.security.redact.ids import WITHHELD, mark
from memory_manager.vault.item_fields import texts_of_item, without_text
from memory_manager.vault.prepared_version import RowContents
from memory_manager.vault.rows import MemoryRow, MemoryVersion

T = TypeVar("T", MemoryRow, MemoryVersion, RowContents)
S = TypeVar("S", MemoryRow, MemoryVersion)

_FIELDS: Final = ("content", "path", "bucket", "scope", "source", "metadata", "provenance")


def under_present_rules(stored: S) -> S:
    """The same row or version; one that older rules let through is cleaned, never refused."""
    return stored if stored.ruleset_version == RULESET_VERSION else cleaned(stored)


def cleaned(stored: T) -> T:
    """The same values under the present rules; withheld where they cannot be checked."""
    given: dict[str, Any] = {name: getattr(stored, name) for name in _FIELDS}
    texts = texts_of_item(stored.item)
    try:
        clean = sanitize_row({**given, "semantic_key": stored.semantic_key, "item": texts}).row
    except SanitizerFailed:
        return _withheld(stored)
    key_is_clean = clean.pop("semantic_key") == stored.semantic_key
    return dataclasses.replace(
        stored,
        **{**clean, "item": {**stored.item, **clean["item"]}},
        semantic_key=stored.semantic_key if key_is_clean else None,
    )


def _withheld(stored: T) -> T:
    return dataclasses.replace(
        stored,
        content=mark(WITHHELD),
        path=mark(WITHHELD),
        source=None,
        metadata={},
        provenance={},
        semantic_key=None,
        item=without_text(stored.kind, stored.item),
    )
