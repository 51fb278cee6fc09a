"""Many memories at once, page by page (xmemo.md 5 #39)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from sqlcipher3.dbapi2 import Connection

from memory_manager.api.answers import list_text
from memory_manager.api.calls import Call
from memory_manager.api.items import fitting_items, row_item
from memory_manager.api.operations.answer import Answer
from memory_manager.api.parsing import Fields
from memory_manager.api.requests import parse_filter
from memory_manager.base.times import now_ms
from memory_manager.service.daemon import Daemon
from memory_manager.vault import queries
from memory_manager.vault.filters import RowFilter, TimeAxis
from memory_manager.vault.rows import MemoryRow

DEFAULT_PAGE: Final = 50
MAX_PAGE: Final = 5_000

_MAX_OFFSET: Final = 1 << 40
_AXES: Final = {"created_at": False, "updated_at": True}


@dataclasses.dataclass(frozen=True, slots=True)
class ListRequest:
    filter: RowFilter
    limit: int
    offset: int
    newest_first: bool
    by_updated: bool


def parse_list(arguments: Mapping[str, object], *, is_owner: bool) -> ListRequest:
    """Filters as in search; ``include_deleted`` and ``include_hidden`` count for the owner only."""
    fields = Fields.of_query(arguments)
    by_updated = fields.choice("temporal_axis_mode", _AXES) or False
    axis = TimeAxis.UPDATED_AT if by_updated else TimeAxis.CREATED_AT
    start = fields.clamped("offset", 0, 0, _MAX_OFFSET)
    asked = ListRequest(
        filter=dataclasses.replace(
            parse_filter(fields, axis=axis),
            include_deleted=is_owner and fields.flag("include_deleted"),
            include_hidden=is_owner and fields.flag("include_hidden"),
        ),
        limit=fields.clamped("limit", DEFAULT_PAGE, 1, MAX_PAGE),
        offset=fields.clamped("cursor", start, 0, _MAX_OFFSET),
        newest_first=fields.text("time_order") != "asc",
        by_updated=by_updated,
    )
    fields.check()
    return asked


async def list_memories(daemon: Daemon, call: Call, arguments: Mapping[str, object]) -> Answer:
    """One page, newest first; ``next_cursor`` is null on the last one."""
    asked = parse_list(arguments, is_owner=call.caller.is_owner)

    def read(connection: Connection) -> tuple[list[MemoryRow], int]:
        now = now_ms()
        rows = queries.list_rows(
            connection,
            asked.filter,
            now,
            newest_first=asked.newest_first,
            by_updated=asked.by_updated,
            limit=asked.limit,
            offset=asked.offset,
        )
        return rows, queries.count_rows(connection, asked.filter, now)

    rows, total = await daemon.store().read(read)
    texts, truncated = fitting_items(row_item(row, call.identity) for row in rows)
    end = asked.offset + len(texts)
    rest = {
        "total": total,
        "next_cursor": str(end) if end < total else None,
        "truncated": truncated,
    }
    return Answer(200, list_text("results", texts, rest))
