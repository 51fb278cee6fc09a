"""What is built first elsewhere, to compare with: FTS5 as it comes, any word of the question.

The texts lie in this process's memory only. Contract: recall.md 12, ``--peer``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

_WORD: Final = re.compile(r"\w+")


class NaiveWords:
    """Rows are ``(id, text, scope)``."""

    def __init__(self, rows: Iterable[tuple[str, str, str | None]]) -> None:
        from sqlcipher3 import dbapi2

        self._connection: Connection = dbapi2.connect(":memory:")
        self._connection.execute("PRAGMA temp_store = MEMORY")
        self._connection.execute(
            "CREATE VIRTUAL TABLE words USING fts5(content, id UNINDEXED, scope UNINDEXED)"
        )
        self._connection.executemany(
            "INSERT INTO words(id, content, scope) VALUES(?, ?, ?)",
            (
                (memory_id, text.encode("utf-8", "replace").decode(), s)
                for memory_id, text, s in rows
            ),
        )

    def ask(self, question: str, scope: str | None, limit: int) -> list[str]:
        """Ids, best first; of one scope if there is one."""
        match = " OR ".join(f'"{word}"' for word in dict.fromkeys(_WORD.findall(question)))
        if not match:
            return []
        found = self._connection.execute(
            "SELECT id FROM words WHERE words MATCH ? AND (? IS NULL OR scope = ?)"
            " ORDER BY rank LIMIT ?",
            (match, scope, scope, limit),
        )
        return [str(memory_id) for (memory_id,) in found]

    def close(self) -> None:
        self._connection.close()
