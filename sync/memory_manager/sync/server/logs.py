"""The server's log: one JSON line an event, of allow-listed fields only.

Contract: sync.md 10. Route templates, statuses and bucketed sizes; never ids, addresses of
clients, tokens, bodies, or the words of a library or an exception.
"""

from __future__ import annotations

import json
import logging
import re
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TextIO

from memory_manager.base.errors import MemlocketError, Outcome
from memory_manager.base.times import now_ms, rfc3339
from memory_manager.security.log_filter import RedactingFilter

ALLOWED_FIELDS: Final = frozenset(
    """
    backend code count duration_ms error_type method pid port received reason request_id route
    sent signal status tls version words
    """.split()
)
OWN_LOGGER: Final = "memory_manager"

_EVENT: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_MAX_TEXT: Final = 120
_MAX_FRAMES: Final = 6
_LEVELS: Final = {
    Outcome.RETRY_LATER: logging.INFO,
    Outcome.ASK_USER: logging.WARNING,
    Outcome.BUG: logging.ERROR,
}


def log_event(
    logger: logging.Logger,
    event: str,
    *,
    level: int = logging.INFO,
    error: BaseException | None = None,
    **fields: object,
) -> None:
    """Write one event; fields outside ALLOWED_FIELDS are dropped, of ``error`` class and places
    in our own files stay.
    """
    logger.log(level, event, extra={"fields": fields, "error": error})


def level_of(error: BaseException) -> int:
    return _LEVELS[error.outcome] if isinstance(error, MemlocketError) else logging.ERROR


def bucketed(size: int | None) -> int | None:
    """``size`` rounded up to a power of two, so that a log tells no exact length."""
    if size is None or size <= 0:
        return size
    return 1 << (size - 1).bit_length()


class OnlyEvents(logging.Filter):
    """Turns a record into an event; of a foreign record level and logger remain."""

    def filter(self, record: logging.LogRecord) -> bool:
        own = record.name == OWN_LOGGER or record.name.startswith(OWN_LOGGER + ".")
        name = record.msg if isinstance(record.msg, str) else ""
        given: Mapping[str, object] = record.__dict__.get("fields") or record.__dict__
        fields: dict[str, object] = {}
        if own:
            fields = {key: _plain(given[key]) for key in sorted(ALLOWED_FIELDS & given.keys())}
        error = record.__dict__.get("error") or (record.exc_info[1] if record.exc_info else None)
        if isinstance(error, BaseException):
            fields["error"] = type(error).__name__
            fields["places"] = _places(error)
        record.msg = name if own and _EVENT.fullmatch(name) else "library_message"
        record.args = ()
        record.exc_info = record.exc_text = record.stack_info = None
        record.__dict__.update(fields=fields, error=None)
        return True


class JsonLines(logging.Formatter):
    """One JSON object per event."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": rfc3339(now_ms()),
            "level": record.levelname,
            "event": record.msg,
            **record.__dict__["fields"],
        }
        return json.dumps(line, ensure_ascii=False)


def set_up_logs(stream: TextIO, level: int = logging.INFO) -> None:
    """Send every record of this process to ``stream``, which a service manager keeps."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    handler.addFilter(OnlyEvents())
    handler.addFilter(RedactingFilter())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
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
