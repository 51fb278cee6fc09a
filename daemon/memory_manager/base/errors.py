"""The one error base of the product and its three outcome families.

Every error that reaches a person, an agent or a log line is a ``MemlocketError`` with a stable
code. Import-light on purpose: the CLI and the stdio shim import it at start.
"""

from __future__ import annotations

import enum
from typing import ClassVar


class Outcome(enum.Enum):
    """What the receiver should do: log level, back-off and user interface follow from it."""

    RETRY_LATER = "retry_later"
    ASK_USER = "ask_user"
    BUG = "bug"


class MemlocketError(Exception):
    """Something went wrong that has a name.

    ``code`` is stable and appears on the wire; ``title`` is a short noun phrase, ``message`` a
    sentence to the user, ``hint`` the way out. None may hold memory text, query text or a secret.
    """

    code: ClassVar[str] = "internal_error"
    title: ClassVar[str] = "Internal error"
    outcome: ClassVar[Outcome] = Outcome.BUG
    exit_code: ClassVar[int] = 1
    default_message: ClassVar[str] = "Memlocket hit an unexpected problem."
    default_hint: ClassVar[str | None] = None

    def __init__(self, message: str | None = None, *, hint: str | None = None) -> None:
        self.message = message or self.default_message
        self.hint = hint or self.default_hint
        super().__init__(self.message)


class InvalidInput(MemlocketError):
    """A value that can never be accepted: wrong type, missing, out of range."""

    code = "invalid_input"
    title = "Invalid input"
    outcome = Outcome.ASK_USER
    exit_code = 2
    default_message = "The input is not valid."

    def __init__(
        self, message: str | None = None, *, field: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, hint=hint)
        self.field = field


class NotFound(MemlocketError):
    """No such thing, or none the caller may see."""

    code = "not_found"
    title = "Not found"
    outcome = Outcome.ASK_USER
    exit_code = 4
    default_message = "Memory not found"


class TooLarge(MemlocketError):
    """Input over a documented limit; nothing was stored."""

    code = "too_large"
    title = "Too large"
    outcome = Outcome.ASK_USER
    exit_code = 2
    default_message = "The input is larger than the limit; nothing was stored."
