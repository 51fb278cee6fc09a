"""UTC times: integer milliseconds inside, RFC 3339 at the border."""

from __future__ import annotations

import datetime
import time

from memory_manager.base.errors import InvalidInput


def now_ms() -> int:
    """Milliseconds since 1970 in UTC."""
    return time.time_ns() // 1_000_000


def rfc3339(unix_ms: int) -> str:
    """``2026-01-02T03:04:05.678Z``; always milliseconds, always Z."""
    moment = datetime.datetime.fromtimestamp(unix_ms / 1000, tz=datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{unix_ms % 1000:03d}Z"


def parse_rfc3339(text: str, field: str) -> int:
    """Milliseconds since 1970 of an RFC 3339 time *with* an offset; InvalidInput otherwise."""
    try:
        moment = datetime.datetime.fromisoformat(text.strip().upper().replace("Z", "+00:00"))
        if moment.tzinfo is None:
            raise ValueError
        return round(moment.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"{field} must be an RFC 3339 time with an offset.", field=field
        ) from None
