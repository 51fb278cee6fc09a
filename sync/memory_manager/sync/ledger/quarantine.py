"""Rows kept aside with their code, and another try with new keys or wraps (sync.md 3.3)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from memory_manager.sync.errors import RowRefused, SyncCode
from memory_manager.sync.ledger import alarms, keybag, state
from memory_manager.sync.ledger.applying import apply_row
from memory_manager.sync.ledger.breaker import Losses
from memory_manager.sync.ledger.sealed_rows import OpeningKeys, is_dead
from memory_manager.sync.wire.envelope import (
    WRAP_BYTES,
    Dot,
    SealedRow,
    read_header,
    unwrap_cek,
    wrap_epoch,
)
from memory_manager.sync.wire.framing import LogRow
from memory_manager.vault.kdf import wipe
from memory_manager.vault.memories import Memories

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

_FINAL: Final = (SyncCode.ROW_FORMAT.value, SyncCode.CLASS_POLICY.value)
_OF_WRAPS: Final = ("STALE_EPOCH", "WAITING_KEY", "WRONG_KEY", "ROW_AUTH")


def put(transaction: Transaction, entry_rowid: int, row: LogRow, error: RowRefused) -> bool:
    """Keep a row aside; where the author must have meant harm or has a fault, name it.

    False for a row without a key of a record that was forgotten: that is why it does not open.
    """
    connection, record = transaction.connection, None
    with contextlib.suppress(RowRefused):
        record = read_header(row.row.body).record
    if is_dead(row.row) and _is_forgotten(connection, record):
        connection.execute("DELETE FROM sealed WHERE entry_rowid = ?", (entry_rowid,))
        return False
    connection.execute(
        "INSERT OR REPLACE INTO quarantine(entry_rowid, record, code, at_ms) VALUES(?, ?, ?, ?)",
        (entry_rowid, record, error.reason.value, transaction.now_ms),
    )
    if error.names_author:
        alarms.record(transaction, error.reason, device=row.entry.device, n=row.n)
    return True


def _is_forgotten(connection: Connection, record: bytes | None) -> bool:
    found = connection.execute(
        "SELECT 1 FROM revision WHERE record = ? AND deletion = 'forget'", (record,)
    ).fetchone()
    return found is not None


def count(connection: Connection) -> int:
    (number,) = connection.execute("SELECT count(*) FROM quarantine").fetchone()
    return int(number)


def by_code(connection: Connection) -> dict[str, int]:
    return dict(
        connection.execute("SELECT code, count(*) FROM quarantine GROUP BY code").fetchall()
    )


def wants_wraps(connection: Connection) -> bool:
    """Whether a row waits for what ``/v1/wrap/pull`` may bring."""
    marks = ",".join("?" * len(_OF_WRAPS))
    found = connection.execute(
        f"SELECT 1 FROM quarantine WHERE code IN ({marks})", _OF_WRAPS
    ).fetchone()
    return found is not None


def store_wraps(transaction: Transaction, wraps: Iterable[tuple[bytes, bytes]]) -> int:
    """Replace wraps by (BODY hash, WRAP of 92 bytes) where they open and ours is older or does not.

    Returns how many were taken.
    """
    connection = transaction.connection
    keys, taken = keybag.wrapping_keys(connection), 0
    min_epoch = state.require(connection).min_epoch
    try:
        for hash_of_body, wrap in wraps:
            found = connection.execute(
                "SELECT s.entry_rowid, s.epoch, s.body, q.entry_rowid IS NOT NULL"
                " FROM entry e JOIN sealed s ON s.entry_rowid = e.rowid"
                " LEFT JOIN quarantine q ON q.entry_rowid = e.rowid"
                " WHERE e.body_hash = ? AND s.dead = 0",
                (hash_of_body,),
            ).fetchone()
            if found is None or len(wrap) != WRAP_BYTES:
                continue
            entry_rowid, epoch, body, waits = found
            newer = wrap_epoch(wrap)
            if newer < epoch or (newer == epoch and not waits):
                continue
            with contextlib.suppress(RowRefused):
                wipe(unwrap_cek(SealedRow(body, wrap), keys, min_epoch))
                connection.execute(
                    "UPDATE sealed SET wrap = ?, epoch = ? WHERE entry_rowid = ?",
                    (wrap, newer, entry_rowid),
                )
                taken += 1
    finally:
        wipe(*(key.key for key in keys.values()))
    return taken


def retry(transaction: Transaction, memories: Memories, *, limit: int = 200) -> int:
    """Try the quarantined rows again, oldest first; returns how many were applied.

    SyncRefused(BREAKER), and nothing is applied, as for ``incoming.commit_page``.
    """
    connection = transaction.connection
    found, losses = state.require(connection), Losses()
    rows = connection.execute(
        "SELECT q.entry_rowid, e.device, e.seq, s.body, s.wrap FROM quarantine q"
        " JOIN entry e ON e.rowid = q.entry_rowid JOIN sealed s ON s.entry_rowid = e.rowid"
        " WHERE q.code NOT IN (?, ?) ORDER BY q.at_ms, e.n LIMIT ?",
        (*_FINAL, limit),
    ).fetchall()
    applied = 0
    with OpeningKeys(connection) as keys:
        for entry_rowid, device, seq, body, wrap in rows:
            try:
                row = SealedRow(body, wrap)
                apply_row(transaction, memories, keys, found, Dot(device, seq), row, losses)
            except RowRefused as error:
                connection.execute(
                    "UPDATE quarantine SET code = ?, at_ms = ? WHERE entry_rowid = ?",
                    (error.reason.value, transaction.now_ms, entry_rowid),
                )
                continue
            connection.execute("DELETE FROM quarantine WHERE entry_rowid = ?", (entry_rowid,))
            applied += 1
    losses.check(transaction)
    return applied
