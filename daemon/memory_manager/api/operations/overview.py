"""What the memory holds and what goes on in it: numbers, recent activity, one project at a glance.

Read by MCP tools (xmemo.md 11.6); every number is counted under the retrieval gate.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

from sqlcipher3.dbapi2 import Connection

from memory_manager.api.calls import Call
from memory_manager.api.item_requests import (
    DEFAULT_LIST_LIMIT,
    DEFAULT_STATE_KEY,
    list_limit,
)
from memory_manager.api.items import hit_item, row_item
from memory_manager.api.operations.answer import Answer, answer
from memory_manager.api.operations.audit import event_json
from memory_manager.api.operations.item_access import within
from memory_manager.api.parsing import Fields
from memory_manager.api.requests import (
    DEFAULT_CONTEXT_TOKENS,
    MAX_CONTEXT_TOKENS,
    MAX_QUERY_CHARACTERS,
)
from memory_manager.base.path_filter import parse_path_filter
from memory_manager.base.times import now_ms, rfc3339
from memory_manager.recall.requests import ContextPack, SearchRequest
from memory_manager.service.daemon import Daemon
from memory_manager.vault import audit, counts, items, queries
from memory_manager.vault.audit import AuditEvent
from memory_manager.vault.counts import CountBy
from memory_manager.vault.filters import RowFilter
from memory_manager.vault.items import ItemFilter
from memory_manager.vault.rows import MemoryRow, RecordKind

_EVERYTHING: Final = RowFilter(kinds=None)
_ANY: Final = "all"
_WRITTEN: Final = (".created", ".updated", ".restored", ".redacted", ".imported")
_ACTIVITIES: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    # how an action begins and how it ends
    _ANY: (audit.RECORD_ACTIONS, ()),
    "writes": (("memory.", "state.", "decision.", "snapshot."), _WRITTEN),
    "deletions": (audit.RECORD_ACTIONS, (".deleted", ".destroyed")),
    "reads": (("snapshot.",), (".applied",)),  # reading a memory leaves no entry
    "reminders": (("reminder.",), ()),
    "ledger": (("expense.",), ()),
    "timeline": (("event.",), ()),
}


async def memory_stats(daemon: Daemon, _call: Call, _arguments: Mapping[str, object]) -> Answer:
    """``total`` memories, and numbers by kind, bucket, scope, type and agent."""

    def read(connection: Connection) -> dict[str, object]:
        now = now_ms()
        memories = RowFilter()
        return {
            "total": queries.count_rows(connection, memories, now),
            "kinds": counts.count_by(connection, CountBy.KIND, _EVERYTHING, now),
            "buckets": counts.count_by(connection, CountBy.BUCKET, memories, now),
            "scopes": counts.count_by(connection, CountBy.SCOPE, memories, now),
            "memory_types": counts.count_by(connection, CountBy.MEMORY_TYPE, memories, now),
            "agents": counts.count_by(connection, CountBy.AGENT, memories, now),
        }

    return answer(await daemon.store().read(read))


async def memory_overview(daemon: Daemon, call: Call, arguments: Mapping[str, object]) -> Answer:
    """Numbers, the newest memories, active states, and how many reminders and decisions wait."""
    fields = Fields.of_query(arguments)
    limit = fields.clamped("limit", 5, 1, 50)
    fields.check()

    def read(connection: Connection) -> dict[str, object]:
        now = now_ms()
        recent = queries.list_rows(
            connection, RowFilter(kinds=(RecordKind.MEMORY,)), now, by_updated=True, limit=limit
        )
        states = queries.list_rows(
            connection, RowFilter(kinds=(RecordKind.STATE,)), now, by_updated=True, limit=limit
        )
        open_reminders = ItemFilter(RecordKind.REMINDER, item_status="open")
        open_decisions = ItemFilter(RecordKind.DECISION, item_status="open")
        newest = max((row.updated_at_ms for row in (*recent, *states)), default=None)
        return {
            "total": queries.count_rows(connection, RowFilter(), now),
            "kinds": counts.count_by(connection, CountBy.KIND, _EVERYTHING, now),
            "buckets": counts.count_by(connection, CountBy.BUCKET, RowFilter(), now),
            "open_reminders": items.count_items(connection, open_reminders, now),
            "pending_decisions": items.count_items(connection, open_decisions, now),
            "last_written_at": None if newest is None else rfc3339(newest),
            "recent": within((row_item(row, call.identity) for row in recent), 2),
            "states": within((row_item(row, call.identity) for row in states), 2),
        }

    return answer(await daemon.store().read(read))


async def memory_activity(daemon: Daemon, call: Call, arguments: Mapping[str, object]) -> Answer:
    """``activities``: what was done, newest first, from the audit; ``events``: the timeline, unless
    ``include_timeline`` is false or another kind of activity is asked for.
    """
    fields = Fields.of_query(arguments)
    limit = list_limit(fields)
    since, until = fields.time_bounds()
    names = {name: name for name in _ACTIVITIES}
    kind = _ANY if fields.filter_text("activity_type") is None else None
    kind = kind or fields.choice("activity_type", names) or _ANY
    with_events = fields.flag("include_timeline", default=True) and kind in (_ANY, "timeline")
    fields.check()
    subjects, acts = _ACTIVITIES[kind]

    def read(connection: Connection) -> tuple[list[AuditEvent], list[MemoryRow]]:
        done = audit.record_events(
            connection,
            subjects=subjects,
            acts=acts,
            since_ms=since,
            until_ms=until,
            limit=limit,
        )
        if not with_events:
            return done, []
        chosen = ItemFilter(RecordKind.EVENT, since_ms=since, until_ms=until)
        return done, items.list_items(connection, chosen, now_ms(), limit=limit)

    done, happened = await daemon.store().read(read)
    return answer(
        {
            "activity_type": kind,
            "activities": [event_json(event) for event in done],
            "events": within((row_item(row, call.identity) for row in happened), 2),
        }
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Standing:
    """What waits in a project."""

    state: MemoryRow | None
    reminders: list[MemoryRow]
    decisions: list[MemoryRow]


async def get_project_context(
    daemon: Daemon, call: Call, arguments: Mapping[str, object]
) -> Answer:
    """Memories of one project with its state, open reminders and decisions.

    ``project_id`` is a scope; where nothing has that scope, it is a path. Without one, everything.
    Without a ``query``: the newest memories.
    """
    fields = Fields.of_body(arguments)
    project = fields.filter_text("project_id") or fields.filter_text("project")
    query = (fields.text("query", limit=None) or "*")[:MAX_QUERY_CHARACTERS]
    max_items = fields.clamped("limit", 8, 1, 50)
    max_tokens = fields.clamped("max_tokens", DEFAULT_CONTEXT_TOKENS, 1, MAX_CONTEXT_TOKENS)
    fields.check()
    daemon.store()

    async def packed(row_filter: RowFilter) -> ContextPack:
        request = SearchRequest(query, row_filter, max_items, prefer_working=True)
        return await daemon.recall.context(request, max_items=max_items, max_tokens=max_tokens)

    pack = await packed(RowFilter(scope=project))
    if project is not None and not pack.hits:
        pack = await packed(RowFilter(path=parse_path_filter(project)))
    standing = await daemon.store().read(lambda connection: _standing(connection, project))
    state = standing.state
    return answer(
        {
            "project_id": project,
            "items": within((hit_item(hit, call.identity) for hit in pack.hits), 4),
            "context_text": pack.text,
            "active_state": None if state is None else row_item(state, call.identity),
            "reminders": within((row_item(r, call.identity) for r in standing.reminders), 8),
            "decisions": within((row_item(d, call.identity) for d in standing.decisions), 8),
        }
    )


def _standing(connection: Connection, scope: str | None) -> _Standing:
    now = now_ms()
    states = queries.list_rows(
        connection,
        RowFilter(scope=scope, kinds=(RecordKind.STATE,)),
        now,
        by_updated=True,
        limit=50,
    )
    active = [state for state in states if state.semantic_key == DEFAULT_STATE_KEY]
    waiting = (
        items.list_items(
            connection,
            ItemFilter(kind, scope=scope, item_status="open"),
            now,
            limit=DEFAULT_LIST_LIMIT,
        )
        for kind in (RecordKind.REMINDER, RecordKind.DECISION)
    )
    return _Standing(next(iter(active or states), None), *waiting)
