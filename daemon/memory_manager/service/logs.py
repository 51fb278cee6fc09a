"""The log of the daemon: JSON lines with an event name, ids, sizes and codes, and nothing else.

Contract: desktop.md 9. Only allow-listed fields reach the file; messages of other libraries and of
exceptions are dropped, because parsers put the offending bytes into them.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

from memory_manager.base.errors import MemlocketError, Outcome
from memory_manager.base.private_files import ensure_private_directory
from memory_manager.base.times import now_ms, rfc3339
from memory_manager.security.log_filter import RedactingFilter

LOG_NAME = "daemon.log"
MAX_FILE_BYTES = 5_000_000
KEPT_FILES = 3
OWN_LOGGER = "memory_manager"

ALLOWED_FIELDS = frozenset(
    """
    action agents backend code count credential_id daemon_id door
    duration_ms error_type exit_code generation insecure memory_id method model_key
    pages pid port query_length reason request_id route signal
    size_bytes state status unlock_source version what
    """.split()
)

_EVENT = re.compile(r"[a-z][a-z0-9_.]{0,63}")
_MAX_TEXT = 200
_MAX_FRAMES = 6
_LEVELS = {
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
    """Write one event. ``fields`` outside ALLOWED_FIELDS are dropped; of ``error`` the class and
    code and the places in our own files stay, never its text.
    """
    logger.log(level, event, extra={"fields": fields, "error": error})


def _plain(value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    return str(value)[:_MAX_TEXT]


def _places(error: BaseException) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)[-_MAX_FRAMES:]
    return [f"{_inside_package(frame.filename)}:{frame.lineno}" for frame in frames]


def _inside_package(filename: str) -> str:
    parts = Path(filename).parts
    return "/".join(parts[-3:])


class JsonLines(logging.Formatter):
    """One JSON object per record; one that is no event of ours keeps only level and logger."""

    def format(self, record: logging.LogRecord) -> str:
        return json.dumps(self.fields_of(record), ensure_ascii=False)

    def fields_of(self, record: logging.LogRecord) -> dict[str, object]:
        own = record.name == OWN_LOGGER or record.name.startswith(OWN_LOGGER + ".")
        event = record.msg if isinstance(record.msg, str) else ""
        line: dict[str, object] = {
            "time": rfc3339(now_ms()),
            "level": record.levelname,
            "logger": record.name,
            "event": event if own and _EVENT.fullmatch(event) else "library_message",
        }
        if own:
            fields: Mapping[str, object] = getattr(record, "fields", None) or record.__dict__
            line.update(
                (name, _plain(value)) for name, value in fields.items() if name in ALLOWED_FIELDS
            )
        error = getattr(record, "error", None) or (record.exc_info[1] if record.exc_info else None)
        if isinstance(error, BaseException):
            line["error"] = type(error).__name__
            if isinstance(error, MemlocketError):
                line["code"] = error.code
            line["places"] = _places(error)
        return line


class ShortLine(JsonLines):
    """For the journal: event and the most useful fields on one line."""

    def format(self, record: logging.LogRecord) -> str:
        fields = self.fields_of(record)
        extra = " ".join(
            f"{name}={value}"
            for name, value in fields.items()
            if name not in ("time", "level", "logger", "event", "places")
        )
        return f"{fields['level'].__str__().lower()} {fields['event']} {extra}".rstrip()


class PrivateRotatingFile(logging.handlers.RotatingFileHandler):
    """Log files that are born 0600 and are never written through a planted link."""

    def _open(self):  # type: ignore[no-untyped-def]
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self.baseFilename, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        return os.fdopen(descriptor, "a", encoding="utf-8")


def set_up_logs(directory: Path, *, level: int = logging.INFO, to_journal: bool = False) -> Path:
    """Send every record of this process to ``<directory>/daemon.log``; returns that path.

    ``to_journal`` adds a short form on stderr. Raises UnsafeFile when the directory is not private.
    """
    ensure_private_directory(directory)
    path = directory / LOG_NAME
    handlers: list[logging.Handler] = [
        PrivateRotatingFile(path, maxBytes=MAX_FILE_BYTES, backupCount=KEPT_FILES - 1, delay=True)
    ]
    handlers[0].setFormatter(JsonLines())
    if to_journal:
        handlers.append(logging.StreamHandler(sys.stderr))
        handlers[-1].setFormatter(ShortLine())
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    for handler in handlers:
        handler.addFilter(RedactingFilter())
        root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # a full disk must not print records to stderr
    return path
