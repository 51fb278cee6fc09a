"""The server's log: one JSON line an event on standard error, of allow-listed fields only.

Contract: sync.md 10. Route templates, statuses and bucketed sizes; never ids, addresses of
clients, tokens, bodies, or the words of a library or an exception.
"""

from __future__ import annotations

import logging
from typing import Final, TextIO

from memory_manager.security.event_log import JsonLines, send_events_to

ALLOWED_FIELDS: Final = frozenset(
    """
    backend code count duration_ms error_type method pid port received reason request_id route
    sent signal status tls version words
    """.split()
)


def bucketed(size: int | None) -> int | None:
    """``size`` rounded up to a power of two, so that a log tells no exact length."""
    if size is None or size <= 0:
        return size
    return 1 << (size - 1).bit_length()


def set_up_logs(stream: TextIO, level: int = logging.INFO) -> None:
    """Send every record of this process to ``stream``, which a service manager keeps."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    send_events_to([handler], ALLOWED_FIELDS, level)
