"""UTC times: integer milliseconds inside, RFC 3339 at the border."""

from __future__ import annotations

import datetime
import time
from typing import Final

from memory_manager.base.errors import InvalidInput

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)
MIN_UNIX_MS: Final = -62_135_596_800_000
MAX_UNIX_MS: Final = 253_402_300_799_999
"""The moments ``rfc3339`` can write: the years 1 to 9999 in UTC."""


def now_ms() -> int:
    """Milliseconds since 1970 in UTC."""
    return time.time_ns() // 1_000_000


def rfc3339(unix_ms: int) -> str:
    """``2026-01-02T03:04:05.678Z``; always milliseconds, always Z."""
    moment = _EPOCH + unix_ms * _MILLISECOND
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_rfc3339(text: str, field: str) -> int:
    """Milliseconds since 1970 of an RFC 3339 time *with* an offset, rounded down.

    InvalidInput otherwise, also for a moment outside the years 1 to 9999 in UTC: ``rfc3339`` could
    not write it down again, and one stored row with such a time would break every list it is in.
    """
    try:
        moment = datetime.datetime.fromisoformat(text.strip().upper().replace("Z", "+00:00"))
        if moment.tzinfo is None:
            raise ValueError
        return (moment.astimezone(datetime.UTC) - _EPOCH) // _MILLISECOND
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"{field} must be an RFC 3339 time with an offset.", field=field
        ) from None
