"""Rows kept aside with their code, and another try with new keys or wraps (sync.md 3.3)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from memory_manager.vault.memories import Memories

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction


def count(connection: Connection) -> int:
    raise NotImplementedError


def by_code(connection: Connection) -> dict[str, int]:
    raise NotImplementedError


def wants_wraps(connection: Connection) -> bool:
    """Whether a row waits for what ``/v1/wrap/pull`` may bring."""
    raise NotImplementedError


def store_wraps(transaction: Transaction, wraps: Iterable[tuple[bytes, bytes]]) -> int:
    """Replace wraps by (BODY hash, WRAP of 92 bytes) where they open and their epoch is newer.

    Returns how many were taken.
    """
    raise NotImplementedError


def retry(transaction: Transaction, memories: Memories, *, limit: int = 200) -> int:
    """Try the quarantined rows again, oldest first; returns how many were applied."""
    raise NotImplementedError
