"""Content keys of older rows, wrapped anew under the present epoch's key (sync.md 8).

BODY and log stay as they are. Rows that do not open are passed over: they are quarantined anyway.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from memory_manager.sync.errors import RowRefused
from memory_manager.sync.ledger import keybag
from memory_manager.sync.wire.envelope import EpochKey, SealedRow, unwrap_cek, wrap_cek
from memory_manager.vault.kdf import new_nonce, wipe

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection


@dataclasses.dataclass(frozen=True, slots=True)
class Rewrapped:
    """Pairs of BODY hash and new WRAP; ``reached`` is the last row looked at, 0 after the end."""

    wraps: tuple[tuple[bytes, bytes], ...]
    reached: int


def rewrap_some(connection: Connection, epoch: int, after: int, *, limit: int = 500) -> Rewrapped:
    """New wraps for up to ``limit`` numbered rows behind ``after`` that an older epoch sealed.

    Nothing is stored: ``quarantine.store_wraps`` does that once the server has them.
    """
    rows = connection.execute(
        "SELECT s.entry_rowid, e.body_hash, s.body, s.wrap FROM sealed s"
        " JOIN entry e ON e.rowid = s.entry_rowid WHERE s.entry_rowid > ? AND s.epoch < ?"
        " AND s.dead = 0 AND e.n IS NOT NULL ORDER BY s.entry_rowid LIMIT ?",
        (after, epoch, limit),
    ).fetchall()
    keys = keybag.wrapping_keys(connection)
    try:
        wraps = tuple(
            (body_hash, wrap)
            for _, body_hash, body, old in rows
            if (wrap := _rewrap(SealedRow(body, old), keys, epoch)) is not None
        )
    finally:
        wipe(*(key.key for key in keys.values()))
    return Rewrapped(wraps, rows[-1][0] if len(rows) == limit else 0)


def _rewrap(row: SealedRow, keys: Mapping[int, EpochKey], epoch: int) -> bytes | None:
    present = keys.get(epoch)
    try:
        cek = unwrap_cek(row, keys)
    except RowRefused:
        return None
    try:
        return None if present is None else wrap_cek(row.body, present, cek, new_nonce())
    finally:
        wipe(cek)
