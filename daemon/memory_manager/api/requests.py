"""Parsed requests of the memory routes: what a body or query string asks for, as values.

Contract: xmemo.md 4.7, 6.2-6.5, 13.
"""

from __future__ import annotations

import dataclasses
import re
import zoneinfo
from collections.abc import Mapping
from typing import Final

from memory_manager.api.parsing import WILDCARD, Fields
from memory_manager.api.spans import recent_span_ms
from memory_manager.base.errors import NotFound
from memory_manager.base.identifiers import MemoryId, memory_id_bytes
from memory_manager.base.path_filter import parse_path_filter
from memory_manager.recall.requests import Leg, SearchRequest, TimeOrder
from memory_manager.vault.filters import RowFilter, TimeAxis
from memory_manager.vault.prepared_version import MAX_PATH_CHARACTERS, MAX_REASON_CHARACTERS
from memory_manager.vault.rows import (
    DEFAULT_BUCKET,
    MAX_CONTENT_CHARACTERS,
    RECALLED_KINDS,
    UNSET,
    ForgetMode,
    MemoryChange,
    MemoryDraft,
    MemoryType,
    RecordKind,
)

MAX_QUERY_CHARACTERS: Final = 4_000  # longer ones are cut, as clients do themselves
MAX_SEARCH_LIMIT: Final = 5_000
MAX_CONTEXT_ITEMS: Final = 500
MAX_CONTEXT_TOKENS: Final = 100_000
DEFAULT_SEARCH_LIMIT: Final = 10
DEFAULT_CONTEXT_ITEMS: Final = 8
DEFAULT_CONTEXT_TOKENS: Final = 1_200

AUTO: Final = "auto"
_TYPES: Final[Mapping[str, MemoryType]] = {kind.value: kind for kind in MemoryType}
_TYPES_OR_AUTO: Final[Mapping[str, MemoryType | None]] = {**_TYPES, AUTO: None}
_ORDERS: Final = {order.value: order for order in TimeOrder}
_LEGS: Final = {leg.value: leg for leg in Leg}
_SPLIT_AXIS: Final = "split_filter_created_order_updated"
_AXES: Final = {"created_at": False, "updated_at": True, _SPLIT_AXIS: True}
_ACTIVITY_LOG: Final = "activity_log"
ACTIVITY_KINDS: Final = (*RECALLED_KINDS, RecordKind.EVENT)
"""What the activity feed shows: the timeline too."""
_QUERY_MODES: Final = {"topic": False, _ACTIVITY_LOG: True}
_MODES: Final = {mode.value: mode for mode in ForgetMode}
_MEMORY_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def parse_memory_id(segment: str) -> MemoryId:
    """The id in a path segment; NotFound for anything that cannot be one of ours."""
    folded = segment.strip().lower()
    if not _MEMORY_ID.fullmatch(folded):
        raise NotFound
    memory_id = MemoryId(folded)
    memory_id_bytes(memory_id)
    return memory_id


def parse_draft(values: Mapping[str, object]) -> MemoryDraft:
    """The row that POST /v1/remember wants to store."""
    fields = Fields.of_body(values)
    draft = MemoryDraft(
        content=fields.required_text("content", limit=MAX_CONTENT_CHARACTERS),
        path=fields.required_text("path", limit=MAX_PATH_CHARACTERS),
        bucket=fields.filter_text("bucket") or DEFAULT_BUCKET,
        scope=fields.filter_text("scope"),
        memory_type=fields.choice("memory_type", _TYPES_OR_AUTO),
        importance=fields.number("importance", 0, 1),
        confidence=fields.number("confidence", 0, 1),
        source=fields.text("source"),
        metadata=fields.mapping("metadata") or {},
        provenance=fields.mapping("provenance") or {},
        semantic_key=fields.text("semantic_key"),
        expires_at_ms=fields.time("expires_at"),
        dedupe=fields.flag("dedupe"),
    )
    fields.check()
    return draft


def parse_change(values: Mapping[str, object]) -> MemoryChange:
    """The partial update of PATCH; what was not sent, and null content, stays as it is."""
    fields = Fields.of_body(values)
    content = fields.text("content", limit=MAX_CONTENT_CHARACTERS)
    path = fields.text("path", limit=MAX_PATH_CHARACTERS)
    bucket = fields.filter_text("bucket")
    kind = fields.choice("memory_type", _TYPES_OR_AUTO)
    source = fields.text("source")
    metadata = fields.mapping("metadata")
    provenance = fields.mapping("provenance")
    merge_metadata, metadata = _merge(fields, "merge_metadata", metadata)
    merge_provenance, provenance = _merge(fields, "merge_provenance", provenance)
    scope = fields.text("scope")
    importance = fields.number("importance", 0, 1)
    confidence = fields.number("confidence", 0, 1)
    expires = fields.time("expires_at")
    semantic_key = fields.text("semantic_key")
    fields.check()
    return MemoryChange(
        content=UNSET if content is None else content,
        path=UNSET if path is None else path,
        bucket=UNSET if bucket is None else bucket,
        scope=UNSET if scope is None or scope == WILDCARD else scope,
        memory_type=UNSET if kind is None else kind,
        importance=UNSET if importance is None else importance,
        confidence=UNSET if confidence is None else confidence,
        source=UNSET if source is None else source,
        metadata=UNSET if metadata is None else metadata,
        provenance=UNSET if provenance is None else provenance,
        merge_metadata=merge_metadata,
        merge_provenance=merge_provenance,
        semantic_key=UNSET if semantic_key is None else semantic_key,
        expires_at_ms=expires if fields.has("expires_at") else UNSET,
    )


