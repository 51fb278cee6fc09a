"""What a hosted agent asks: parsed as tolerantly as the daemon does (xmemo.md 4.5, 4.7, 6.3, 6.4).

null, "" and ``%`` are no filter; numbers are pressed into their range. Only a missing query and
impossible times are refused.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Final

from memory_manager.base.errors import InvalidInput
from memory_manager.base.path_filter import parse_path_filter
from memory_manager.base.times import parse_rfc3339
from memory_manager.sync.server.index.errors import AgentRequestRefused
from memory_manager.sync.server.index.search import Query

MAX_QUERY_CHARACTERS: Final = 4_000
MAX_SEARCH_ITEMS: Final = 500
MAX_CONTEXT_ITEMS: Final = 500
MAX_CONTEXT_TOKENS: Final = 100_000
DEFAULT_SEARCH_ITEMS: Final = 10
DEFAULT_CONTEXT_ITEMS: Final = 8
DEFAULT_CONTEXT_TOKENS: Final = 1_200
_ANY: Final = ("", "%", "auto")
_UPDATED: Final = "updated_at"
_SPLIT: Final = "split_filter_created_order_updated"


@dataclasses.dataclass(frozen=True, slots=True)
class ContextQuery:
    """``query.limit`` is how many items fit at most, ``max_tokens`` their budget."""

    query: Query
    max_tokens: int


def parse_search(values: Mapping[str, object]) -> Query:
    """The parameters of a search; ``q`` is another name of ``query``."""
    name = "query" if values.get("query") or not values.get("q") else "q"
    limit = _clamped(values, "limit", DEFAULT_SEARCH_ITEMS, MAX_SEARCH_ITEMS)
    return _query(values, name, limit, "query")


def parse_context(values: Mapping[str, object]) -> ContextQuery:
    """The body of a context request."""
    fallback = _clamped(values, "limit", DEFAULT_CONTEXT_ITEMS, MAX_CONTEXT_ITEMS)
    items = _clamped(values, "max_items", fallback, MAX_CONTEXT_ITEMS)
    tokens = _clamped(values, "max_tokens", DEFAULT_CONTEXT_TOKENS, MAX_CONTEXT_TOKENS)
    return ContextQuery(_query(values, "query", items, "body"), tokens)


def _query(values: Mapping[str, object], name: str, limit: int, place: str) -> Query:
    text = values.get(name)
    if not isinstance(text, str) or not text.strip():
        raise AgentRequestRefused(name, "field required", "missing", place=place)
    since, until = _time(values, "since", place), _time(values, "until", place)
    if since is not None and until is not None and until <= since:
        raise AgentRequestRefused("until", "must be later than since", "value_error", place=place)
    axis, path = values.get("temporal_axis_mode"), values.get("path")
    order = values.get("time_order")
    newest_first = {"desc": True, "asc": False}.get(order) if isinstance(order, str) else None
    if values.get("query_mode") == "activity_log":
        if since is None or until is None:
            missing = "since" if since is None else "until"
            message = "activity_log needs both since and until"
            raise AgentRequestRefused(missing, message, "missing", place=place)
        text, newest_first = "*", newest_first is not False
    return Query(
        text=text[:MAX_QUERY_CHARACTERS],
        limit=limit,
        bucket=_filter(values, "bucket"),
        scope=_filter(values, "scope"),
        memory_type=_filter(values, "memory_type"),
        path=parse_path_filter(path) if isinstance(path, str) else None,
        since_ms=since,
        until_ms=until,
        filter_updated=axis == _UPDATED,
        order_updated=axis in (_UPDATED, _SPLIT),
        newest_first=newest_first,
        threshold=_number(values.get("threshold")),
    )


def _filter(values: Mapping[str, object], name: str) -> str | None:
    value = values.get(name)
    return value if isinstance(value, str) and value not in _ANY else None


def _time(values: Mapping[str, object], name: str, place: str) -> int | None:
    value = values.get(name)
    if value is None or value == "":
        return None
    try:
        return parse_rfc3339(str(value), name)
    except InvalidInput:
        message = "must be an RFC 3339 time with an offset"
        raise AgentRequestRefused(name, message, "datetime", place=place) from None


def _clamped(values: Mapping[str, object], name: str, default: int, most: int) -> int:
    number = _number(values.get(name))
    return default if number is None else int(max(1, min(most, number)))


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str) or value == "":
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
