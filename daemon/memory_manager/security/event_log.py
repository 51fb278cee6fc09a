"""A log of events: names, allow-listed fields, classes and places of errors, and nothing else.

Messages of other libraries and of exceptions are dropped, because parsers put the offending bytes
into them. Contract: desktop.md 9. Which fields a process may log is its own to say.
"""

from __future__ import annotations

import json
import logging
import re
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from memory_manager.base.errors import MemlocketError, Outcome
from memory_manager.base.times import now_ms, rfc3339
from memory_manager.security.log_filter import RedactingFilter

OWN_LOGGER: Final = "memory_manager"

EVENT: Final = re.compile(r"[a-z][a-z0-9_.]{0,63}")
_MAX_TEXT: Final = 200
_MAX_FRAMES: Final = 6
_LEVELS: Final = {
    Outcome.RETRY_LATER: logging.INFO,
    Outcome.ASK_USER: logging.WARNING,
    Outcome.BUG: logging.ERROR,
}


def level_of(error: BaseException) -> int:
    """Retry later is INFO, ask the user is WARNING, everything else is a bug and ERROR."""
    return _LEVELS[error.outcome] if isinstance(error, MemlocketError) else logging.ERROR


def log_event(
    logger: logging.Logger,
    event: str,
    *,
    level: int = logging.INFO,
    error: BaseException | None = None,
    **fields: object,
) -> None:
    """Write one event. ``fields`` that the process does not allow are dropped; of ``error`` the
    class and code and the places in our own files stay, never its text.
    """
    logger.log(level, event, extra={"fields": fields, "error": error})


class OnlyEvents(logging.Filter):
    """Turns a record into an event: name, allowed fields, class and place of an error.

    A record that is no event of ours keeps only its level and logger. Stands before the redaction
    filter, which then sees what is really written.
    """

    def __init__(self, allowed_fields: frozenset[str]) -> None:
        super().__init__()
        self._allowed = allowed_fields

    def filter(self, record: logging.LogRecord) -> bool:
        if record.__dict__.get("is_event"):
            return True  # another handler saw it first
        own = record.name == OWN_LOGGER or record.name.startswith(OWN_LOGGER + ".")
        name = record.msg if isinstance(record.msg, str) else ""
        given: Mapping[str, object] = record.__dict__.get("fields") or record.__dict__
        fields: dict[str, object] = {}
        if own:
            fields = {key: _plain(given[key]) for key in sorted(self._allowed & given.keys())}
        error = record.__dict__.get("error") or (record.exc_info[1] if record.exc_info else None)
        if isinstance(error, BaseException):
            fields["error"] = type(error).__name__
            if isinstance(error, MemlocketError):
                fields["code"] = error.code
            fields["places"] = _places(error)
        record.msg = name if own and EVENT.fullmatch(name) else "library_message"
        record.args = ()
        record.exc_info = record.exc_text = record.stack_info = None
        record.__dict__.update(fields=fields, error=None, is_event=True)
        return True


class JsonLines(logging.Formatter):
    """One JSON object per event."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": rfc3339(now_ms()),
            "level": record.levelname,
            "logger": record.name,
            "event": record.msg,
            **record.__dict__["fields"],
        }
        return json.dumps(line, ensure_ascii=False)


def send_events_to(
    handlers: Iterable[logging.Handler], allowed_fields: frozenset[str], level: int
) -> None:
    """Every record of this process goes to ``handlers``, as an event, and nowhere else."""
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    for handler in handlers:
        handler.addFilter(OnlyEvents(allowed_fields))
        handler.addFilter(RedactingFilter())
        root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # a full disk must not print records to stderr


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value)[:_MAX_TEXT]


def _places(error: BaseException) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)[-_MAX_FRAMES:]
    return [f"{'/'.join(Path(frame.filename).parts[-3:])}:{frame.lineno}" for frame in frames]
