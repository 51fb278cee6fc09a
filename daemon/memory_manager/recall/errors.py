"""Errors of recall: one place, import-light. Contract: recall.md 3, 8, 11."""

from __future__ import annotations

from memory_manager.base.errors import InvalidInput, MemlocketError, Outcome


class FullTextDamaged(MemlocketError):
    """The full-text tables cannot be read; vectors may still answer."""

    code = "fulltext_damaged"
    title = "Full-text index damaged"
    outcome = Outcome.ASK_USER
    default_message = "The full-text index is damaged; it can be rebuilt from the memories."
    default_hint = "Run: memlocket doctor --rebuild fulltext"


class VectorsDamaged(MemlocketError):
    """A stored vector segment does not hold what its header says; it can be computed again."""

    code = "vectors_damaged"
    title = "Vector index damaged"
    outcome = Outcome.ASK_USER
    default_message = "Stored vectors are damaged; they can be computed again from the memories."
    default_hint = "Run: memlocket doctor --rebuild vectors"


class VectorRefused(MemlocketError):
    """A model produced a vector that is zero, not finite or of the wrong length."""

    code = "vector_refused"
    title = "Vector refused"
    default_message = "The embedding model produced an unusable vector; it was not stored."


class InvalidQuery(InvalidInput):
    """Arguments of a recall that contradict each other."""

    code = "invalid_query"
    default_message = "The query is not valid."
