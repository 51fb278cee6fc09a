"""The compiled rule database of the sanitizer's native tier: kept in a private cache file.

Building it takes seconds of processor time, so it happens once, on a thread, while the portable
tier serves. Contract: redaction.md 5.3.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from memory_manager.base.private_files import (
    ensure_private_directory,
    read_private,
    write_private,
)
from memory_manager.security.event_log import level_of, log_event
from memory_manager.security.redact import anchors

FILE_NAME: Final = "rules.hyperscan"
MAX_BYTES: Final = 32 * 1024 * 1024

_log = logging.getLogger(__name__)


async def use_native_rules(cache: Path) -> bool:
    """Switch the sanitizer to its native tier where that is installed; whether it was.

    Never raises: without the package, or with a cache that cannot be read or written, the sanitizer
    stays as it is.
    """
    if not anchors.native_is_possible():
        return False
    try:
        return await asyncio.to_thread(_load_or_build, cache)
    except Exception as error:  # a faster tier is not worth a failed start
        log_event(_log, "rule_database_failed", level=level_of(error), error=error)
        return False


def _load_or_build(cache: Path) -> bool:
    path = cache / FILE_NAME
    try:
        if anchors.use_native_database(read_private(path, MAX_BYTES)):
            return True
    except OSError:
        pass  # not built yet
    data = anchors.compile_native_database()
    ensure_private_directory(cache)
    write_private(path, data, durable=False)
    return anchors.use_native_database(data)
