"""An accepted page into the vault: entries, sealed rows, heads and records in one transaction.

Rows that do not open or do not fit are quarantined with their code and never stop the page; too
many deletions undo it as a whole until the owner agreed. Contract: sync.md 3.3, 4.3, 5.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

from memory_manager.sync.errors import RowRefused, SyncCode, SyncRefused
from memory_manager.sync.ledger import quarantine, sealed_rows, state
from memory_manager.sync.ledger.applying import apply_row
from memory_manager.sync.ledger.breaker import Losses
from memory_manager.sync.ledger.sealed_rows import OpeningKeys
from memory_manager.sync.wire.acceptance import Accepted, DeviceHead
from memory_manager.sync.wire.envelope import Dot
from memory_manager.sync.wire.framing import LogRow, Page, Signed
from memory_manager.sync.wire.log import (
    Checkpoint,
    ServerHead,
    next_global_head,
    server_head_verifies,
    unpack_entry,
)
from memory_manager.vault.memories import Memories

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction


@dataclasses.dataclass(frozen=True, slots=True)
class PageOutcome:
    """What a page changed here. ``own`` rows are those of ours that it acknowledged."""

    rows: int = 0
    own: int = 0
    applied: int = 0
    quarantined: int = 0


def commit_page(
    transaction: Transaction, memories: Memories, page: Page, accepted: Accepted
) -> PageOutcome:
    """Store and apply a page that ``verified.verifier`` accepted in this state of the database.

    SyncRefused(BREAKER), and nothing is stored, when it deletes too much and the owner did not
    agree (``state.confirm_deletions``); SyncRefused(TRUNCATED) if the database moved on meanwhile.
    """
    connection = transaction.connection
    found = state.require(connection)
    if found.n + len(page.rows) != accepted.log.n:
        raise SyncRefused(SyncCode.TRUNCATED, n=found.n)
    losses, own, applied, refused = Losses(), 0, 0, 0
    with OpeningKeys(connection) as keys:
        for row, g in zip(page.rows, accepted.global_heads, strict=True):
            if row.entry.device == found.device:
                _number(connection, found.device, row.entry.seq, row.n, g)
                own += 1
                continue
            entry_rowid = _store(connection, row, g)
            dot = Dot(row.entry.device, row.entry.seq)
            try:
                apply_row(transaction, memories, keys, found, dot, row.row, losses)
                applied += 1
            except RowRefused as error:
                refused += quarantine.put(transaction, entry_rowid, row, error)
    losses.check(transaction)
    authors = {row.entry.device for row in page.rows}
    _move_heads(connection, {device: accepted.log.devices[device] for device in authors})
    _keep_checkpoints(connection, page.checkpoints)
    _advance(transaction, accepted.log.n, accepted.log.g)
    return PageOutcome(len(page.rows), own, applied, refused)


def acknowledge(transaction: Transaction, head: Signed[ServerHead]) -> int:
    """A push's answer: number our rows at once when the head is exactly ours on top of our n.

    Returns how many rows it covers; 0 when other rows came between (then the next pull tells).
    SyncRefused: SERVER_KEY, ROLLBACK or EQUIVOCATION.
    """
    connection = transaction.connection
    found = state.require_active(connection)
    said = head.value
    if not server_head_verifies(found.vault, said, head.signature, found.server_key):
        raise SyncRefused(SyncCode.SERVER_KEY)
    if said.n < found.n:
        raise SyncRefused(SyncCode.ROLLBACK, n=said.n)
    if said.n == found.n and said.g != found.g:
        raise SyncRefused(SyncCode.EQUIVOCATION, n=said.n)
    waiting = connection.execute(
        "SELECT entry FROM entry INDEXED BY entry_outbox WHERE n IS NULL AND device = ?"
        " ORDER BY seq LIMIT ?",
        (found.device, said.n - found.n),
    ).fetchall()
    if not waiting or len(waiting) != said.n - found.n:
        return 0
    entries = [unpack_entry(raw) for (raw,) in waiting]
    g, heads = found.g, list[bytes]()
    for entry in entries:
        g = next_global_head(g, entry.device, entry.head)
        heads.append(g)
    if g != said.g:
        return 0
    for position, (entry, here) in enumerate(zip(entries, heads, strict=True), found.n + 1):
        _number(connection, found.device, entry.seq, position, here)
    last = entries[-1]
    (idx,) = connection.execute(
        "SELECT idx FROM roster_log WHERE hash = ?", (last.roster_hash,)
    ).fetchone()
    _move_heads(connection, {found.device: DeviceHead(last.seq, last.head, idx)})
    _advance(transaction, said.n, g)
    return len(entries)


def _number(connection: Connection, device: bytes, seq: int, n: int, g: bytes) -> None:
    """An own entry is covered by a verified head: it leaves the outbox."""
    connection.execute(
        "UPDATE entry SET n = ?, g = ? WHERE device = ? AND seq = ?", (n, g, device, seq)
    )
    connection.execute(
        "DELETE FROM sealed WHERE dead = 1 AND entry_rowid ="
        " (SELECT rowid FROM entry WHERE device = ? AND seq = ?)",
        (device, seq),
    )
    # of a record that the trash gave up meanwhile
    connection.execute(
        "DELETE FROM sealed WHERE entry_rowid IN (SELECT e.rowid FROM entry e"
        " JOIN revision v ON v.device = e.device AND v.seq = e.seq"
        " JOIN destroyed d ON d.id = v.id"
        " WHERE e.device = ? AND e.seq = ? AND v.superseded = 1 AND v.deletion IS NULL)",
        (device, seq),
    )


def _store(connection: Connection, row: LogRow, g: bytes) -> int:
    entry = row.entry
    (rowid,) = connection.execute(
        "INSERT INTO entry(device, seq, n, g, head, body_hash, entry) VALUES(?, ?, ?, ?, ?, ?, ?)"
        " RETURNING rowid",
        (entry.device, entry.seq, row.n, g, entry.head, entry.body_hash, entry.pack()),
    ).fetchone()
    sealed_rows.put(connection, rowid, row.row)
    return int(rowid)


def _move_heads(connection: Connection, heads: dict[bytes, DeviceHead]) -> None:
    connection.executemany(
        "INSERT INTO device_head(device, seq, head, roster_idx) VALUES(?, ?, ?, ?)"
        " ON CONFLICT(device) DO UPDATE SET seq = excluded.seq, head = excluded.head,"
        " roster_idx = excluded.roster_idx",
        [(device, head.seq, head.head, head.roster_idx) for device, head in heads.items()],
    )


def _keep_checkpoints(connection: Connection, signed: Iterable[Signed[Checkpoint]]) -> None:
    """Checkpoints that end a batch we have, for another seeding of the server."""
    for one in signed:
        said = one.value
        connection.execute(
            "INSERT OR IGNORE INTO checkpoint(device, seq, document, signature)"
            " SELECT device, seq, ?, ? FROM entry WHERE device = ? AND seq = ? AND head = ?",
            (said.pack(), one.signature, said.device, said.seq, said.head),
        )


def _advance(transaction: Transaction, n: int, g: bytes) -> None:
    transaction.connection.execute(
        "UPDATE sync_state SET n = ?, g = ?, last_contact_ms = ?", (n, g, transaction.now_ms)
    )
    state.reached(transaction)
