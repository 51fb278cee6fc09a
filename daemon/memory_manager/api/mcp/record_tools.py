"""Tools that look at the memory as a whole, the ledger, the audit, and text before it is stored.

Contract: xmemo.md 11.5, 11.6.
"""

from __future__ import annotations

import asyncio
from typing import Final

from memory_manager.api.calls import Access
from memory_manager.api.mcp import text
from memory_manager.api.mcp.running import Body, Shape, reading, writing
from memory_manager.api.mcp.tool import Argument, Kind, Tool, ToolAnswer, ToolCall
from memory_manager.api.operations import audit, ledger, overview, xsk
from memory_manager.api.parsing import Fields
from memory_manager.security.redact import sanitize_server_write
from memory_manager.vault.rows import MAX_CONTENT_CHARACTERS

_LIMIT: Final = Argument("limit", kind=Kind.WHOLE)
_SINCE: Final = Argument("since", "RFC 3339 time")
_UNTIL: Final = Argument("until", "RFC 3339 time")
_MONTH: Final = (
    Argument("month", "1 to 12, or 2026-01"),
    Argument("year"),
    Argument("currency", "such as EUR"),
)
_ACTIVITIES: Final = (
    "all", "writes", "deletions", "reads", "reminders", "ledger", "timeline",
)  # fmt: skip


def _counts(body: Body) -> str:
    """Numbers by name, one line each."""
    lines: list[tuple[str, object]] = []
    for name, value in body.items():
        if isinstance(value, dict):
            lines.append((name, ", ".join(f"{key} {number}" for key, number in value.items())))
        elif isinstance(value, int | float | str):
            lines.append((name, value))
    return text.facts(lines)


def _overview(body: Body) -> str:
    recent = text.blocks(text.items_of(body, "recent"))
    return f"{_counts(body)}\n\n{recent}" if recent else _counts(body)


def _acts(name: str) -> Shape:
    def shape(body: Body) -> str:
        lines = [
            f"{act.get('created_at')} {act.get('action')} {act.get('target_id') or ''}".rstrip()
            for act in text.items_of(body, name)
        ]
        return "\n".join(lines)

    return shape


def _expense(item: Body) -> str:
    return (
        f"[{item.get('id')}] {item.get('spent_at')}: {item.get('amount')} {item.get('currency')} "
        f"{text.one_line(item.get('item'))}"
    )


def _expenses(body: Body) -> str:
    return "\n\n".join(_expense(item) for item in text.items_of(body, "transactions"))


def _month_sum(body: Body) -> str:
    return (
        f"{body.get('month')}: {body.get('total')} {body.get('currency')} "
        f"in {body.get('count')} expenses"
    )


async def _analyze(asked: ToolCall) -> ToolAnswer:
    """What storing a text would take out of it; nothing is stored and no secret is repeated."""
    fields = Fields.of_body(asked.arguments)
    name = "text" if asked.arguments.get("text") else "content"
    content = fields.required_text(name, limit=MAX_CONTENT_CHARACTERS)
    fields.check()
    found = await asyncio.to_thread(sanitize_server_write, content)
    rules = sorted({redaction.rule for redaction in found.redactions})
    body: dict[str, object] = {
        "text": found.text,
        "applied": found.applied,
        "redactions": rules,
        "characters": len(content),
    }
    said = f"Would be removed: {', '.join(rules)}" if rules else "Nothing would be removed."
    return ToolAnswer(f"{said}\n{text.without_blank_lines({'content': found.text})}", body)


RECORD_TOOLS: Final = (
    Tool(
        "memory_overview",
        "Show how much is remembered, the newest memories and what waits.",
        Access.READ,
        reading(overview.memory_overview, _overview),
        (_LIMIT,),
        read_only=True,
    ),
    Tool(
        "memory_stats",
        "Count memories by kind, bucket, scope, type and agent.",
        Access.READ,
        reading(overview.memory_stats, _counts),
        read_only=True,
    ),
    Tool(
        "memory_activity",
        "List what was done to memories, newest first.",
        Access.READ,
        reading(overview.memory_activity, _acts("activities")),
        (
            _LIMIT,
            _SINCE,
            _UNTIL,
            Argument("output_json", "the answer as JSON text", Kind.FLAG),
            Argument("activity_type", choices=_ACTIVITIES, default="all"),
            Argument("include_timeline", kind=Kind.FLAG),
        ),
        read_only=True,
    ),
    Tool(
        "list_audit_events",
        "List audit entries of records, newest first.",
        Access.READ,
        reading(audit.list_audit_events, _acts("events")),
        (Argument("action"), Argument("target_id"), _LIMIT, _SINCE, _UNTIL),
        read_only=True,
    ),
    Tool(
        "create_memory_conflict",
        "Note that memories contradict each other, and how it was resolved.",
        Access.WRITE,
        writing(xsk.add_memory_conflict, text.written),
        (
            Argument("title", required=True),
            Argument("context"),
            Argument("resolution"),
            Argument("scope"),
        ),
    ),
    Tool(
        "analyze_memory_text",
        "Show what storing a text would remove from it; nothing is stored.",
        Access.CREDENTIAL,
        _analyze,
        (Argument("content", required=True),),
        read_only=True,
    ),
    Tool(
        "add_expense",
        "Add an expense to the ledger.",
        Access.LEDGER_WRITE,
        writing(ledger.add_expense, lambda body: f"Added: {_expense(body)}"),
        (
            Argument("item", "what it was for", required=True),
            Argument("amount", "below zero: money back", Kind.NUMBER, required=True),
            Argument("currency", "such as EUR"),
            Argument("spent_at", "RFC 3339 time"),
            Argument("category"),
            Argument("note"),
            Argument("merchant"),
        ),
    ),
    Tool(
        "list_ledger_transactions",
        "List expenses, newest first.",
        Access.LEDGER_READ,
        reading(ledger.list_ledger_transactions, _expenses),
        (_LIMIT, *_MONTH, _SINCE, _UNTIL),
        read_only=True,
    ),
    Tool(
        "get_monthly_ledger_summary",
        "Sum the expenses of a month.",
        Access.LEDGER_READ,
        reading(ledger.monthly_ledger_summary, _month_sum),
        _MONTH,
        read_only=True,
    ),
)
