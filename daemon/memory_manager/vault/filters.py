"""Which rows a reader may get: the caller's filters and the retrieval gate as one SQL condition.

Every read goes through ``RowFilter.condition``, so a hidden row can take no slot, count or cursor.
Contract: xmemo.md 4.7, redaction.md 11.3, recall.md 8.
"""

from __future__ import annotations

import dataclasses
import enum

from memory_manager.vault.rows import MemoryType


class TimeAxis(enum.StrEnum):
    CREATED_AT = "created_at"
    UPDATED_AT = "updated_at"


@dataclasses.dataclass(frozen=True, slots=True)
class PathFilter:
    """``projects`` or at ``projects/...``; with ``prefix_only`` everything that starts with the text."""

    text: str = dataclasses.field(repr=False)
    prefix_only: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class RowFilter:
    """Conditions joined by AND; None means no condition. Times are ``[since, until)`` in UTC ms."""

    bucket: str | None = None
    scope: str | None = None
    memory_type: MemoryType | None = None
    path: PathFilter | None = None
    agent_id: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    time_axis: TimeAxis = TimeAxis.CREATED_AT

    def condition(self, now_ms: int, table: str = "record") -> tuple[str, list[object]]:
        """``(sql, parameters)`` for a WHERE clause over ``table``: live, gated, unexpired, filtered."""
        raise NotImplementedError  # built with the schema
