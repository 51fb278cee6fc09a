"""The encrypted store against the very same code on plain SQLite, in the same run.

The unkeyed connections exist here only; the product cannot open one.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from figures import cpu_timed, percentile
from memory_corpus import Corpus

from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.recall.fulltext import FullTextIndex
from memory_manager.recall.match_query import query_terms
from memory_manager.vault import queries
from memory_manager.vault.connection import open_database
from memory_manager.vault.filters import RowFilter
from memory_manager.vault.memories import Memories
from memory_manager.vault.migrations import migrate
from memory_manager.vault.rows import Attribution, MemoryDraft, MemoryType
from memory_manager.vault.store import Store

KEY, SALT = bytes(range(32)), bytes(range(16))
CACHE_KIB = 65_536
WRITER = Attribution(AgentIdentity("bench"))
Connect = Callable[[], Any]


def keyed(path: Path) -> Connect:
    return lambda: open_database(path, KEY, SALT, cache_kib=CACHE_KIB)


def unkeyed(path: Path) -> Connect:
    """The same library, the same settings, no key.

    Such a connection has no cipher status; the store asks for it and is told that all is well.
    """
    import sqlcipher3.dbapi2 as sqlcipher

    class PlainConnection(sqlcipher.Connection):  # type: ignore[misc]
        def execute(self, sql: str, *parameters: Any) -> Any:
            asked = "SELECT '1'" if sql == "PRAGMA cipher_status" else sql
            return super().execute(asked, *parameters)

    def connect() -> Any:
        connection = sqlcipher.connect(
            str(path),
            isolation_level=None,
            check_same_thread=False,
            timeout=5,
            factory=PlainConnection,
        )
        for setting in (
            "journal_mode=WAL",
            "synchronous=NORMAL",
            "temp_store=2",
            f"cache_size=-{CACHE_KIB}",
            "foreign_keys=ON",
            "cell_size_check=ON",
            "secure_delete=ON",
            "trusted_schema=OFF",
        ):
            connection.execute(f"PRAGMA {setting}")
        return connection

    return connect


def create(path: Path, encrypted: bool) -> Connect:
    connection = (
        open_database(path, KEY, SALT, create=True, maintenance=True)
        if encrypted
        else unkeyed(path)()
    )
    migrate(connection)
    connection.close()
    return keyed(path) if encrypted else unkeyed(path)


def draft(corpus: Corpus, number: int) -> MemoryDraft:
    memory = corpus.memory(number)
    return MemoryDraft(
        content=memory.content,
        path=memory.path,
        bucket=memory.bucket,
        scope=memory.scope,
        memory_type=MemoryType(memory.memory_type),
    )


class StoreBench:
    """One store under measurement; ``measure`` gives operations per second or milliseconds."""

    def __init__(self, connect: Connect, corpus: Corpus) -> None:
        self._index = FullTextIndex()
        self._memories = Memories([self._index])
        self._store = Store(connect)
        self._corpus = corpus
        self._connect = connect

    def close(self) -> None:
        self._store.close(30)

    def fill(self, rows: int, batch: int = 200) -> float:
        """Rows per second in transactions of ``batch``."""
        begun = time.perf_counter()
        for start in range(0, rows, batch):
            drafts = [draft(self._corpus, n) for n in range(start, min(rows, start + batch))]

            def work(tx: Any, drafts: list[MemoryDraft] = drafts) -> None:
                for item in drafts:
                    self._memories.remember(tx, item, WRITER)

            self._store.submit(work).result(120)
        return rows / (time.perf_counter() - begun)

    def single_writes(self, first: int, count: int) -> float:
        """Milliseconds of one acknowledged write, FULL, nobody else writing."""
        seconds = []
        for number in range(first, first + count):
            item = draft(self._corpus, number)
            begun = time.perf_counter()
            self._store.submit(lambda tx, d=item: self._memories.remember(tx, d, WRITER)).result(60)
            seconds.append(time.perf_counter() - begun)
        return percentile(seconds, 0.5) * 1000

    def group_commit(self, first: int, count: int, in_flight: int) -> float:
        """Acknowledged writes per second with ``in_flight`` waiting at any time."""
        drafts = iter([draft(self._corpus, n) for n in range(first, first + count)])

        async def client() -> None:
            for item in drafts:
                await self._store.write(lambda tx, d=item: self._memories.remember(tx, d, WRITER))

        async def everybody() -> None:
            async with asyncio.TaskGroup() as group:
                for _ in range(in_flight):
                    group.create_task(client())

        begun = time.perf_counter()
        asyncio.run(everybody())
        return count / (time.perf_counter() - begun)

    def reads(self, questions: list[str], rows: int) -> dict[str, float]:
        """CPU milliseconds, warm, on one reader connection."""
        connection = self._connect()
        try:
            now_ms = int(time.time() * 1000)
            step = max(1, rows // 300)
            names = [(n,) for n in range(1, rows, step)]

            def words() -> None:
                for question in questions:
                    self._index.search(
                        connection, query_terms(question), RowFilter(), now_ms, limit=100, wanted=10
                    )

            def points() -> None:
                for (rowid,) in names:
                    queries.rows_by_rowid(connection, [rowid])

            def newest() -> None:
                now = int(time.time() * 1000)
                queries.list_rows(connection, RowFilter(), now, limit=50)

            words()
            points()
            newest()
            return {
                "words_ms": _per_call(words, len(questions)),
                "row_by_rowid_ms": _per_call(points, len(names)),
                "newest_50_ms": _per_call(newest, 1, 9),
            }
        finally:
            connection.close()


def _per_call(work: Callable[[], None], calls: int, repeats: int = 3) -> float:
    """CPU milliseconds of one of the ``calls`` that ``work`` makes."""
    seconds = [cpu_timed(work) for _ in range(repeats)]
    return percentile(seconds, 0.5) * 1000 / calls


def store_ratio(folder: Path, rows: int, writes: int = 200) -> dict[str, object]:
    """Both stores interleaved, so that a busy moment of the machine hits both."""
    corpus = Corpus()
    questions = corpus.questions(60)
    figures: dict[str, dict[str, float]] = {"encrypted": {}, "plain": {}}
    benches = {
        name: StoreBench(create(folder / f"{name}.db", name == "encrypted"), corpus)
        for name in figures
    }
    try:
        for name, bench in benches.items():
            figures[name]["fill_rows_per_s"] = bench.fill(rows)
        for name, bench in benches.items():
            figures[name]["single_write_ms"] = bench.single_writes(rows, writes)
        for waiting in (8, 32, 128):
            for name, bench in benches.items():
                rate = bench.group_commit(rows + 10_000 * waiting, writes * 4, waiting)
                figures[name][f"group_commit_{waiting}_rows_per_s"] = rate
        for name, bench in benches.items():
            figures[name].update(bench.reads(questions, rows))
    finally:
        for bench in benches.values():
            bench.close()
    for name in figures:
        figures[name]["bytes_per_memory"] = (folder / f"{name}.db").stat().st_size / rows
        shutil.rmtree(folder / f"{name}.db", ignore_errors=True)
    # above 1: encryption costs; rates are turned round so that the reading is the same
    ratio = {
        key: plain / value if key.endswith("per_s") else value / plain
        for key, value in figures["encrypted"].items()
        if (plain := figures["plain"][key])
    }
    return {**figures, "encrypted_over_plain": ratio}
