"""The signed roster chain as stored, and the roster it proves (sync.md 7.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from memory_manager.sync.ledger import state
from memory_manager.sync.wire import canonical
from memory_manager.sync.wire.roster import Roster, SignedEntry, roster_of

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction


_NEW_MEMBERS: Final = ("device", "recovery", "new_device")
"""Where an entry names somebody new."""


def chain(connection: Connection, after: int = -1) -> tuple[SignedEntry, ...]:
    """The stored entries behind position ``after``, in order."""
    rows = connection.execute(
        "SELECT document, signature FROM roster_log WHERE idx > ? ORDER BY idx", (after,)
    )
    return tuple(SignedEntry(document, signature) for document, signature in rows)


def everybody(connection: Connection) -> tuple[bytes, ...]:
    """The ids of all who are or were members by the stored chain, in the order they joined.

    Nothing is verified again: only what held was stored.
    """
    found: list[bytes] = []
    for entry in chain(connection):
        document = canonical.decode(entry.document)
        added = (document.get(name) for name in _NEW_MEMBERS)
        found.extend(bytes.fromhex(one["id"]) for one in added if one is not None)
    return tuple(found)


def load(connection: Connection) -> Roster | None:
    """The roster after the whole stored chain, verified again; None while sync is off."""
    row = connection.execute("SELECT vault FROM sync_state").fetchone()
    if row is None:
        return None
    return roster_of(chain(connection), row[0])


def append(transaction: Transaction, entries: Sequence[SignedEntry]) -> Roster:
    """Verify and store entries that follow the chain; entries it has already are passed over.

    SyncRefused, and nothing is stored, for one that does not hold (another entry at a position
    that is taken included: ROSTER_FORK).
    """
    connection = transaction.connection
    roster = load(connection)
    if roster is None:
        raise LookupError("sync is off")
    new: list[SignedEntry] = []
    for entry in entries:
        if entry.hash not in roster.positions:
            roster = roster.verify((entry,))
            new.append(entry)
    if new:
        put(connection, new, len(roster.positions) - len(new))
        connection.execute(
            "UPDATE sync_state SET roster_idx = ?, roster_hash = ?",
            (len(roster.positions) - 1, roster.head),
        )
        state.reached(transaction)
    return roster


def drop_last(transaction: Transaction) -> None:
    """Take the newest entry off: another one stands in its place (sync.md 7.1)."""
    connection = transaction.connection
    connection.execute("DELETE FROM roster_log WHERE idx = (SELECT max(idx) FROM roster_log)")
    connection.execute(
        "UPDATE sync_state SET (roster_idx, roster_hash) ="
        " (SELECT idx, hash FROM roster_log ORDER BY idx DESC LIMIT 1)"
    )


def put(connection: Connection, entries: Sequence[SignedEntry], idx: int) -> None:
    """Store verified entries from position ``idx`` on."""
    connection.executemany(
        "INSERT INTO roster_log(idx, document, signature, hash) VALUES(?, ?, ?, ?)",
        [(idx + i, e.document, e.signature, e.hash) for i, e in enumerate(entries)],
    )
