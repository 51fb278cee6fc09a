"""The index in a schema of its own, ``memlocket_index``, in the server's PostgreSQL database.

Several server processes may use it: what belongs together is one transaction under a lock of the
vault. Where the database has the extension pgvector, it keeps the vectors in ``index_piece`` and
compares them; elsewhere they stand in ``index_row`` and the server process does, as with SQLite.
What is removed is gone for every query at once; its bytes may stay in the files of both tables
until VACUUM FULL, and in the write-ahead log until that is used again.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.resources
import logging
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Final

import asyncpg

from memory_manager.base.times import now_ms as clock_ms
from memory_manager.security.event_log import log_event
from memory_manager.sync.server.index import pgvector
from memory_manager.sync.server.index.storage import (
    MAX_AUDIT_ENTRIES,
    MAX_TOKENS,
    AgentToken,
    AuditEntry,
    Candidate,
    Comparing,
    Matrix,
    NewRow,
    Put,
)
from memory_manager.sync.server.index.stored_rows import (
    ACCESS_COLUMNS,
    CANDIDATE_COLUMNS,
    LAST_USE_MS,
    NEW_ACCESS_COLUMNS,
    ROW_COLUMNS,
    TABLES,
    access_values,
    candidate_of,
    is_newer,
    row_values,
)
from memory_manager.sync.server.index.vectors import meanings_of, pack_pieces
from memory_manager.sync.server.postgres.database import outside_errors
from memory_manager.sync.server.refusals import StorageMismatch

if TYPE_CHECKING:
    from asyncpg import Connection, Pool
    from asyncpg.pool import PoolConnectionProxy

    Line = Connection | PoolConnectionProxy

POOL_CONNECTIONS: Final = 4
CONNECT_SECONDS: Final = 10.0
STATEMENT_SECONDS: Final = 60.0
VERSION: Final = 2
"""Of the schema; 2 once it has the table of pgvector. A newer one is not ours to write into."""
_SCHEMA: Final = "memlocket_index"
_SCHEMA_LOCK: Final = 0x6D6C6B32
_PACKAGE: Final = "memory_manager.sync.server.index"

_log = logging.getLogger(__name__)


class PostgresIndex:
    """An IndexStorage. ``open_postgres_index`` makes one."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._comparing: Comparing | None = None

    @property
    def comparing(self) -> Comparing:
        return self._comparing or Comparing.NO_EXTENSION

    @contextlib.asynccontextmanager
    async def _line(self, vault: bytes | None = None) -> AsyncGenerator[Line]:
        """A transaction; with a vault no other one of that vault runs beside it."""
        with outside_errors():
            async with self._pool.acquire() as line, line.transaction():
                await line.execute(f"SET LOCAL search_path = {_SCHEMA}")
                if vault is not None:
                    number = int.from_bytes(vault[:8], "big", signed=True)
                    await line.execute("SELECT pg_advisory_xact_lock($1)", number)
                yield line

    async def open(self) -> None:
        """Make the schema where there is none; StorageMismatch for one of a newer program."""
        with outside_errors():
            async with self._pool.acquire() as line, line.transaction():
                await line.execute("SELECT pg_advisory_xact_lock($1)", _SCHEMA_LOCK)
                there = await line.fetchval("SELECT to_regclass('memlocket_index.version')")
                if there is None:
                    files = importlib.resources.files(_PACKAGE)
                    await line.execute(files.joinpath("postgres_0001.sql").read_text())
                version = await line.fetchval("SELECT max(number) FROM memlocket_index.version")
                if version > VERSION:
                    raise StorageMismatch
                await line.execute(f"SET LOCAL search_path = {_SCHEMA}")
                comparing = await pgvector.make_ready(line)
        self._compares(comparing)

    def _compares(self, who: Comparing) -> None:
        """Say in the log who compares vectors from now on, if that is news."""
        if who is self._comparing:
            return
        self._comparing = who
        here = who is not Comparing.DATABASE
        log_event(
            _log,
            "index_vectors",
            level=logging.WARNING if here else logging.INFO,
            backend="process" if here else "pgvector",
            reason=who.value,
        )

    @contextlib.asynccontextmanager
    async def _vectors(self) -> AsyncGenerator[tuple[Line, bool]]:
        """A transaction, and whether pgvector's table has the vectors in it."""
        async with self._line() as line:
            ready = await pgvector.is_ready(line)
            if ready:
                self._compares(Comparing.DATABASE)
            elif self._comparing is Comparing.DATABASE:
                self._compares(await pgvector.state(line))
            yield line, ready

    # --- rows ---------------------------------------------------------------------------------

    async def put(self, row: NewRow, now_ms: int, max_rows: int) -> Put:
        async with self._line(row.vault) as line:
            held = await line.fetchrow(
                "SELECT dot_device, dot_seq, owner_grant, document FROM index_row"
                " WHERE vault = $1 AND record = $2",
                row.vault,
                row.record,
            )
            if held is not None and (held[2], held[3]) == (row.grant, row.document):
                return Put.UNCHANGED
            await line.execute(
                "DELETE FROM grant_used WHERE vault = $1 AND expires <= $2",
                row.vault,
                now_ms // 1000,
            )
            if await line.fetchval(
                "SELECT 1 FROM grant_used WHERE vault = $1 AND nonce = $2", row.vault, row.nonce
            ):
                return Put.NONCE_USED
            if held is None:
                if await _count(line, row.vault) >= max_rows:
                    return Put.FULL
            elif not is_newer(row, held[0], held[1], held[3]):
                return Put.OTHER_REVISION
            await _replace(line, row, now_ms)
            code = "new" if held is None else "replaced"
            await _note(line, row.vault, row.device, "row.stored", code, row.record)
            return Put.STORED

    async def remove(self, vault: bytes, record: bytes, device: bytes) -> bool:
        async with self._line(vault) as line:
            found = await line.fetchval(
                "DELETE FROM index_row WHERE vault = $1 AND record = $2 RETURNING 1", vault, record
            )
            code = "ok" if found else "absent"
            await _note(line, vault, device, "row.removed", code, record)
        return bool(found)

    async def candidates(self, vault: bytes) -> list[Candidate]:
        async with self._line() as line:
            rows = await line.fetch(
                f"SELECT {CANDIDATE_COLUMNS} FROM index_row WHERE vault = $1", vault
            )
        return [candidate_of(tuple(row)) for row in rows]

    async def meanings(
        self, vault: bytes, model: str, query: Matrix, records: Sequence[bytes]
    ) -> dict[bytes, float]:
        async with self._vectors() as (line, ready):
            if ready:
                return await pgvector.meanings(line, vault, model, query, records)
            rows = await line.fetch(
                "SELECT record, dimensions, pieces FROM index_row"
                " WHERE vault = $1 AND model = $2 AND pieces IS NOT NULL"
                " AND (record IN (SELECT unnest($3::bytea[]))) IS TRUE",
                vault,
                model,
                list(records),
            )
        packed = [(record, dimensions, pieces) for record, dimensions, pieces in rows]
        return await asyncio.to_thread(meanings_of, query, packed)

    async def documents(self, vault: bytes, records: Sequence[bytes]) -> dict[bytes, bytes]:
        async with self._line() as line:
            rows = await line.fetch(
                "SELECT record, document FROM index_row WHERE vault = $1 AND record = ANY($2)",
                vault,
                list(records),
            )
        return {bytes(record): bytes(document) for record, document in rows}

    async def without_vector(self, model: str, limit: int) -> list[tuple[bytes, bytes, bytes]]:
        async with self._line() as line:
            rows = await line.fetch(
                "SELECT vault, record, document FROM index_row"
                " WHERE model IS DISTINCT FROM $1 LIMIT $2",
                model,
                limit,
            )
        return [(bytes(vault), bytes(record), bytes(raw)) for vault, record, raw in rows]

    async def put_vector(
        self, vault: bytes, record: bytes, document: bytes, model: str, pieces: Matrix
    ) -> None:
        async with self._vectors() as (line, ready):
            there = await line.fetchval(
                "UPDATE index_row SET model = $1, dimensions = $2, pieces = $3"
                " WHERE vault = $4 AND record = $5 AND document = $6 RETURNING 1",
                model,
                pieces.shape[1],
                None if ready else pack_pieces(pieces),
                vault,
                record,
                document,
            )
            if there and ready:
                await pgvector.put(line, vault, record, model, pieces)

    async def settle(self, limit: int) -> int:
        async with self._vectors() as (line, ready):
            return await pgvector.settle(line, limit) if ready else 0

    async def records(self, vault: bytes) -> list[bytes]:
        async with self._line() as line:
            rows = await line.fetch(
                "SELECT record FROM index_row WHERE vault = $1 ORDER BY record", vault
            )
        return [bytes(record) for (record,) in rows]

    # --- audit --------------------------------------------------------------------------------

    async def note(
        self, vault: bytes, device: bytes | None, action: str, code: str, record: bytes | None
    ) -> None:
        async with self._line() as line:
            await _note(line, vault, device, action, code, record)

    async def audit(self, vault: bytes, limit: int) -> list[AuditEntry]:
        async with self._line() as line:
            rows = await line.fetch(
                "SELECT at_ms, action, code, device, record FROM index_audit WHERE vault = $1"
                " ORDER BY number DESC LIMIT $2",
                vault,
                limit,
            )
        return [AuditEntry(*row) for row in rows]

    # --- tokens -------------------------------------------------------------------------------

    async def issue(self, token: AgentToken, digest: bytes) -> bool:
        async with self._line(token.vault) as line:
            await line.execute(
                "DELETE FROM index_token WHERE vault = $1 AND expires_at_ms <= $2",
                token.vault,
                token.created_at_ms,
            )
            count = await line.fetchval(
                "SELECT count(*) FROM index_token WHERE vault = $1", token.vault
            )
            if count >= MAX_TOKENS:
                return False
            await line.execute(
                f"INSERT INTO index_token({NEW_ACCESS_COLUMNS}) VALUES($1, $2, $3, $4, $5, $6, $7)",
                *access_values(token, digest),
            )
            await _note(line, token.vault, token.device, "token.issued", "ok", None)
            return True

    async def tokens(self, vault: bytes, now_ms: int) -> list[AgentToken]:
        async with self._line() as line:
            rows = await line.fetch(
                f"SELECT {ACCESS_COLUMNS} FROM index_token WHERE vault = $1"
                " AND expires_at_ms > $2 ORDER BY created_at_ms, id",
                vault,
                now_ms,
            )
        return [AgentToken(*row) for row in rows]

    async def revoke(self, vault: bytes, token_id: str, device: bytes) -> bool:
        async with self._line(vault) as line:
            gone = await line.fetchval(
                "DELETE FROM index_token WHERE vault = $1 AND id = $2 RETURNING 1", vault, token_id
            )
            code = "ok" if gone else "absent"
            await _note(line, vault, device, "token.revoked", code, None)
        return bool(gone)

    async def token_of(self, digest: bytes, now_ms: int) -> AgentToken | None:
        async with self._line() as line:
            row = await line.fetchrow(
                f"SELECT {ACCESS_COLUMNS} FROM index_token"
                " WHERE digest = $1 AND expires_at_ms > $2",
                digest,
                now_ms,
            )
            if row is None:
                return None
            token = AgentToken(*row)
            if (token.last_used_at_ms or 0) <= now_ms - LAST_USE_MS:
                await line.execute(
                    "UPDATE index_token SET last_used_at_ms = $1 WHERE id = $2", now_ms, token.id
                )
            return token

    # --- the end ------------------------------------------------------------------------------

    async def delete_vault(self, vault: bytes) -> None:
        async with self._line(vault) as line:
            for table in TABLES:
                await line.execute(f"DELETE FROM {table} WHERE vault = $1", vault)

    async def close(self) -> None:
        await self._pool.close()


