"""Tools for work in progress: state, timeline, reminders, decisions, restart snapshots, projects.

Contract: xmemo.md 11.5, 11.6.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from memory_manager.api.calls import Access, may
from memory_manager.api.errors import OutOfScope
from memory_manager.api.mcp import text
from memory_manager.api.mcp.framing import framed, within_frame
from memory_manager.api.mcp.running import (
    Body,
    Prepare,
    Reading,
    Shape,
    Writing,
    operation_arguments,
    read,
    reading,
    write,
    writing,
)
from memory_manager.api.mcp.tool import Argument, Kind, Tool, ToolAnswer, ToolCall
from memory_manager.api.operations import (
    decisions,
    overview,
    reminders,
    restart,
    state,
    timeline,
)
from memory_manager.api.parsing import Fields

_LIMIT: Final = Argument("limit", kind=Kind.WHOLE)
_SCOPE: Final = Argument("scope")
_WORK_BUCKET: Final = Argument("bucket", default="work")
_ANY_BUCKET: Final = Argument("bucket", default="%")
_METADATA: Final = Argument("metadata_json", "JSON object")
_TTL: Final = Argument("ttl_seconds", "0 = never expires", Kind.WHOLE)
_STATUS: Final = Argument("item_status", "% means any", default="open")
_DUE: Final = Argument("due_at", "RFC 3339 time")
_REMINDER_ID: Final = Argument("todo_id", "id of the reminder", required=True)
_STATE_KEY: Final = Argument("state_key", default="active_task")


def _any_bucket(arguments: Mapping[str, object]) -> dict[str, object]:
    return {"bucket": "%", **operation_arguments(arguments)}


def _of_project(arguments: Mapping[str, object]) -> dict[str, object]:
    """The lists of a project are those of its scope, in every bucket."""
    found = _any_bucket(arguments)
    project = found.get("project_id")
    return {**found, "scope": found.get("scope") or project} if project else found


def _decision_arguments(arguments: Mapping[str, object]) -> dict[str, object]:
    found = operation_arguments(arguments)
    options = found.pop("options_text", None)
    if isinstance(options, str) and options.strip() and not found.get("options"):
        found["options"] = [line.strip() for line in options.splitlines() if line.strip()]
    return found


def _line(item: Body) -> str:
    """An item with what matters of its kind, as one block."""
    details = [
        f"{name} {value}"
        for name in ("item_status", "due_at", "occurred_at", "resolution")
        if (value := item.get(name)) is not None
    ]
    label = item.get("event_type") or item.get("kind") or "item"
    suffix = f" ({text.one_line(', '.join(details))})" if details else ""
    return f"[{item.get('id')}] {text.one_line(label)}: {text.without_blank_lines(item)}{suffix}"


def _listed(name: str) -> Shape:
    def shape(body: Body) -> str:
        return "\n\n".join(_line(item) for item in text.items_of(body, name))

    return shape


def _state(body: Body) -> str:
    return (
        f"State {text.one_line(body.get('state_key'))} is version {body.get('version')}, "
        f"id {body.get('id')}"
    )


def _restored(body: Body) -> str:
    """What the caller goes on with; the empty text when there is no snapshot."""
    snapshot = body.get("snapshot")
    if body.get("restored") is not True or not isinstance(snapshot, dict):
        return ""
    active = snapshot.get("active_state")
    parts = [f"Restored snapshot {body.get('snapshot_id')}"]
    if isinstance(active, dict):
        parts.append(_line(active))
    for name in ("timeline", "reminders", "decisions"):
        parts += [_line(item) for item in text.items_of(snapshot, name)]
    return "\n\n".join(parts)


def _project(body: Body) -> str:
    parts = [str(body.get("context_text") or "")]
    active = body.get("active_state")
    if isinstance(active, dict):
        parts.append(_line(active))
    for name in ("reminders", "decisions"):
        parts += [_line(item) for item in text.items_of(body, name)]
    return framed("\n\n".join(part for part in parts if part))


_PROJECT_CONTEXT: Final = within_frame(overview.get_project_context)


def _changed(name: str) -> Shape:
    """The confirmation of a write to an item."""

    def shape(body: Body) -> str:
        if body.get("skipped") is True:
            return "Not kept: there was a private key or the like in it"
        return f"{name}: {_line(body)}"

    return shape


def _by_action(
    reads: Mapping[str, tuple[Reading, Shape]],
    writes: Mapping[str, tuple[Writing, Shape]],
    default: str,
    prepare: Prepare = operation_arguments,
) -> Callable[[ToolCall], Awaitable[ToolAnswer]]:
    """One tool with an ``action`` argument; each action needs the right it would need alone."""

    async def run(asked: ToolCall) -> ToolAnswer:
        fields = Fields.of_body(asked.arguments)
        names = {name: name for name in (*reads, *writes)}
        action = fields.choice("action", names) or default
        fields.check()
        arguments = prepare(asked.arguments)
        if action in reads:
            look, shape = reads[action]
            body = await read(asked, look, arguments)
            return ToolAnswer(shape(body), body)
        if not may(asked.call.caller, Access.WRITE):
            raise OutOfScope
        change, shape = writes[action]
        body = await write(asked, change, arguments)
        return ToolAnswer(shape(body), body)

    return run


_REMINDERS_SHOWN: Final = (reminders.list_reminders, _listed("reminders"))
_REMINDER_ADDED: Final = (reminders.create_reminder, _changed("Added"))
_REMINDER_DONE: Final = (reminders.complete_reminder, _changed("Completed"))
_REMINDER_FILTERS: Final = (_STATUS, _LIMIT, _SCOPE, _ANY_BUCKET, Argument("due_before"))
_NEW_REMINDER: Final = (Argument("content", required=True), _DUE, _SCOPE, _WORK_BUCKET)


def _reminder_tools(add: str, show: str, done: str, id_argument: Argument) -> tuple[Tool, ...]:
    """The three tools of reminders; clients also know them as todos."""
    return (
        Tool(
            add,
            "Note something to do later, maybe with a time.",
            Access.WRITE,
            writing(*_REMINDER_ADDED),
            _NEW_REMINDER,
        ),
        Tool(
            show,
            "List reminders, the open ones unless asked otherwise.",
            Access.READ,
            reading(*_REMINDERS_SHOWN),
            _REMINDER_FILTERS,
            read_only=True,
        ),
        Tool(
            done,
            "Mark a reminder as done.",
            Access.WRITE,
            writing(*_REMINDER_DONE),
            (id_argument, Argument("note")),
            idempotent=True,
        ),
    )


WORK_TOOLS: Final = (
    Tool(
        "update_state",
        "Replace the working state: current task, next action, what blocks it.",
        Access.WRITE,
        writing(state.update_state, _state),
        (
            Argument("content"),
            _STATE_KEY,
            Argument("current_task"),
            Argument("next_action"),
            Argument("blocked_reason"),
            _WORK_BUCKET,
            _SCOPE,
            _TTL,
            _METADATA,
        ),
        idempotent=True,
    ),
    Tool(
        "record_event",
        "Add an event to the timeline.",
        Access.WRITE,
        writing(timeline.record_event, _changed("Recorded")),
        (
            Argument("content", required=True),
            Argument("event_type", default="event"),
            _WORK_BUCKET,
            _SCOPE,
            Argument("session_id"),
            Argument("occurred_at", "RFC 3339 time"),
            _METADATA,
        ),
    ),
    Tool(
        "get_timeline",
        "List events, newest first.",
        Access.READ,
        reading(timeline.get_timeline, _listed("events"), _any_bucket),
        (
            _LIMIT,
            _SCOPE,
            _ANY_BUCKET,
            Argument("event_type"),
            Argument("session_id"),
            Argument("since", "RFC 3339 time"),
            Argument("until", "RFC 3339 time"),
        ),
        read_only=True,
    ),
    *_reminder_tools(
        "create_memory_todo", "list_memory_todos", "complete_memory_todo", _REMINDER_ID
    ),
    Tool(
        "todo",
        "Add, list or complete reminders.",
        Access.READ,
        _by_action(
            {"list": _REMINDERS_SHOWN},
            {
                "add": _REMINDER_ADDED,
                "create": _REMINDER_ADDED,
                "complete": _REMINDER_DONE,
                "done": _REMINDER_DONE,
            },
            "list",
        ),
        (
            Argument(
                "action", choices=("list", "add", "create", "complete", "done"), default="list"
            ),
            Argument("content", "for add"),
            Argument("todo_id", "for complete"),
            _DUE,
            _STATUS,
            _LIMIT,
            _SCOPE,
        ),
    ),
    Tool(
        "create_restart_snapshot",
        "Keep where you stopped: state, events, open reminders and decisions.",
        Access.WRITE,
        writing(restart.create_restart_snapshot, lambda body: f"Snapshot: {body.get('id')}"),
        (
            _WORK_BUCKET,
            _SCOPE,
            _STATE_KEY,
            Argument("session_id"),
            Argument("label"),
            _TTL,
            _METADATA,
            Argument("decision_limit", kind=Kind.WHOLE),
            Argument("reminder_limit", kind=Kind.WHOLE),
            Argument("timeline_limit", kind=Kind.WHOLE),
        ),
    ),
    Tool(
        "restore_restart_snapshot",
        "Go on where a snapshot stopped: the named one, else the newest.",
        Access.WRITE,
        writing(restart.restore_restart_snapshot, _restored),
        (
            _WORK_BUCKET,
            _SCOPE,
            Argument("state_key"),
            Argument("snapshot_id"),
            _TTL,
            Argument("restore_state", kind=Kind.FLAG),
            Argument("source_session_id"),
            Argument("target_session_id"),
            Argument("record_restore_event", kind=Kind.FLAG),
        ),
    ),
    Tool(
        "create_pending_decision",
        "Note a decision that somebody has to take.",
        Access.WRITE,
        writing(decisions.create_decision, _changed("Pending"), _decision_arguments),
        (
            Argument("context", "what is to be decided", required=True),
            Argument("options_text", "one option a line"),
            _DUE,
            _SCOPE,
            Argument("path"),
            _WORK_BUCKET,
        ),
    ),
    Tool(
        "list_pending_decisions",
        "List decisions, the open ones unless asked otherwise.",
        Access.READ,
        reading(decisions.list_decisions, _listed("decisions")),
        (_LIMIT, _SCOPE, _ANY_BUCKET, Argument("due_before", "RFC 3339 time"), _STATUS),
        read_only=True,
    ),
    Tool(
        "resolve_decision",
        "Say how a decision was taken.",
        Access.WRITE,
        writing(decisions.resolve_decision, _changed("Resolved")),
        (
            Argument("decision_id", "id of the decision", required=True),
            Argument("resolution", required=True),
        ),
        idempotent=True,
    ),
    Tool(
        "get_project_context",
        "Get a project's memories, state, open reminders and decisions as one text.",
        Access.READ,
        reading(_PROJECT_CONTEXT, _project),
        (
            Argument("query", "what matters now"),
            Argument("project_id", "a scope, or a path"),
            Argument("max_tokens", "size of the text", Kind.WHOLE),
        ),
        read_only=True,
    ),
    Tool(
        "project",
        "A project's context, or its timeline, reminders or decisions.",
        Access.READ,
        _by_action(
            {
                "context": (_PROJECT_CONTEXT, _project),
                "todos": _REMINDERS_SHOWN,
                "decisions": (decisions.list_decisions, _listed("decisions")),
                "timeline": (timeline.get_timeline, _listed("events")),
            },
            {},
            "context",
            _of_project,
        ),
        (
            Argument(
                "action", choices=("context", "todos", "decisions", "timeline"), default="context"
            ),
            Argument("project_id", "a scope, or a path"),
            Argument("query", "for context"),
            _SCOPE,
            _LIMIT,
        ),
        read_only=True,
    ),
    *_reminder_tools(
        "create_reminder",
        "list_reminders",
        "complete_reminder",
        Argument("reminder_id", "id of the reminder", required=True),
    ),
)
