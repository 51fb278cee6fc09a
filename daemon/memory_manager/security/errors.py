"""Errors of the security package. None of them carries any part of the text that was handled."""

from __future__ import annotations

from memory_manager.base.errors import InvalidInput, MemlocketError, Outcome


class InvalidEnvelope(InvalidInput, ValueError):
    """A security envelope with a missing, unknown or contradictory value."""

    code = "invalid_envelope"
    title = "Invalid security envelope"
    default_message = "The security envelope is not valid."


class SanitizerFailed(MemlocketError):
    """The sanitizer could not finish; the write must be refused and nothing stored."""

    code = "sanitizer_failed"
    title = "Write refused"
    outcome = Outcome.BUG
    default_message = "The text could not be checked for secrets, so it was not stored."
    default_hint = "Try a shorter text, or report this as a bug without including the text."
