"""The word index over a database in memory: for tests of words alone, hundreds of them in a
second.
"""

from __future__ import annotations

from typing import Any

from sqlcipher3 import dbapi2

from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.base.identifiers import MemoryId, uuid7
from memory_manager.base.times import now_ms
from memory_manager.recall.fulltext import FullTextIndex, WordHits
from memory_manager.recall.match_query import query_terms
from memory_manager.security.envelope import VAULT_DEFAULT
from memory_manager.vault.filters import RowFilter
from memory_manager.vault.migrations import migrate
from memory_manager.vault.rows import Attribution, MemoryRow, MemoryType, RowStatus
from memory_manager.vault.transaction import Transaction

MOMENT_MS = 1_700_000_000_000


def memory_row(rowid: int, content: str, **changes: Any) -> MemoryRow:
    values: dict[str, Any] = {
        "rowid": rowid,
        "id": MemoryId(str(uuid7(MOMENT_MS, rowid.to_bytes(10, "big")))),
        "version": 1,
        "content": content,
        "path": "notes",
        "bucket": "public",
        "scope": None,
        "memory_type": MemoryType.SEMANTIC,
        "status": RowStatus.ACTIVE,
        "importance": None,
        "confidence": None,
        "source": None,
        "metadata": {},
        "provenance": {},
        "semantic_key": None,
        "expires_at_ms": None,
        "created_at_ms": MOMENT_MS + rowid,
        "updated_at_ms": MOMENT_MS + rowid,
        "writer": Attribution(AgentIdentity(None, None)),
        "envelope": VAULT_DEFAULT,
        "redactions": (),
        "ruleset_version": "test",
    }
    if "created_at_ms" in changes:
        values["updated_at_ms"] = changes["created_at_ms"]
    return MemoryRow(**{**values, **changes})


class WordTable:
    """Rows in ``record`` and in the word index, without versions and without a key."""

    def __init__(self) -> None:
        self.connection = dbapi2.connect(":memory:", isolation_level=None)
        migrate(self.connection)
        self.index = FullTextIndex()
        self.rows: dict[int, MemoryRow] = {}

    def store(self, *texts: str, **changes: Any) -> list[MemoryRow]:
        stored = [
            memory_row(len(self.rows) + n + 1, text, **changes) for n, text in enumerate(texts)
        ]
        for row in stored:
            self.add(row)
        return stored

    def add(self, row: MemoryRow) -> None:
        self.rows[row.rowid] = row
        self._insert(row)
        self.change(None, row)

    def change(self, before: MemoryRow | None, after: MemoryRow | None) -> None:
        transaction = Transaction(self.connection, now_ms())
        self.index.row_changed(transaction, before, after)
        for callback in transaction.callbacks:
            callback()

    def hits(self, query: str, row_filter: RowFilter | None = None, limit: int = 50) -> WordHits:
        return self.index.search(
            self.connection,
            query_terms(query),
            row_filter or RowFilter(),
            now_ms(),
            limit=limit,
            wanted=10,
        )

    def found(self, query: str, row_filter: RowFilter | None = None) -> list[str]:
        scores = self.hits(query, row_filter).scores
        return [self.rows[r].content for r in sorted(scores, key=lambda rowid: -scores[rowid])]

    def load_gate(self) -> None:
        """From now on filtered searches weigh words by the rows that pass."""
        self.index.gate.expect()
        self.index.gate.load(self.connection)

    def close(self) -> None:
        self.connection.close()

    def _insert(self, row: MemoryRow) -> None:
        self.connection.execute(
            "INSERT INTO record(rowid, id, version, status, bucket, scope, path, memory_type,"
            " agent_id, expires_at_ms, created_at_ms, updated_at_ms, dedupe_key, security_mode,"
            " encryption_state, retrieval_visibility, server_embeddings_enabled,"
            " server_content_search_enabled) VALUES(?, ?, 1, 'active', ?, ?, ?, ?, ?, ?, ?, ?,"
            " zeroblob(16), 'vault', 'ciphertext', 'client_local_only', 0, 0)",
            (
                row.rowid,
                row.rowid.to_bytes(16, "big"),
                row.bucket,
                row.scope,
                row.path,
                row.memory_type.value,
                row.writer.identity.agent_id,
                row.expires_at_ms,
                row.created_at_ms,
                row.updated_at_ms,
            ),
        )
