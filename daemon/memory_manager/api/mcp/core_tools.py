"""The tools that every profile lists: find, store, change, forget (xmemo.md 11.5; recall.md 13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlcipher3.dbapi2 import Connection

from memory_manager.api.calls import Access
from memory_manager.api.mcp import text
from memory_manager.api.mcp.framing import within_frame
from memory_manager.api.mcp.identity_tool import IDENTITY_TOOL
from memory_manager.api.mcp.running import (
    Body,
    operation_arguments,
    reading,
    write,
    writing,
)
from memory_manager.api.mcp.tool import Argument, Kind, Tool, ToolAnswer, ToolCall
from memory_manager.api.operations import memory
from memory_manager.api.operations.memory import ID_MEMBER
from memory_manager.api.operations.recall import context, search
from memory_manager.api.operations.remember import remember
from memory_manager.api.parsing import Fields
from memory_manager.base.errors import NotFound
from memory_manager.base.times import now_ms
from memory_manager.vault import queries
from memory_manager.vault.filters import RowFilter
from memory_manager.vault.rows import ForgetMode, RecordKind

MAX_HITS: Final = 10
MEMORY_TYPES: Final = ("auto", "semantic", "episodic", "procedural", "working", "identity")
MEMORY_ID: Final = Argument("memory_id", "id of the memory", required=True)
REASON: Final = Argument("reason", "why, kept in its history")

_LATEST: Final = frozenset({"", "current", "latest"})
_MEMORIES: Final = RowFilter(kinds=(RecordKind.MEMORY,))
_LATEST_WINDOW: Final = 200  # rows looked through for the caller's own newest one

_AGENT: Final = (Argument("agent_id"), Argument("agent_instance_id"))
_SCOPE: Final = Argument("scope", "only this scope", core=True)
_PATH_FILTER: Final = Argument(
    "path_filter", "this path and below; % means any", default="%", core=True
)
_SEARCHED: Final = (
    Argument("query", "what to look for; * lists everything", required=True),
    Argument("limit", "at most 10", Kind.WHOLE, core=True),
    _PATH_FILTER,
    Argument("memory_type", "only this type", default="%"),
    Argument("explain", kind=Kind.FLAG),
    Argument("prefer_working", kind=Kind.FLAG),
)
STORED: Final = (
    Argument("content", "the text to keep, self-contained", required=True),
    Argument("path", "topic such as projects/alpha", required=True),
    Argument("scope", "free label of a workspace", core=True),
    Argument("bucket", "collection", default="public", core=True),
    Argument("memory_type", choices=MEMORY_TYPES, default="auto", core=True),
    Argument("dedupe", "true: do not store the same text twice", Kind.FLAG, core=True),
    Argument("semantic_key", "same key replaces the former text", core=True),
    Argument("importance", "0 to 1", Kind.NUMBER),
    Argument("confidence", "0 to 1", Kind.NUMBER),
    Argument("expires_at", "RFC 3339 time"),
    Argument("memory_id", "change this memory instead"),
    Argument("team_id"),
    *_AGENT,
    Argument("device_id"),
    Argument("device_label"),
    Argument("metadata_json", "JSON object", default="{}"),
    Argument("provenance_json", "JSON object"),
    Argument("embedding_json", "ignored"),
)


def _found(arguments: Mapping[str, object]) -> dict[str, object]:
    fields = Fields.of_body(arguments)
    limit = fields.clamped("limit", MAX_HITS, 1, MAX_HITS)
    fields.check()
    return {**operation_arguments(arguments), "limit": limit}


def _results(body: Body) -> str:
    return text.blocks(text.items_of(body, "results"))


def _context_text(body: Body) -> str:
    return str(body.get("context_text") or "")


def _explained(body: Body) -> str:
    item, origin = body.get("memory"), body.get("provenance")
    known = item if isinstance(item, dict) else {}
    source = origin if isinstance(origin, dict) else {}
    match = body.get("match")
    lines = text.facts(
        [
            ("type", known.get("memory_type")),
            ("version", known.get("version")),
            ("created", known.get("created_at")),
            ("updated", known.get("updated_at")),
            ("written by", source.get("written_by") or source.get("client")),
            ("boundary", known.get("ownership")),
            ("match", match if isinstance(match, dict) else None),
        ]
    )
    return f"{text.block(known)}\n{lines}"


async def remember_memory(asked: ToolCall) -> ToolAnswer:
    """Store, or change the memory that ``memory_id`` names."""
    arguments = operation_arguments(asked.arguments)
    if asked.arguments.get("memory_id"):
        body = await write(asked, memory.update, arguments)
        return ToolAnswer(text.updated(body), body)
    arguments.pop(ID_MEMBER, None)
    body = await write(asked, remember, arguments)
    return ToolAnswer(text.written(body), body)


async def forget_memory(asked: ToolCall) -> ToolAnswer:
    """Forget one row softly: an exact id, or the newest one that this credential wrote."""
    fields = Fields.of_body(asked.arguments)
    target = (fields.text("target") or fields.text("memory_id") or "").strip()
    fields.check()
    if target.lower() in _LATEST:
        target = await _newest_own(asked)
    chosen = {
        ID_MEMBER: target,
        "mode": ForgetMode.SOFT_DELETE.value,
        "reason": asked.arguments.get("reason"),
    }
    body = await write(asked, memory.forget, chosen)
    return ToolAnswer(text.written(body), body)


async def _newest_own(asked: ToolCall) -> str:
    """The id of the newest live memory of the caller's credential; NotFound without one.

    Never somebody else's: an agent that means "what I just stored" must not delete another's row.
    """
    credential_id = asked.call.caller.credential_id

    def find(connection: Connection) -> str:
        rows = queries.list_rows(
            connection, _MEMORIES, now_ms(), by_updated=True, limit=_LATEST_WINDOW
        )
        for row in rows:
            if row.writer.credential_id == credential_id:
                return row.id
        raise NotFound("This client stored no memory of late; name one by its id.")

    return await asked.daemon.store().read(find)


CORE_TOOLS: Final = (
    IDENTITY_TOOL,
    Tool(
        "remember",
        "Store a lasting fact, decision or preference; secrets in it are removed first.",
        Access.WRITE,
        remember_memory,
        STORED,
    ),
    Tool(
        "recall",
        "Find memories by meaning and words; ask before work and whenever the past matters.",
        Access.READ,
        reading(search, _results, _found),
        (*_SEARCHED, *_AGENT),
        read_only=True,
    ),
    Tool(
        "search_memory",
        "Find memories as recall does, within a scope.",
        Access.READ,
        reading(search, _results, _found),
        (*_SEARCHED, _SCOPE, Argument("team_id"), *_AGENT),
        read_only=True,
    ),
    Tool(
        "recall_context",
        "Get the memories that fit a question as one text within a token budget.",
        Access.READ,
        reading(within_frame(context), _context_text),
        (
            Argument("query", "the question or task", required=True),
            Argument("max_tokens", "size of the text", Kind.WHOLE, core=True),
            _PATH_FILTER,
            _SCOPE,
            Argument("limit", kind=Kind.WHOLE),
            Argument("max_items", "at most 500", Kind.WHOLE),
            Argument("bucket", "only this bucket", default="%"),
            Argument("memory_type", "only this type", default="auto"),
            Argument("prefer_working", kind=Kind.FLAG),
            Argument("output_json", "the answer as JSON text", Kind.FLAG),
            Argument("team_id"),
            *_AGENT,
        ),
        read_only=True,
    ),
    Tool(
        "update_memory",
        "Change a memory; what is not given stays, and older versions are kept.",
        Access.WRITE,
        writing(memory.update, text.updated),
        (
            MEMORY_ID,
            Argument("content", "new text", core=True),
            Argument("path", "new topic", core=True),
            Argument("scope"),
            Argument("bucket"),
            Argument("status"),
            Argument("memory_type", choices=MEMORY_TYPES, core=True),
            Argument("importance", "0 to 1", Kind.NUMBER),
            Argument("confidence", "0 to 1", Kind.NUMBER),
            Argument("expires_at", "RFC 3339 time"),
            Argument("semantic_key"),
            Argument("metadata_json", "JSON object"),
            Argument("merge_metadata", "add to the old metadata", Kind.FLAG),
            Argument("provenance_json", "JSON object"),
            Argument("merge_provenance", "add to the old provenance", Kind.FLAG),
            Argument("detect_conflicts", kind=Kind.FLAG),
            Argument("team_id"),
        ),
        idempotent=True,
    ),
    Tool(
        "forget",
        "Take a memory out of every recall at once; it can be restored.",
        Access.WRITE,
        forget_memory,
        (
            Argument(
                "target", "memory id; current = the last you wrote", default="current", core=True
            ),
            Argument("reason", "why, kept in its history", core=True),
        ),
        destructive=True,
    ),
    Tool(
        "explain_memory",
        "Show where a memory comes from and why a query finds it or not.",
        Access.READ,
        reading(memory.explain, _explained),
        (
            MEMORY_ID,
            Argument("query", "explain the match with it", core=True),
            Argument("output_json", "the answer as JSON text", Kind.FLAG),
            Argument("include_embedding", "ignored", Kind.FLAG),
        ),
        read_only=True,
    ),
)