def _merge(
    fields: Fields, name: str, given: Mapping[str, object] | None
) -> tuple[bool, Mapping[str, object] | None]:
    """``merge_x`` is either a flag beside ``x`` or the object to merge."""
    if not fields.has(name):
        return False, given
    if given is None and not isinstance(fields.raw(name), bool):
        return True, fields.mapping(name)
    return fields.flag(name), given


@dataclasses.dataclass(frozen=True, slots=True)
class ForgetRequest:
    mode: ForgetMode
    reason: str | None = dataclasses.field(repr=False)
    replacement: str | None = dataclasses.field(repr=False)


def parse_forget(values: Mapping[str, object]) -> ForgetRequest:
    fields = Fields.of_body(values)
    request = ForgetRequest(
        mode=fields.choice("mode", _MODES) or ForgetMode.SOFT_DELETE,
        reason=fields.text("reason", limit=MAX_REASON_CHARACTERS),
        replacement=fields.text("replacement_content", limit=MAX_CONTENT_CHARACTERS),
    )
    fields.check()
    return request


@dataclasses.dataclass(frozen=True, slots=True)
class RestoreRequest:
    version: int | None
    reason: str | None = dataclasses.field(repr=False)


def parse_restore(values: Mapping[str, object]) -> RestoreRequest:
    fields = Fields.of_body(values)
    version = fields.number("version", 1, 2**53)
    reason = fields.text("reason", limit=MAX_REASON_CHARACTERS)
    if version is not None and not float(version).is_integer():
        fields.refuse("version", "must be a whole number", "int_type")
    fields.check()
    return RestoreRequest(None if version is None else int(version), reason)


def parse_filter(fields: Fields, *, axis: TimeAxis = TimeAxis.CREATED_AT) -> RowFilter:
    """The filters of xmemo.md 4.7 and the temporal bounds ``[since, until)``."""
    since, until = fields.time_bounds()
    return RowFilter(
        bucket=fields.filter_text("bucket"),
        scope=fields.filter_text("scope"),
        memory_type=_type_filter(fields),
        path=parse_path_filter(fields.text("path", limit=MAX_PATH_CHARACTERS)),
        agent_id=fields.filter_text("agent_id"),
        since_ms=since,
        until_ms=until,
        time_axis=axis,
    )


def _type_filter(fields: Fields) -> MemoryType | None:
    if fields.filter_text("memory_type") is None:
        return None
    return fields.choice("memory_type", _TYPES_OR_AUTO)


def parse_search(values: Mapping[str, object]) -> SearchRequest:
    """GET /v1/memories/search; ``q`` is another spelling of ``query``."""
    fields = Fields.of_query(values)
    name = "query" if values.get("query") or not values.get("q") else "q"
    query = fields.required_text(name, limit=None)
    limit = fields.clamped("limit", DEFAULT_SEARCH_LIMIT, 1, MAX_SEARCH_LIMIT)
    request = _search(fields, query, limit)
    fields.check()
    return request


@dataclasses.dataclass(frozen=True, slots=True)
class ContextRequest:
    search: SearchRequest
    max_items: int
    max_tokens: int


def parse_context(values: Mapping[str, object]) -> ContextRequest:
    """POST /v1/recall/context."""
    fields = Fields.of_body(values)
    query = fields.required_text("query", limit=None)
    fallback = fields.clamped("limit", DEFAULT_CONTEXT_ITEMS, 1, MAX_CONTEXT_ITEMS)
    max_items = fields.clamped("max_items", fallback, 1, MAX_CONTEXT_ITEMS)
    max_tokens = fields.clamped("max_tokens", DEFAULT_CONTEXT_TOKENS, 1, MAX_CONTEXT_TOKENS)
    search = _search(fields, query, max_items, prefer_working=True)
    fields.check()
    return ContextRequest(search, max_items, max_tokens)


def _search(
    fields: Fields, query: str, limit: int, *, prefer_working: bool = False
) -> SearchRequest:
    by_updated = fields.choice("temporal_axis_mode", _AXES) or False
    filter_updated = by_updated and fields.text("temporal_axis_mode") != _SPLIT_AXIS
    row_filter = parse_filter(
        fields, axis=TimeAxis.UPDATED_AT if filter_updated else TimeAxis.CREATED_AT
    )
    activity_log = fields.choice("query_mode", _QUERY_MODES) or False
    if activity_log:
        row_filter = dataclasses.replace(row_filter, kinds=ACTIVITY_KINDS)
        for bound in ("since", "until"):
            if not fields.text(bound):
                fields.refuse(bound, "activity_log needs both since and until", "missing")
    query = query[:MAX_QUERY_CHARACTERS]
    return SearchRequest(
        query=query,
        filter=row_filter,
        limit=limit,
        time_order=fields.choice("time_order", _ORDERS),
        order_by_updated=by_updated,
        activity_log=activity_log,
        prefer_working=fields.flag("prefer_working", default=prefer_working),
        explain=fields.flag("explain"),
        leg=fields.choice("leg", _LEGS),
        hypothetical_answer=fields.text("hypothetical_answer", limit=None),
        score_threshold=fields.number("threshold", 0, 1),
        recent_span_ms=_span(fields, query),
    )


def _span(fields: Fields, query: str) -> tuple[int, int] | None:
    """What a word of time in the query means, when zone and reference time are both given."""
    reference = fields.time("reference_time")
    name = fields.text("owner_timezone")
    if name is None:
        return None
    try:
        zone = zoneinfo.ZoneInfo(name)
    except (OSError, ValueError, zoneinfo.ZoneInfoNotFoundError):
        fields.refuse("owner_timezone", "must be an IANA time zone", "timezone")
        return None
    if reference is None:
        return None
    try:
        return recent_span_ms(query, reference, zone)
    except (OverflowError, ValueError):
        fields.refuse("reference_time", "must be a time of this era", "datetime")
        return None
