"""A logging filter that cleans records with the same rules as the write path.

Contract: redaction.md 10.

It goes on handlers, not on loggers: filters of a logger are not asked for records of its children.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, cast

from memory_manager.security.redact import sanitize_server_write

WITHHELD_MESSAGE = "[log record withheld: it could not be checked for secrets]"
_BASE_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class RedactingFilter(logging.Filter):
    """Replaces message, arguments, extra fields and exception text of every record it lets through.

    A record that cannot be cleaned keeps its place and level but loses its text: a log line is
    never a reason to leak or to fail.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        try:
            self._clean(record)
        except Exception:
            record.msg = WITHHELD_MESSAGE
            record.args = ()
            record.exc_info = None
            record.exc_text = None
            record.stack_info = None
        return True

    def _clean(self, record: logging.LogRecord) -> None:
        # the formatted message is what a handler writes; a label in the format and its value in an
        # argument only meet there
        message = record.getMessage()
        cleaned = sanitize_server_write(message).text
        if cleaned is not message:
            record.msg = cleaned
            record.args = ()
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = sanitize_server_write(record.exc_text).text
            # formatters prefer the cached text, but some handlers format the exception again
            record.exc_info = None
        if record.stack_info:
            record.stack_info = sanitize_server_write(record.stack_info).text
        for name in record.__dict__.keys() - _BASE_FIELDS:
            record.__dict__[name] = _cleaned(record.__dict__[name])


def _cleaned(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return sanitize_server_write(value).text
    if isinstance(value, Mapping):
        entries: Mapping[Any, Any] = value
        return {str(key): _cleaned(item) for key, item in entries.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in cast("list[Any]", value)]
    return sanitize_server_write(str(value)).text
