"""Errors of recall: one place, import-light. Contract: recall.md 3, 8, 11."""

from __future__ import annotations

from memory_manager.base.errors import MemlocketError, Outcome


class FullTextDamaged(MemlocketError):
    """The full-text tables cannot be read; vectors may still answer."""

    code = "fulltext_damaged"
    title = "Full-text index damaged"
    outcome = Outcome.ASK_USER
    default_message = "The full-text index is damaged; it can be rebuilt from the memories."
    default_hint = "Run: memlocket doctor --rebuild fulltext"


class VectorRefused(MemlocketError):
    """A model produced a vector that is zero, not finite or of the wrong length."""

    code = "vector_refused"
    title = "Vector refused"
    default_message = "The embedding model produced an unusable vector; it was not stored."
