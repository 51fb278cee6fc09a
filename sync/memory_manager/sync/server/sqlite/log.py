"""Log rows, pages and wraps: statements inside a transaction of the caller's."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from memory_manager.sync.server.batches import (
    WRAP_OCTETS,
    Batch,
    BatchRow,
    PageSize,
    check_quota,
    new_rows,
    positions,
)
from memory_manager.sync.server.refusals import VaultUnknown
from memory_manager.sync.server.sqlite.vaults import device_state, vault_state
from memory_manager.sync.server.storage import Appended, Quota, StoredPage, WrapPage, WrapRow
from memory_manager.sync.wire.envelope import SealedRow
from memory_manager.sync.wire.framing import LogRow, Signed
from memory_manager.sync.wire.log import Checkpoint, ServerHead, unpack_checkpoint, unpack_entry

_PAGE: Final = """
SELECT entry.n, entry.entry, blob.body,
  (SELECT wrap.wrap FROM wrap WHERE wrap.vault = entry.vault
    AND wrap.body_hash = entry.body_hash ORDER BY wrap.epoch DESC LIMIT 1),
  checkpoint.checkpoint, checkpoint.signature, entry.g
FROM entry
JOIN blob ON blob.vault = entry.vault AND blob.body_hash = entry.body_hash
LEFT JOIN checkpoint ON checkpoint.vault = entry.vault AND checkpoint.n = entry.n
WHERE entry.vault = ? AND entry.n > ? ORDER BY entry.n LIMIT ?
"""


def append(connection: sqlite3.Connection, vault: bytes, batch: Batch, default: Quota) -> Appended:
    state = vault_state(connection, vault, default)
    author = device_state(connection, vault, batch.author)
    stored: list[tuple[bytes, int]] = []
    if batch.first_seq <= author.seq:
        stored = connection.execute(
            "SELECT entry, n FROM entry WHERE vault = ? AND device = ? AND seq BETWEEN ? AND ?"
            " ORDER BY seq",
            (vault, batch.author, batch.first_seq, min(batch.last_seq, author.seq)),
        ).fetchall()
    fresh = new_rows(batch, author, [entry for entry, _ in stored])
    first_n = stored[0][1] if stored else state.head.n + 1
    if not fresh:
        return Appended(state.head, first_n, 0)
    octets = sum(row.octets for row in fresh)
    check_quota(state.quota, rows=state.head.n + len(fresh), octets=state.bytes + octets)
    heads = positions(state.head, batch.author, fresh)
    _insert_rows(connection, vault, batch.author, fresh, heads)
    said = batch.checkpoint
    connection.execute(
        "INSERT INTO checkpoint VALUES (?, ?, ?, ?)",
        (vault, heads[-1].n, said.value.pack(), said.signature),
    )
    connection.execute(
        "UPDATE vault SET n = ?, g = ?, bytes = bytes + ? WHERE id = ?",
        (heads[-1].n, heads[-1].g, octets, vault),
    )
    connection.execute(
        "UPDATE device SET seq = ?, head = ? WHERE vault = ? AND id = ?",
        (fresh[-1].seq, fresh[-1].head, vault, batch.author),
    )
    return Appended(heads[-1], first_n, len(fresh))


def _insert_rows(
    connection: sqlite3.Connection,
    vault: bytes,
    author: bytes,
    rows: Sequence[BatchRow],
    heads: Sequence[ServerHead],
) -> None:
    connection.executemany(
        "INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (vault, head.n, author, row.seq, row.entry, row.body_hash, head.g)
            for row, head in zip(rows, heads, strict=True)
        ],
    )
    # the same hash is the same body; a wrap that was renewed before is not undone
    connection.executemany(
        "INSERT INTO blob VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
        [(vault, row.body_hash, row.body) for row in rows],
    )
    connection.executemany(
        "INSERT INTO wrap VALUES (?, ?, ?, 0, ?) ON CONFLICT DO NOTHING",
        [(vault, row.body_hash, row.epoch, row.wrap) for row in rows],
    )


def page(
    connection: sqlite3.Connection, vault: bytes, after: int, limit: int, max_bytes: int
) -> StoredPage:
    tip = tip_of(connection, vault)
    rows: list[LogRow] = []
    checkpoints: list[Signed[Checkpoint]] = []
    size = PageSize(max_bytes)
    head = tip if after >= tip.n else None
    g = b""
    for n, entry, body, wrap, said, signature, row_g in connection.execute(
        _PAGE, (vault, min(after, tip.n), max(1, limit))
    ):
        if not size.takes(len(body), said is not None):
            break
        rows.append(LogRow(unpack_entry(entry), SealedRow(body, wrap), n))
        if said is not None:
            checkpoints.append(Signed(unpack_checkpoint(said), signature))
        g = row_g
    if head is None:
        head = ServerHead(rows[-1].n, g)
    return StoredPage(tuple(rows), tuple(checkpoints), head, tip)


def tip_of(connection: sqlite3.Connection, vault: bytes) -> ServerHead:
    row = connection.execute("SELECT n, g FROM vault WHERE id = ?", (vault,)).fetchone()
    if row is None:
        raise VaultUnknown
    return ServerHead(*row)


def put_wraps(
    connection: sqlite3.Connection, vault: bytes, wraps: Sequence[WrapRow], default: Quota
) -> int:
    state = vault_state(connection, vault, default)
    (position,) = connection.execute("SELECT wrap_n FROM vault WHERE id = ?", (vault,)).fetchone()
    stored = octets = 0
    for row in wraps:
        key = (vault, row.body_hash)
        if not connection.execute(
            "SELECT 1 FROM blob WHERE vault = ? AND body_hash = ?", key
        ).fetchone():
            continue
        replaced = connection.execute(
            "DELETE FROM wrap WHERE vault = ? AND body_hash = ? AND epoch = ?", (*key, row.epoch)
        ).rowcount
        stored += 1
        octets += 0 if replaced else WRAP_OCTETS
        connection.execute(
            "INSERT INTO wrap VALUES (?, ?, ?, ?, ?)",
            (*key, row.epoch, position + stored, row.wrap),
        )
    check_quota(state.quota, octets=state.bytes + octets)
    connection.execute(
        "UPDATE vault SET wrap_n = ?, bytes = bytes + ? WHERE id = ?",
        (position + stored, octets, vault),
    )
    return stored


def wraps_after(connection: sqlite3.Connection, vault: bytes, after: int, limit: int) -> WrapPage:
    last = connection.execute("SELECT wrap_n FROM vault WHERE id = ?", (vault,)).fetchone()
    if last is None:
        raise VaultUnknown
    rows = connection.execute(
        "SELECT body_hash, wrap, position FROM wrap WHERE vault = ? AND position > ?"
        " AND position > 0 ORDER BY position LIMIT ?",
        (vault, min(after, last[0]), limit),
    ).fetchall()
    cursor = rows[-1][2] if rows else after
    return WrapPage(tuple(WrapRow(body_hash, wrap) for body_hash, wrap, _ in rows), cursor)
