"""Log rows, pages and wraps: statements inside a transaction of the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from memory_manager.sync.server.batches import (
    WRAP_OCTETS,
    Batch,
    PageSize,
    check_quota,
    new_rows,
    positions,
)
from memory_manager.sync.server.postgres.vaults import device_state, state_of, vault_row
from memory_manager.sync.server.refusals import VaultUnknown
from memory_manager.sync.server.storage import Appended, Quota, StoredPage, WrapPage, WrapRow
from memory_manager.sync.wire.envelope import SealedRow
from memory_manager.sync.wire.framing import LogRow, Signed
from memory_manager.sync.wire.log import Checkpoint, ServerHead, unpack_checkpoint, unpack_entry

if TYPE_CHECKING:
    from asyncpg import Record

    from memory_manager.sync.server.postgres.database import Line

# one round trip; the same hash is the same body, and a wrap that was renewed is not undone
_APPEND: Final = """
WITH row AS MATERIALIZED (
  SELECT * FROM unnest($3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[], $7::bytea[],
    $8::bytea[], $9::bigint[], $10::bytea[])
    AS row(n, seq, entry, body_hash, g, body, epoch, wrap)
), entries AS (
  INSERT INTO entry(vault, n, device, seq, entry, body_hash, g)
  SELECT $1, n, $2, seq, entry, body_hash, g FROM row
), blobs AS (
  INSERT INTO blob(vault, body_hash, body)
  SELECT $1, body_hash, body FROM row ON CONFLICT DO NOTHING
), wraps AS (
  INSERT INTO wrap(vault, body_hash, epoch, position, wrap)
  SELECT $1, body_hash, epoch, 0, wrap FROM row ON CONFLICT DO NOTHING
), checkpoints AS (
  INSERT INTO checkpoint(vault, n, checkpoint, signature) VALUES ($1, $11, $12, $13)
), vaults AS (
  UPDATE vault SET n = $11, g = $14, bytes = bytes + $15 WHERE id = $1
)
UPDATE device SET seq = $16, head = $17 WHERE vault = $1 AND id = $2
"""
_SIZES: Final = """
SELECT entry.n, octet_length(blob.body) AS octets, checkpoint.n IS NOT NULL AS is_end
FROM entry
JOIN blob ON blob.vault = $1 AND blob.body_hash = entry.body_hash
LEFT JOIN checkpoint ON checkpoint.vault = $1 AND checkpoint.n = entry.n
WHERE entry.vault = $1 AND entry.n > $2 AND entry.n <= $3 ORDER BY entry.n
"""
_PAGE: Final = """
SELECT entry.n, entry.entry, entry.g, blob.body, newest.wrap,
  checkpoint.checkpoint, checkpoint.signature
