"""What the indexes of recall take inside the vault file. Synchronous. Contract: recall.md 12.

Payloads, without the share of pages and row heads: the virtual table that counts pages is not
part of SQLCipher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

# the length of a blob stands in the head of its row: no page of it is read
_WORDS: Final = (
    "SELECT sum(length(block)) FROM memory_fts_data",
    "SELECT sum(length(term)) FROM memory_fts_idx",
    "SELECT sum(length(sz)) FROM memory_fts_docsize",
    "SELECT sum(length(block)) FROM memory_tri_data",
    "SELECT sum(length(term)) FROM memory_tri_idx",
    "SELECT sum(length(sz)) FROM memory_tri_docsize",
    "SELECT sum(octet_length(body) + octet_length(path) + octet_length(who) + octet_length(ident))"
    " FROM fts_source",
)
_VECTORS: Final = (
    "SELECT sum(length(keys) + length(scales) + length(codes)) FROM vector_segment",
    "SELECT sum(length(code) + 8) FROM vector_tail",
)


def stored_bytes(connection: Connection) -> dict[str, int]:
    """Bytes of the full-text index with the texts it reads, and of the vectors."""
    return {"words": _total(connection, _WORDS), "vectors": _total(connection, _VECTORS)}


def _total(connection: Connection, questions: tuple[str, ...]) -> int:
    return sum(connection.execute(question).fetchone()[0] or 0 for question in questions)
