"""Words of time in a query ("yesterday", "上周") as a span, only when the client says where it is.

They become a small bonus for rows inside the span, never a silent filter (recall.md 10). Pure.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from typing import Final

Days = tuple[datetime.date, datetime.date]
"""First day and the day after the last one."""

_DAY: Final = datetime.timedelta(days=1)
_WEEK: Final = datetime.timedelta(days=7)


def _monday(day: datetime.date) -> datetime.date:
    return day - day.weekday() * _DAY


def _first(day: datetime.date) -> datetime.date:
    return day.replace(day=1)


def _next_month(day: datetime.date) -> datetime.date:
    return _first(_first(day) + 31 * _DAY)


_SPANS: Final[Mapping[str, Callable[[datetime.date], Days]]] = {
    "today": lambda day: (day, day + _DAY),
    "yesterday": lambda day: (day - _DAY, day),
    "this week": lambda day: (_monday(day), _monday(day) + _WEEK),
    "last week": lambda day: (_monday(day) - _WEEK, _monday(day)),
    "this month": lambda day: (_first(day), _next_month(day)),
    "last month": lambda day: (_first(_first(day) - _DAY), _first(day)),
}
_ALSO: Final[Mapping[str, str]] = {
    "今天": "today",
    "昨天": "yesterday",
    "本周": "this week",
    "这周": "this week",
    "上周": "last week",
    "本月": "this month",
    "这个月": "this month",
    "上个月": "last month",
    "heute": "today",
    "gestern": "yesterday",
}
_WORDS: Final = re.compile(
    r"\b(?:" + "|".join([*_SPANS, "heute", "gestern"]).replace(" ", r"\s+") + r")\b"
    r"|今天|昨天|本周|这周|上周|本月|这个月|上个月",
    re.IGNORECASE,
)


def recent_span_ms(query: str, reference_ms: int, zone: datetime.tzinfo) -> tuple[int, int] | None:
    """``[start, end)`` in UTC ms of the first word of time in the query, in the owner's days."""
    found = _WORDS.search(query)
    if found is None:
        return None
    word = " ".join(found.group().lower().split())
    moment = datetime.datetime.fromtimestamp(reference_ms / 1000, zone)
    start, end = _SPANS[_ALSO.get(word, word)](moment.date())
    return _midnight_ms(start, zone), _midnight_ms(end, zone)


def _midnight_ms(day: datetime.date, zone: datetime.tzinfo) -> int:
    midnight = datetime.datetime.combine(day, datetime.time(), zone)
    return round(midnight.timestamp() * 1000)
