"""More tools for single memories: restore, redact, destroy, history (xmemo.md 11.5, 11.6)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memory_manager.api.calls import Access
from memory_manager.api.mcp import text
from memory_manager.api.mcp.core_tools import (
    MEMORY_ID,
    REASON,
    STORED,
    forget_memory,
    remember_memory,
)
from memory_manager.api.mcp.running import Body, operation_arguments, reading, writing
from memory_manager.api.mcp.tool import Argument, Kind, Tool
from memory_manager.api.operations import memory
from memory_manager.vault.rows import ForgetMode


def _versions(body: Body) -> str:
    return "\n\n".join(
        f"[{body.get('id')}] version {item.get('version')}, {item.get('action')}, "
        f"{item.get('written_at')}: {text.without_blank_lines(item)}"
        for item in text.items_of(body, "versions")
    )


def _redaction(arguments: Mapping[str, object]) -> dict[str, object]:
    found = operation_arguments(arguments)
    return {**found, "mode": ForgetMode.REDACT.value}


MEMORY_TOOLS: Final = (
    Tool(
        "store_memory",
        "Store a memory: another name of remember.",
        Access.WRITE,
        remember_memory,
        STORED,
    ),
    Tool(
        "restore_memory",
        "Bring a forgotten memory back, or an older version of one forward.",
        Access.RESTORE,
        writing(memory.restore, text.written),
        (
            MEMORY_ID,
            Argument("version", "an older version", Kind.WHOLE),
            REASON,
            Argument("metadata_json", "JSON object"),
        ),
        idempotent=True,
    ),
    Tool(
        "redact_memory",
        "Replace the text of a memory for good, in all its versions.",
        Access.WRITE,
        writing(memory.forget, text.written, _redaction),
        (
            MEMORY_ID,
            REASON,
            Argument("replacement_content", default="[REDACTED]"),
            Argument("metadata_json", "JSON object"),
        ),
        idempotent=True,
        destructive=True,
    ),
    Tool(
        "forget_memory",
        "Forget a memory: softly, for good (the owner confirms), or by replacing its text.",
        Access.WRITE,
        writing(memory.forget, text.written),
        (
            MEMORY_ID,
            Argument(
                "mode", choices=("soft_delete", "hard_delete", "redact"), default="soft_delete"
            ),
            REASON,
            Argument("replacement_content"),
            Argument("metadata_json", "JSON object"),
        ),
        idempotent=True,
        destructive=True,
    ),
    Tool(
        "delete_current_memory",
        "Forget the memory you wrote last; it can be restored.",
        Access.WRITE,
        forget_memory,
        (REASON,),
        destructive=True,
    ),
    Tool(
        "list_memory_versions",
        "List all versions of a memory, oldest first.",
        Access.READ,
        reading(memory.versions, _versions),
        (MEMORY_ID,),
        read_only=True,
    ),
)
