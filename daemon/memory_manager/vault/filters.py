"""Which rows a reader may get: the caller's filters and the retrieval gate as one SQL condition.

Every read goes through ``RowFilter.condition``, so a hidden row can take no slot, count or cursor.
Contract: xmemo.md 4.7, redaction.md 11.3, recall.md 8.
"""

from __future__ import annotations

import dataclasses
import enum

from memory_manager.base.path_filter import PathFilter
from memory_manager.security.envelope import EncryptionState, RetrievalVisibility, SecurityMode
from memory_manager.vault.rows import RECALLED_KINDS, MemoryType, RecordKind


class TimeAxis(enum.StrEnum):
    CREATED_AT = "created_at"
    UPDATED_AT = "updated_at"


_AXIS_COLUMNS = {
    TimeAxis.CREATED_AT: "created_at_ms",
    TimeAxis.UPDATED_AT: "updated_at_ms",
}


def _names(values: list[str]) -> str:
    return ", ".join(f"'{value}'" for value in values)


# ``security.gate.may_recall`` on the local surface, after ``read_envelope`` made odd values
# UNREADABLE. A table test compares the two over every combination of values.
_LOCAL_GATE = (
    "{t}.retrieval_visibility IN ("
    + _names([v.value for v in RetrievalVisibility if v is not RetrievalVisibility.NOT_RETRIEVABLE])
    + ") AND {t}.security_mode IN ("
    + _names([mode.value for mode in SecurityMode])
    + ") AND {t}.encryption_state IN ("
    + _names([state.value for state in EncryptionState])
    + ") AND {t}.server_embeddings_enabled IN (0, 1)"
    " AND {t}.server_content_search_enabled IN (0, 1)"
    " AND ({t}.retrieval_visibility = 'server_retrievable'"
    " OR {t}.server_embeddings_enabled + {t}.server_content_search_enabled = 0)"
    " AND NOT ({t}.security_mode = 'vault' AND {t}.server_content_search_enabled = 1)"
)


@dataclasses.dataclass(frozen=True, slots=True)
class RowFilter:
    """Conditions joined by AND; None means no condition. Times are ``[since, until)`` in UTC ms.

    ``include_deleted`` and ``include_hidden`` are for the owner's own lists and exports: the first
    adds soft-deleted rows, the second expired ones and those that the gate keeps out of recall.
    ``kinds``: those that recall shows, unless asked otherwise; None means every kind.
    """

    bucket: str | None = None
    scope: str | None = None
    memory_type: MemoryType | None = None
    path: PathFilter | None = None
    agent_id: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    time_axis: TimeAxis = TimeAxis.CREATED_AT
    include_deleted: bool = False
    include_hidden: bool = False
    kinds: tuple[RecordKind, ...] | None = RECALLED_KINDS

    def condition(self, now_ms: int, table: str = "record") -> tuple[str, list[object]]:
        """``(sql, parameters)`` for a WHERE clause over ``table`` (the table ``record``, or its
        alias): live, gated, unexpired, filtered. Parameters are positional.
        """
        terms: list[str] = []
        parameters: list[object] = []
        if self.kinds is not None:
            terms.append(f"{table}.kind IN ({_names([kind.value for kind in self.kinds])})")
        if not self.include_deleted:
            terms.append(f"{table}.status <> 'deleted'")
        if not self.include_hidden:
            terms.append(f"({table}.expires_at_ms IS NULL OR {table}.expires_at_ms > ?)")
            parameters.append(now_ms)
            terms.append(_LOCAL_GATE.format(t=table))
        for column, value in (
            ("bucket", self.bucket),
            ("scope", self.scope),
            ("memory_type", self.memory_type.value if self.memory_type else None),
            ("agent_id", self.agent_id),
        ):
            if value is not None:
                terms.append(f"{table}.{column} = ?")
                parameters.append(value)
        axis = _AXIS_COLUMNS[self.time_axis]
        for operator, bound in ((">=", self.since_ms), ("<", self.until_ms)):
            if bound is not None:
                terms.append(f"{table}.{axis} {operator} ?")
                parameters.append(bound)
        if self.path is not None:
            sql, values = _path_condition(self.path, f"{table}.path")
            terms.append(sql)
            parameters += values
        return " AND ".join(terms) or "1", parameters


def _path_condition(path: PathFilter, column: str) -> tuple[str, list[object]]:
    """Ranges instead of LIKE: nothing to escape, case kept, and the path index serves them."""
    if path.prefix_only:
        return _prefix_range(path.text, column)
    below, bounds = _prefix_range(path.text + "/", column)
    return f"({column} = ? OR ({below}))", [path.text, *bounds]


def _prefix_range(prefix: str, column: str) -> tuple[str, list[object]]:
    """``column`` starts with ``prefix``; UTF-8 bytes sort like code points."""
    successor = _successor(prefix)
    if successor is None:
        return f"{column} >= ?", [prefix]
    return f"{column} >= ? AND {column} < ?", [prefix, successor]


def _successor(prefix: str) -> str | None:
    """The least string above everything that starts with ``prefix``; None if there is none."""
    stem = prefix.rstrip("\U0010ffff")
    if not stem:
        return None
    last = ord(stem[-1]) + 1
    # Surrogates cannot be stored: the code point after U+D7FF is U+E000.
    return stem[:-1] + chr(0xE000 if 0xD800 <= last <= 0xDFFF else last)
