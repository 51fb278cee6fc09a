"""Words of time become a span in the owner's own days, and only with zone and reference time."""

from __future__ import annotations

import datetime
import zoneinfo

import pytest

from memory_manager.api import requests
from memory_manager.api.errors import InvalidFields
from memory_manager.api.spans import recent_span_ms

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
SHANGHAI = zoneinfo.ZoneInfo("Asia/Shanghai")
# Sunday, 29 March 2026, 20:30 UTC: the night in which Berlin's clock goes forward is over
REFERENCE = datetime.datetime(2026, 3, 29, 20, 30, tzinfo=datetime.UTC)


def _span(query: str, zone: zoneinfo.ZoneInfo) -> tuple[str, str] | None:
    found = recent_span_ms(query, round(REFERENCE.timestamp() * 1000), zone)
    if found is None:
        return None
    first, last = (datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC) for ms in found)
    return f"{first:%m-%d %H:%M}", f"{last:%m-%d %H:%M}"


@pytest.mark.parametrize(
    ("query", "zone", "expected"),
    [
        ("what did I do today", BERLIN, ("03-28 23:00", "03-29 22:00")),  # 23 hours long
        ("Yesterday's talk", BERLIN, ("03-27 23:00", "03-28 23:00")),
        ("last   week", BERLIN, ("03-15 23:00", "03-22 23:00")),
        ("THIS MONTH", BERLIN, ("02-28 23:00", "03-31 22:00")),
        ("last month", BERLIN, ("01-31 23:00", "02-28 23:00")),
        ("heute", BERLIN, ("03-28 23:00", "03-29 22:00")),
        ("today", SHANGHAI, ("03-29 16:00", "03-30 16:00")),  # already Monday there
        ("我们上周讨论了什么", SHANGHAI, ("03-22 16:00", "03-29 16:00")),
        ("上个月的计划", SHANGHAI, ("01-31 16:00", "02-28 16:00")),
        ("todays special", BERLIN, None),
        ("the last weekend", BERLIN, None),
        ("nothing of the kind", BERLIN, None),
    ],
)
def test_spans(query: str, zone: zoneinfo.ZoneInfo, expected: tuple[str, str] | None) -> None:
    assert _span(query, zone) == expected


def test_both_zone_and_reference_are_needed() -> None:
    zone, reference = (
        {"owner_timezone": "Asia/Shanghai"},
        {"reference_time": "2026-03-29T20:30:00Z"},
    )
    assert requests.parse_search({"query": "today", **zone}).recent_span_ms is None
    assert requests.parse_search({"query": "today", **reference}).recent_span_ms is None
    both = requests.parse_search({"query": "today", **zone, **reference})
    assert both.recent_span_ms is not None
    assert both.filter == requests.parse_search({"query": "today"}).filter


def test_a_reference_at_the_edge_of_time_is_refused() -> None:
    asked = {
        "query": "last month",
        "owner_timezone": "Asia/Shanghai",
        "reference_time": "0001-01-01T00:00:00+00:00",
    }
    with pytest.raises(InvalidFields):
        requests.parse_search(asked)
