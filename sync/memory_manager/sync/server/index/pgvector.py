"""Vectors of opted-in rows in a table of PostgreSQL's extension pgvector, compared by the database.

A search reads every piece of the rows it asks for, all of one vault: an exact scan. An approximate
index chooses among the pieces of all vaults before filters apply, so it can lose rows that are
allowed and wanted; for the rows that one vault may have, none is needed.

The extension may come and go while servers run, so every use looks whether it is there, in its own
transaction. Functions take a connection inside a transaction whose schema is ``memlocket_index``.
"""

from __future__ import annotations

import importlib.resources
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import asyncpg
import numpy as np

from memory_manager.security.event_log import log_event
from memory_manager.sync.server.index.storage import Comparing, Matrix
from memory_manager.sync.server.index.vectors import meanings_of, unpack_pieces

if TYPE_CHECKING:
    from asyncpg import Connection
    from asyncpg.pool import PoolConnectionProxy

    Line = Connection | PoolConnectionProxy

_PACKAGE: Final = "memory_manager.sync.server.index"
# no row without the extension; with it, its type and operators can be named in this transaction
_LOOK: Final = """
SELECT set_config('search_path', 'memlocket_index, ' || quote_ident(nspname), true),
  EXISTS(SELECT FROM pg_attribute WHERE attrelid = to_regclass('memlocket_index.index_piece')
    AND attname = 'piece' AND NOT attisdropped)
FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector'"""
_AVAILABLE: Final = "SELECT EXISTS(SELECT FROM pg_available_extensions WHERE name = 'vector')"
# The query's vector is read once, not once a row. IS TRUE makes the records one hash: a list costs
# the planner time, and joined to a table without figures they could become a loop. OFFSET keeps the
# vectors themselves out of what is grouped.
_NEAREST: Final = """
SELECT record, greatest(0, max(near))::real FROM (
  SELECT record, CASE WHEN vector_dims(piece) = $4 THEN -(piece <#> wanted) END AS near
  FROM index_piece, (SELECT (SELECT $5::text::vector) AS wanted) AS query
  WHERE vault = $1 AND model = $2 AND (record IN (SELECT unnest($3::bytea[]))) IS TRUE
  OFFSET 0) AS compared
GROUP BY record"""
_IN_ROWS: Final = """
SELECT record, dimensions, pieces FROM index_row
WHERE vault = $1 AND model = $2 AND pieces IS NOT NULL
  AND (record IN (SELECT unnest($3::bytea[]))) IS TRUE"""

_log = logging.getLogger(__name__)


async def is_ready(line: Line) -> bool:
    """Whether the database has the extension and our table."""
    found = await line.fetchrow(_LOOK)
    return found is not None and bool(found[1])


async def state(line: Line) -> Comparing:
    """Who compares vectors in this database."""
    if await is_ready(line):
        return Comparing.DATABASE
    available = await line.fetchval(_AVAILABLE)
    return Comparing.NOT_CREATED if available else Comparing.NO_EXTENSION


async def make_ready(line: Line) -> Comparing:
    """Create the extension and our table where that is possible; what else there is works on.

    The caller holds the lock of the schema: no other server does this meanwhile.
    """
    found = await state(line)
    if found is Comparing.DATABASE:
        return found
    # vectors of these rows stood in a table that went with the extension
    await line.execute(
        "UPDATE index_row SET model = NULL, dimensions = NULL"
        " WHERE model IS NOT NULL AND pieces IS NULL"
    )
    if found is Comparing.NO_EXTENSION:
        return found
    sql = importlib.resources.files(_PACKAGE).joinpath("postgres_0002_pgvector.sql").read_text()
    try:
        async with line.transaction():
            await line.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA memlocket_index")
            await line.fetchrow(_LOOK)
            await line.execute(sql)
    except asyncpg.PostgresError as error:
        log_event(
            _log,
            "index_pgvector_not_created",
            level=logging.WARNING,
            error_type=type(error).__name__,
        )
    return await state(line)


async def put(line: Line, vault: bytes, record: bytes, model: str, pieces: Matrix) -> None:
    """The vector of a row that is there and locked; an older one goes."""
    await line.execute("DELETE FROM index_piece WHERE vault = $1 AND record = $2", vault, record)
    await line.execute(
        "INSERT INTO index_piece(vault, record, number, model, piece)"
        " SELECT $1, $2, number, $3, piece::vector"
        " FROM unnest($4::text[]) WITH ORDINALITY AS new(piece, number)",
        vault,
        record,
        model,
        [_text(piece) for piece in pieces],
    )


async def meanings(
    line: Line, vault: bytes, model: str, query: Matrix, records: Sequence[bytes]
) -> dict[bytes, float]:
    """As ``IndexStorage.meanings``; rows whose vector was not brought here yet count as well."""
    asked = (vault, model, list(records))
    # first what may move into the table in between
    in_rows = await line.fetch(_IN_ROWS, *asked)
    rows = await line.fetch(_NEAREST, *asked, query.shape[0], _text(query))
    found = meanings_of(query, [(record, dims, raw) for record, dims, raw in in_rows])
    return found | {bytes(record): score for record, score in rows}


async def settle(line: Line, limit: int) -> int:
    """Move some vectors from their rows into the table; those that others move are left to them."""
    rows = await line.fetch(
        "SELECT vault, record, model, dimensions, pieces FROM index_row WHERE pieces IS NOT NULL"
        " LIMIT $1 FOR UPDATE SKIP LOCKED",
        limit,
    )
    for vault, record, model, dimensions, pieces in rows:
        await put(line, vault, record, model, unpack_pieces(pieces, dimensions))
        await line.execute(
            "UPDATE index_row SET pieces = NULL WHERE vault = $1 AND record = $2", vault, record
        )
    return len(rows)


def _text(vector: Matrix) -> str:
    """What pgvector reads, exact to the last bit; one with a NaN, which it refuses, as zeros."""
    finite = vector if np.isfinite(vector).all() else np.zeros_like(vector)
    return "[" + ",".join(f"{number:.9g}" for number in finite.tolist()) + "]"
