"""Where the log of the daemon goes: a private file that rotates, and the journal.

Contract: desktop.md 9. What an event is stands in ``security.event_log``.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import stat
from collections.abc import Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from memory_manager.base.private_files import UnsafeFile, ensure_private_directory
from memory_manager.security.event_log import JsonLines, send_events_to

LOG_NAME = "daemon.log"
MAX_FILE_BYTES = 5_000_000
KEPT_FILES = 3

ALLOWED_FIELDS = frozenset(
    """
    action agents backend ballast_freed code count credential_id daemon_id door
    duration_ms error_type exit_code generation insecure memory_id method model_key
    pages pid port query_length reason request_id route rows segments signal
    size_bytes state status unlock_source version what
    """.split()
)


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
    send_events_to(handlers, ALLOWED_FIELDS, level)
    return path
