"""The first answer to a write, kept so that a replay gets it again and writes nothing.

A key counts within one credential and one route; the body is not compared. Lookup and save run in
the transaction of the write itself, and the single writer puts two equal keys one after the other.
Contract: xmemo.md 4.11.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from memory_manager.base.errors import InvalidInput
from memory_manager.base.identifiers import CredentialId
from memory_manager.security.redact import sanitize_server_write

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

MAX_KEY_CHARACTERS: Final = 256
RETENTION_SECONDS: Final = 8 * 24 * 3600
"""At least seven days are promised; one more covers clocks and time zones."""


@dataclasses.dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """``route`` is method and concrete path with ``/api/v1`` folded into ``/v1``.

    Raises InvalidInput for a key that is empty, too long, or in which the sanitizer finds anything:
    rewriting it would let two different keys collapse into one.
    """

    credential_id: CredentialId
    route: str
    key: str = dataclasses.field(repr=False)

    def __post_init__(self) -> None:
        if not 0 < len(self.key) <= MAX_KEY_CHARACTERS:
            raise InvalidInput(
                f"An idempotency key has 1 to {MAX_KEY_CHARACTERS} characters.",
                field="idempotency_key",
            )
        try:
            self.key.encode()
        except UnicodeEncodeError:
            raise InvalidInput(
                "The idempotency key is not valid Unicode.", field="idempotency_key"
            ) from None
        if sanitize_server_write(self.key).applied:
            raise InvalidInput(
                "The idempotency key looks like a secret; use a random UUID.",
                field="idempotency_key",
            )


@dataclasses.dataclass(frozen=True, slots=True)
class StoredAnswer:
    """A 2xx status and the JSON text that went with it."""

    status: int
    body_json: str = dataclasses.field(repr=False)


def lookup(connection: Connection, key: IdempotencyKey) -> StoredAnswer | None:
    """The stored first answer; call it inside the write's transaction, before the write."""
    found = connection.execute(
        "SELECT status, body FROM idempotency WHERE credential_id = ? AND route = ? AND key = ?",
        (key.credential_id, key.route, key.key),
    ).fetchone()
    return None if found is None else StoredAnswer(*found)


def save(transaction: Transaction, key: IdempotencyKey, status: int, body_json: str) -> None:
    """Keep the answer of this very transaction. ``body_json`` holds sanitized values only.

    ValueError for anything but a 2xx: a failed attempt must be free to run again.
    """
    if not 200 <= status < 300:
        raise ValueError("only successful answers are stored")
    transaction.connection.execute(
        "INSERT INTO idempotency(credential_id, route, key, status, body, saved_at_ms)"
        " VALUES(?, ?, ?, ?, ?, ?)",
        (key.credential_id, key.route, key.key, status, body_json, transaction.now_ms),
    )


def sweep(transaction: Transaction, *, limit: int = 1000) -> int:
    """Forget answers older than the retention, at most ``limit``; returns how many."""
    oldest_ms = transaction.now_ms - RETENTION_SECONDS * 1000
    cursor = transaction.connection.execute(
        "DELETE FROM idempotency WHERE rowid IN"
        " (SELECT rowid FROM idempotency WHERE saved_at_ms < ? ORDER BY saved_at_ms LIMIT ?)",
        (oldest_ms, limit),
    )
    return cursor.rowcount
