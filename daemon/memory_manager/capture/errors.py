"""What can be wrong with something that is to be imported or exported."""

from __future__ import annotations

from memory_manager.base.errors import InvalidInput, MemlocketError, Outcome


class InvalidRecord(InvalidInput):
    """A line, a file or a row that is no memory record; nothing of it was stored."""

    code = "invalid_record"
    title = "Invalid record"
    default_message = "This is not a memory record."


class UnknownFormat(MemlocketError):
    """The kind of a file to import cannot be told from its name."""

    code = "unknown_format"
    title = "Unknown format"
    outcome = Outcome.ASK_USER
    exit_code = 2
    default_message = "The format of this file is not known."
    default_hint = "Say it with --format jsonl, markdown or text."