FROM entry
JOIN blob ON blob.vault = $1 AND blob.body_hash = entry.body_hash
CROSS JOIN LATERAL (
  SELECT wrap.wrap FROM wrap WHERE wrap.vault = $1 AND wrap.body_hash = entry.body_hash
  ORDER BY wrap.epoch DESC LIMIT 1
) AS newest
LEFT JOIN checkpoint ON checkpoint.vault = $1 AND checkpoint.n = entry.n
WHERE entry.vault = $1 AND entry.n > $2 AND entry.n <= $3 ORDER BY entry.n
"""


async def append(line: Line, vault: bytes, batch: Batch, default: Quota) -> Appended:
    state = state_of(await vault_row(line, vault, default, lock=True))
    author = await device_state(line, vault, batch.author)
    stored: list[Record] = []
    if batch.first_seq <= author.seq:
        stored = await line.fetch(
            "SELECT entry, n FROM entry WHERE vault = $1 AND device = $2"
            " AND seq BETWEEN $3 AND $4 ORDER BY seq",
            vault,
            batch.author,
            batch.first_seq,
            min(batch.last_seq, author.seq),
        )
    fresh = new_rows(batch, author, [row["entry"] for row in stored])
    first_n: int = stored[0]["n"] if stored else state.head.n + 1
    if not fresh:
        return Appended(state.head, first_n, 0)
    octets = sum(row.octets for row in fresh)
    check_quota(state.quota, rows=state.head.n + len(fresh), octets=state.bytes + octets)
    heads = positions(state.head, batch.author, fresh)
    said = batch.checkpoint
    await line.execute(
        _APPEND,
        vault,
        batch.author,
        [head.n for head in heads],
        [row.seq for row in fresh],
        [row.entry for row in fresh],
        [row.body_hash for row in fresh],
        [head.g for head in heads],
        [row.body for row in fresh],
        [row.epoch for row in fresh],
        [row.wrap for row in fresh],
        heads[-1].n,
        said.value.pack(),
        said.signature,
        heads[-1].g,
        octets,
        fresh[-1].seq,
        fresh[-1].head,
    )
    return Appended(heads[-1], first_n, len(fresh))


async def page(line: Line, vault: bytes, after: int, limit: int, max_bytes: int) -> StoredPage:
    tip = await tip_of(line, vault)
    if after >= tip.n:
        return StoredPage((), (), tip, tip)
    # sizes first: the bodies of a whole page could be far more than its limit
    size, end = PageSize(max_bytes), after
    last = min(after + max(1, limit), tip.n)
    for row in await line.fetch(_SIZES, vault, after, last):
        if not size.takes(row["octets"], row["is_end"]):
            break
        end = row["n"]
    rows: list[LogRow] = []
    checkpoints: list[Signed[Checkpoint]] = []
    head = tip
    for row in await line.fetch(_PAGE, vault, after, end):
        sealed = SealedRow(row["body"], row["wrap"])
        rows.append(LogRow(unpack_entry(row["entry"]), sealed, row["n"]))
        if row["checkpoint"] is not None:
            checkpoints.append(Signed(unpack_checkpoint(row["checkpoint"]), row["signature"]))
        head = ServerHead(row["n"], row["g"])
    return StoredPage(tuple(rows), tuple(checkpoints), head, tip)


async def tip_of(line: Line, vault: bytes) -> ServerHead:
    row = await line.fetchrow("SELECT n, g FROM vault WHERE id = $1", vault)
    if row is None:
        raise VaultUnknown
    return ServerHead(row["n"], row["g"])


async def put_wraps(line: Line, vault: bytes, wraps: Sequence[WrapRow], default: Quota) -> int:
    row = await vault_row(line, vault, default, lock=True)
    state, position = state_of(row), row["wrap_n"]
    hashes = [wrap.body_hash for wrap in wraps]
    known = {
        row["body_hash"]
        for row in await line.fetch(
            "SELECT body_hash FROM blob WHERE vault = $1 AND body_hash = ANY($2::bytea[])",
            vault,
            hashes,
        )
    }
    # of several for one key the last one counts; each has a position of its own
    stored = [wrap for wrap in wraps if wrap.body_hash in known]
    newest = {(wrap.body_hash, wrap.epoch): (i, wrap) for i, wrap in enumerate(stored, 1)}
    keys = [body_hash for body_hash, _ in newest], [epoch for _, epoch in newest]
    replaced = await line.fetchval(
        "SELECT count(*) FROM unnest($2::bytea[], $3::bigint[]) AS new(body_hash, epoch)"
        " JOIN wrap ON wrap.vault = $1 AND wrap.body_hash = new.body_hash"
        " AND wrap.epoch = new.epoch",
        vault,
        *keys,
    )
    await line.execute(
        "INSERT INTO wrap(vault, body_hash, epoch, position, wrap)"
        " SELECT $1, * FROM unnest($2::bytea[], $3::bigint[], $4::bigint[], $5::bytea[])"
        " ON CONFLICT(vault, body_hash, epoch)"
        " DO UPDATE SET position = excluded.position, wrap = excluded.wrap",
        vault,
        *keys,
        [position + i for i, _ in newest.values()],
        [wrap.wrap for _, wrap in newest.values()],
    )
    octets = WRAP_OCTETS * (len(newest) - replaced)
    check_quota(state.quota, octets=state.bytes + octets)
    await line.execute(
        "UPDATE vault SET wrap_n = wrap_n + $2, bytes = bytes + $3 WHERE id = $1",
        vault,
        len(stored),
        octets,
    )
    return len(stored)


async def wraps_after(line: Line, vault: bytes, after: int, limit: int) -> WrapPage:
    last = await line.fetchval("SELECT wrap_n FROM vault WHERE id = $1", vault)
    if last is None:
        raise VaultUnknown
    rows = await line.fetch(
        "SELECT body_hash, wrap, position FROM wrap WHERE vault = $1 AND position > $2"
        " AND position > 0 ORDER BY position LIMIT $3",
        vault,
        min(after, last),
        limit,
    )
    cursor = rows[-1]["position"] if rows else after
    return WrapPage(tuple(WrapRow(row["body_hash"], row["wrap"]) for row in rows), cursor)
