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
import stat
import traceback
from collections.abc import Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from memory_manager.base.errors import MemlocketError, Outcome
from memory_manager.base.private_files import UnsafeFile, ensure_private_directory
from memory_manager.base.times import now_ms, rfc3339
from memory_manager.security.log_filter import RedactingFilter

LOG_NAME = "daemon.log"
MAX_FILE_BYTES = 5_000_000
KEPT_FILES = 3
OWN_LOGGER = "memory_manager"

ALLOWED_FIELDS = frozenset(
    """
    action agents backend ballast_freed code count credential_id daemon_id door
    duration_ms error_type exit_code generation insecure memory_id method model_key
    pages pid port query_length reason request_id route rows segments signal
    size_bytes state status unlock_source version what
    """.split()
)

EVENT = re.compile(r"[a-z][a-z0-9_.]{0,63}")
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
    return [f"{'/'.join(Path(frame.filename).parts[-3:])}:{frame.lineno}" for frame in frames]


class OnlyEvents(logging.Filter):
    """Turns a record into an event: name, allowed fields, class and place of an error.

    A record that is no event of ours keeps only its level and logger. Stands before the redaction
    filter, which then sees what is really written.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        if record.__dict__.get("is_event"):
            return True  # another handler saw it first
        own = record.name == OWN_LOGGER or record.name.startswith(OWN_LOGGER + ".")
        name = record.msg if isinstance(record.msg, str) else ""
        given: Mapping[str, object] = record.__dict__.get("fields") or record.__dict__
        fields: dict[str, object] = {}
        if own:
            fields = {key: _plain(given[key]) for key in sorted(ALLOWED_FIELDS & given.keys())}
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


class ShortLine(logging.Formatter):
    """For the journal: level, event and fields on one line."""

    def format(self, record: logging.LogRecord) -> str:
        fields: Mapping[str, object] = record.__dict__["fields"]
        extra = [f"{name}={value}" for name, value in fields.items() if name != "places"]
        return " ".join([record.levelname.lower(), record.msg, *extra])


class PrivateRotatingFile(logging.handlers.RotatingFileHandler):
    """Log files that are born 0600 and are never written through a planted link."""

    def _open(self) -> TextIOWrapper:
        return os.fdopen(_open_private_log(Path(self.baseFilename)), "a", encoding="utf-8")


def _open_private_log(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise UnsafeFile(f"{path} cannot be opened as a private file.") from error
    info = os.fstat(descriptor)
    if not stat.S_ISREG(info.st_mode) or info.st_uid != os.getuid() or info.st_mode & 0o077:
        os.close(descriptor)
        raise UnsafeFile(f"{path} is not a private file of ours.")
    return descriptor


def set_up_logs(
    directory: Path, *, level: int = logging.INFO, journal: TextIO | None = None
) -> Path:
    """Send every record of this process to ``<directory>/daemon.log``; returns that path.

    ``journal`` gets a short form too. UnsafeFile when directory or file is not private.
    """
    ensure_private_directory(directory)
    path = directory / LOG_NAME
    handlers: list[logging.Handler] = [
        PrivateRotatingFile(path, maxBytes=MAX_FILE_BYTES, backupCount=KEPT_FILES - 1)
    ]
    handlers[0].setFormatter(JsonLines())
    if journal is not None:
        handlers.append(logging.StreamHandler(journal))
        handlers[-1].setFormatter(ShortLine())
    root = logging.getLogger()
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    for handler in handlers:
        handler.addFilter(OnlyEvents())
        handler.addFilter(RedactingFilter())
        root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # a full disk must not print records to stderr
    return path