async def open_postgres_index(url: str) -> PostgresIndex:
    """The index at a database URL; StorageUnavailable, StorageMismatch."""
    with outside_errors():
        pool = await asyncpg.create_pool(
            url,
            min_size=0,
            max_size=POOL_CONNECTIONS,
            timeout=CONNECT_SECONDS,
            command_timeout=STATEMENT_SECONDS,
        )
    index = PostgresIndex(pool)
    try:
        await index.open()
    except BaseException:
        await index.close()
        raise
    return index


async def comparing_at(url: str) -> Comparing:
    """Who compares vectors in the database at a URL, without a change of it."""
    with outside_errors():
        line = await asyncpg.connect(url, timeout=CONNECT_SECONDS)
        try:
            async with line.transaction(readonly=True):
                return await pgvector.state(line)
        finally:
            await line.close()


async def _replace(line: Line, row: NewRow, now_ms: int) -> None:
    await line.execute(
        "DELETE FROM index_row WHERE vault = $1 AND record = $2", row.vault, row.record
    )
    await line.execute(
        f"INSERT INTO index_row({ROW_COLUMNS})"
        " VALUES($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)",
        *row_values(row, now_ms),
    )
    await line.execute(
        "INSERT INTO grant_used(vault, nonce, expires) VALUES($1, $2, $3)",
        row.vault,
        row.nonce,
        row.expires,
    )


async def _count(line: Line, vault: bytes) -> int:
    return int(await line.fetchval("SELECT count(*) FROM index_row WHERE vault = $1", vault))


async def _note(
    line: Line,
    vault: bytes,
    device: bytes | None,
    action: str,
    code: str,
    record: bytes | None,
) -> None:
    await line.execute(
        "INSERT INTO index_audit(vault, at_ms, device, action, code, record)"
        " VALUES($1, $2, $3, $4, $5, $6)",
        vault,
        clock_ms(),
        device,
        action,
        code,
        record,
    )
    await line.execute(
        "DELETE FROM index_audit WHERE vault = $1 AND number <= (SELECT number FROM index_audit"
        " WHERE vault = $1 ORDER BY number DESC LIMIT 1 OFFSET $2)",
        vault,
        MAX_AUDIT_ENTRIES,
    )
