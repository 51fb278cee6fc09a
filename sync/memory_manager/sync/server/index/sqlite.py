"""The index in one SQLite file of its own, ``index.db``: one connection on one thread.

What is removed is overwritten (``secure_delete``) and the write-ahead log is emptied at once, so
that a row the owner took back stands in no file any more.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib.resources
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from memory_manager.base.private_files import check_private_file, write_private
from memory_manager.base.times import now_ms as clock_ms
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
    VERSION,
    access_values,
    candidate_of,
    is_newer,
    row_values,
)
from memory_manager.sync.server.index.vectors import meanings_of, pack_pieces
from memory_manager.sync.server.refusals import StorageMismatch
from memory_manager.sync.server.sqlite.database import outside_errors

T = TypeVar("T")

FILE_NAME: Final = "index.db"
_PACKAGE: Final = "memory_manager.sync.server.index"


class SqliteIndex:
    """An IndexStorage. ``open_sqlite_index`` makes one."""

    def __init__(self, path: Path) -> None:
        self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="index")
        self._path = path
        self._connection: sqlite3.Connection | None = None

    async def open(self) -> None:
        await self._run(self._open)

    def _open(self) -> None:
        if not self._path.exists():
            write_private(self._path, b"")
        check_private_file(self._path)
        connection = sqlite3.connect(self._path, isolation_level=None)
        self._connection = connection
        for pragma in ("secure_delete=ON", "journal_mode=WAL", "synchronous=FULL"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("PRAGMA busy_timeout=10000")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > VERSION:
            raise StorageMismatch
        if version == 0:
            sql = importlib.resources.files(_PACKAGE).joinpath("sqlite_0001.sql").read_text()
            connection.executescript(
                f"BEGIN IMMEDIATE;\n{sql}\nPRAGMA user_version={VERSION};\nCOMMIT;"
            )

    async def _run(self, work: Callable[[], T]) -> T:
        def guarded() -> T:
            with outside_errors():
                return work()

        return await asyncio.get_running_loop().run_in_executor(self._thread, guarded)

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def unit() -> T:
            connection = self._open_connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # a full disk has ended it already
                    connection.execute("ROLLBACK")
                raise
            return result

        return await self._run(unit)

    @property
    def _open_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise RuntimeError("the index is not open")
        return self._connection

    @property
    def comparing(self) -> Comparing:
        return Comparing.SQLITE

    # --- rows ---------------------------------------------------------------------------------

    async def put(self, row: NewRow, now_ms: int, max_rows: int) -> Put:
        return await self._write(lambda connection: _put(connection, row, now_ms, max_rows))

    async def remove(self, vault: bytes, record: bytes, device: bytes) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            found = connection.execute(
                "DELETE FROM index_row WHERE vault = ? AND record = ?", (vault, record)
            ).rowcount
            _note(connection, vault, device, "row.removed", "ok" if found else "absent", record)
            return bool(found)

        removed = await self._write(work)
        await self._run(self._empty_log)
        return removed

    def _empty_log(self) -> None:
        self._open_connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    async def candidates(self, vault: bytes) -> list[Candidate]:
        def work() -> list[Candidate]:
            rows = self._open_connection.execute(
                f"SELECT {CANDIDATE_COLUMNS} FROM index_row WHERE vault = ?", (vault,)
            )
            return [candidate_of(row) for row in rows]

        return await self._run(work)

    async def meanings(
        self, vault: bytes, model: str, query: Matrix, records: Sequence[bytes]
    ) -> dict[bytes, float]:
        wanted = frozenset(records)

        def work() -> list[tuple[bytes, int, bytes]]:
            rows = self._open_connection.execute(
                "SELECT record, dimensions, pieces FROM index_row WHERE vault = ? AND model = ?",
                (vault, model),
            )
            return [row for row in rows if row[0] in wanted]

        return await asyncio.to_thread(meanings_of, query, await self._run(work))

    async def documents(self, vault: bytes, records: Sequence[bytes]) -> dict[bytes, bytes]:
        def work() -> dict[bytes, bytes]:
            marks = ", ".join("?" * len(records))
            rows = self._open_connection.execute(
                f"SELECT record, document FROM index_row WHERE vault = ? AND record IN ({marks})",
                (vault, *records),
            )
            return dict(rows.fetchall())

        return await self._run(work)

    async def without_vector(self, model: str, limit: int) -> list[tuple[bytes, bytes, bytes]]:
        return await self._run(
            lambda: self._open_connection.execute(
                "SELECT vault, record, document FROM index_row WHERE model IS NOT ? LIMIT ?",
                (model, limit),
            ).fetchall()
        )

    async def put_vector(
        self, vault: bytes, record: bytes, document: bytes, model: str, pieces: Matrix
    ) -> None:
        values = (model, pieces.shape[1], pack_pieces(pieces), vault, record, document)

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "UPDATE index_row SET model = ?, dimensions = ?, pieces = ?"
                " WHERE vault = ? AND record = ? AND document = ?",
                values,
            )

        await self._write(work)

    async def settle(self, limit: int) -> int:
        return 0

    async def records(self, vault: bytes) -> list[bytes]:
        def work() -> list[bytes]:
            rows = self._open_connection.execute(
                "SELECT record FROM index_row WHERE vault = ? ORDER BY record", (vault,)
            )
            return [record for (record,) in rows]

        return await self._run(work)

    # --- audit --------------------------------------------------------------------------------

    async def note(
        self, vault: bytes, device: bytes | None, action: str, code: str, record: bytes | None
    ) -> None:
        await self._write(lambda connection: _note(connection, vault, device, action, code, record))

    async def audit(self, vault: bytes, limit: int) -> list[AuditEntry]:
        def work() -> list[AuditEntry]:
            rows = self._open_connection.execute(
                "SELECT at_ms, action, code, device, record FROM index_audit WHERE vault = ?"
                " ORDER BY number DESC LIMIT ?",
                (vault, limit),
            )
            return [AuditEntry(*row) for row in rows]

        return await self._run(work)

    # --- tokens -------------------------------------------------------------------------------

    async def issue(self, token: AgentToken, digest: bytes) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            _drop_expired(connection, token.vault, token.created_at_ms)
            (count,) = connection.execute(
                "SELECT count(*) FROM index_token WHERE vault = ?", (token.vault,)
            ).fetchone()
            if count >= MAX_TOKENS:
                return False
            connection.execute(
                f"INSERT INTO index_token({NEW_ACCESS_COLUMNS}) VALUES(?, ?, ?, ?, ?, ?, ?)",
                access_values(token, digest),
            )
            _note(connection, token.vault, token.device, "token.issued", "ok", None)
            return True

        return await self._write(work)

    async def tokens(self, vault: bytes, now_ms: int) -> list[AgentToken]:
        def work() -> list[AgentToken]:
            rows = self._open_connection.execute(
                f"SELECT {ACCESS_COLUMNS} FROM index_token WHERE vault = ? AND expires_at_ms > ?"
                " ORDER BY created_at_ms, id",
                (vault, now_ms),
            )
            return [AgentToken(*row) for row in rows]

        return await self._run(work)

    async def revoke(self, vault: bytes, token_id: str, device: bytes) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            gone = connection.execute(
                "DELETE FROM index_token WHERE vault = ? AND id = ?", (vault, token_id)
            ).rowcount
            code = "ok" if gone else "absent"
            _note(connection, vault, device, "token.revoked", code, None)
            return bool(gone)

        return await self._write(work)

    async def token_of(self, digest: bytes, now_ms: int) -> AgentToken | None:
        def work() -> AgentToken | None:
            connection = self._open_connection
            row = connection.execute(
                f"SELECT {ACCESS_COLUMNS} FROM index_token WHERE digest = ? AND expires_at_ms > ?",
                (digest, now_ms),
            ).fetchone()
            if row is None:
                return None
            token = AgentToken(*row)
            if (token.last_used_at_ms or 0) <= now_ms - LAST_USE_MS:
                connection.execute(
                    "UPDATE index_token SET last_used_at_ms = ? WHERE id = ?", (now_ms, token.id)
                )
            return token

        return await self._run(work)

    # --- the end ------------------------------------------------------------------------------

    async def delete_vault(self, vault: bytes) -> None:
        def work(connection: sqlite3.Connection) -> None:
            for table in TABLES:
                connection.execute(f"DELETE FROM {table} WHERE vault = ?", (vault,))

        await self._write(work)
        await self._run(self._empty_log)

    async def close(self) -> None:
        if self._connection is not None:
            await self._run(self._connection.close)
            self._connection = None
        self._thread.shutdown()


async def open_sqlite_index(data: Path) -> SqliteIndex:
    """The index below the server's data folder, made where there is none.

    StorageUnavailable, StorageMismatch, UnsafeFile; any call may raise StorageUnavailable.
    """
    index = SqliteIndex(data / FILE_NAME)
    try:
        await index.open()
    except BaseException:
        await index.close()
        raise
    return index


def _put(connection: sqlite3.Connection, row: NewRow, now_ms: int, max_rows: int) -> Put:
    held = connection.execute(
        "SELECT dot_device, dot_seq, owner_grant, document FROM index_row"
        " WHERE vault = ? AND record = ?",
        (row.vault, row.record),
    ).fetchone()
    if held is not None and held[2:] == (row.grant, row.document):
        return Put.UNCHANGED
    if _nonce_is_used(connection, row, now_ms):
        return Put.NONCE_USED
    if held is None:
        if _count(connection, row.vault) >= max_rows:
            return Put.FULL
    elif not is_newer(row, held[0], held[1], held[3]):
        return Put.OTHER_REVISION
    connection.execute(
        f"INSERT OR REPLACE INTO index_row({ROW_COLUMNS})"
        " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        row_values(row, now_ms),
    )
    connection.execute(
        "INSERT INTO grant_used(vault, nonce, expires) VALUES(?, ?, ?)",
        (row.vault, row.nonce, row.expires),
    )
    code = "new" if held is None else "replaced"
    _note(connection, row.vault, row.device, "row.stored", code, row.record)
    return Put.STORED


def _nonce_is_used(connection: sqlite3.Connection, row: NewRow, now_ms: int) -> bool:
    connection.execute(
        "DELETE FROM grant_used WHERE vault = ? AND expires <= ?", (row.vault, now_ms // 1000)
    )
    found = connection.execute(
        "SELECT 1 FROM grant_used WHERE vault = ? AND nonce = ?", (row.vault, row.nonce)
    ).fetchone()
    return found is not None


def _count(connection: sqlite3.Connection, vault: bytes) -> int:
    (count,) = connection.execute(
        "SELECT count(*) FROM index_row WHERE vault = ?", (vault,)
    ).fetchone()
    return int(count)


def _drop_expired(connection: sqlite3.Connection, vault: bytes, now_ms: int) -> None:
    connection.execute(
        "DELETE FROM index_token WHERE vault = ? AND expires_at_ms <= ?", (vault, now_ms)
    )


def _note(
    connection: sqlite3.Connection,
    vault: bytes,
    device: bytes | None,
    action: str,
    code: str,
    record: bytes | None,
) -> None:
    connection.execute(
        "INSERT INTO index_audit(vault, at_ms, device, action, code, record)"
        " VALUES(?, ?, ?, ?, ?, ?)",
        (vault, clock_ms(), device, action, code, record),
    )
    connection.execute(
        "DELETE FROM index_audit WHERE vault = ? AND number <= (SELECT number FROM index_audit"
        " WHERE vault = ? ORDER BY number DESC LIMIT 1 OFFSET ?)",
        (vault, vault, MAX_AUDIT_ENTRIES),
    )
