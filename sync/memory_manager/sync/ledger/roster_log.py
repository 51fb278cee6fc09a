"""The signed roster chain as stored, and the roster it proves (sync.md 7.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from memory_manager.sync.wire.roster import Roster, SignedEntry, found

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction


def chain(connection: Connection, after: int = -1) -> tuple[SignedEntry, ...]:
    """The stored entries behind position ``after``, in order."""
    rows = connection.execute(
        "SELECT document, signature FROM roster_log WHERE idx > ? ORDER BY idx", (after,)
    )
    return tuple(SignedEntry(document, signature) for document, signature in rows)


def load(connection: Connection) -> Roster | None:
    """The roster after the whole stored chain, verified again; None while sync is off."""
    state = connection.execute("SELECT vault FROM sync_state").fetchone()
    if state is None:
        return None
    first, *others = chain(connection)
    return found(first, state[0]).verify(tuple(others))


def append(transaction: Transaction, entries: Sequence[SignedEntry]) -> Roster:
    """Verify and store entries that follow the chain; entries it has already are passed over.

    SyncRefused, and nothing is stored, for one that does not hold (another entry at a position
    that is taken included: ROSTER_FORK).
    """
    raise NotImplementedError
