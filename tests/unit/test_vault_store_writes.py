"""The single writer: group commit, savepoints, callbacks, a disk that refuses, and the end."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_vault import SmallVault, connect, create_database, small_vault, writer

from memory_manager.vault import queries, write_queue
from memory_manager.vault.errors import Busy, NeedsRepair, ReadOnly, VaultLocked
from memory_manager.vault.filters import RowFilter
from memory_manager.vault.migrations import SCHEMA_VERSION
from memory_manager.vault.rows import ForgetMode, MemoryDraft
from memory_manager.vault.store import Store
from memory_manager.vault.transaction import Transaction

DEADLINE_SECONDS = 20


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[SmallVault]:
    with small_vault(tmp_path) as opened:
        yield opened


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.005)


class Gate:
    """Holds the writer inside one unit of work until it is opened."""

    def __init__(self, vault: SmallVault) -> None:
        self._open = threading.Event()
        entered = threading.Event()

        def wait(_: Transaction) -> None:
            entered.set()
            assert self._open.wait(DEADLINE_SECONDS)

        self.future = vault.store.submit(wait)
        assert entered.wait(DEADLINE_SECONDS)

    def open(self) -> None:
        self._open.set()


def note(vault: SmallVault, text: str) -> Callable[[Transaction], str]:
    return lambda tx: vault.memories.remember(tx, MemoryDraft(text, "p"), writer()).row.content


def contents(vault: SmallVault) -> set[str]:
    return {row.content for row in vault.listed()}


def test_f03_two_clients_with_twenty_parallel_writes_each_make_forty_rows(
    vault: SmallVault,
) -> None:
    def client(name: str) -> None:
        futures = [vault.store.submit(note(vault, f"{name} {n}")) for n in range(20)]
        for future in futures:
            future.result(timeout=DEADLINE_SECONDS)

    threads = [threading.Thread(target=client, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert contents(vault) == {f"{name} {n}" for name in ("a", "b") for n in range(20)}


def test_f04_concurrent_adds_and_deletes_leave_a_sound_database(vault: SmallVault) -> None:
    rows = [vault.remember(f"old {n}").row for n in range(25)]
    futures: list[concurrent.futures.Future[Any]] = []
    for number, row in enumerate(rows):
        futures.append(vault.store.submit(note(vault, f"new {number}")))
        futures.append(
            vault.store.submit(
                lambda tx, row=row: vault.memories.forget(
                    tx, row.id, ForgetMode.SOFT_DELETE, writer()
                )
            )
        )
    for future in futures:
        future.result(timeout=DEADLINE_SECONDS)
    assert contents(vault) == {f"new {n}" for n in range(25)}
    assert vault.read(lambda c: c.execute("PRAGMA integrity_check").fetchall()) == [("ok",)]


def test_failing_unit_takes_nothing_with_it(vault: SmallVault) -> None:
    def fail(transaction: Transaction) -> None:
        note(vault, "half written")(transaction)
        raise KeyError("own error of the work")

    gate = Gate(vault)
    futures: list[concurrent.futures.Future[Any]] = [
        vault.store.submit(note(vault, "before")),
        vault.store.submit(fail),
        vault.store.submit(lambda tx: tx.connection.execute("INSERT INTO nowhere VALUES(1)")),
        vault.store.submit(note(vault, "after")),
    ]
    gate.open()
    assert futures[0].result(DEADLINE_SECONDS) == "before"
    with pytest.raises(KeyError):
        futures[1].result(DEADLINE_SECONDS)
    with pytest.raises(Exception, match="no such table"):
        futures[2].result(DEADLINE_SECONDS)
    assert futures[3].result(DEADLINE_SECONDS) == "after"
    assert contents(vault) == {"before", "after"}


def test_queued_units_share_one_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # a batch that takes long is cut, and on a busy machine all take long
    monkeypatch.setattr(write_queue, "MAX_BATCH_SECONDS", 60.0)
    generations: list[int] = []
    with small_vault(
        tmp_path, on_commit=lambda generation, _: generations.append(generation)
    ) as vault:
        gate = Gate(vault)
        futures = [vault.store.submit(note(vault, str(n))) for n in range(20)]
        assert generations == []
        gate.open()
        for future in futures:
            future.result(DEADLINE_SECONDS)
        assert vault.store.generation() == generations[-1]
    assert generations == [SCHEMA_VERSION + 1, SCHEMA_VERSION + 2]  # the gate's, and all others'


def test_a_batch_that_takes_long_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_queue, "MAX_BATCH_SECONDS", 0.0)
    generations: list[int] = []
    with small_vault(
        tmp_path, on_commit=lambda generation, _: generations.append(generation)
    ) as vault:
        gate = Gate(vault)
        futures = [vault.store.submit(note(vault, str(n))) for n in range(5)]
        gate.open()
        for future in futures:
            future.result(DEADLINE_SECONDS)
    assert generations == list(range(SCHEMA_VERSION + 1, SCHEMA_VERSION + 7))


def test_commit_is_heard_before_callbacks_and_callbacks_before_answers(tmp_path: Path) -> None:
    heard: list[str] = []
    with small_vault(tmp_path, on_commit=lambda *_: heard.append("commit")) as vault:

        def work(name: str) -> Callable[[Transaction], None]:
            def run(transaction: Transaction) -> None:
                transaction.after_commit(lambda: heard.append(name))
                if name == "fails":
                    raise ValueError

            return run

        gate = Gate(vault)
        futures = [vault.store.submit(work(name)) for name in ("one", "fails", "two")]
        futures[-1].add_done_callback(lambda _: heard.append("answer"))
        gate.open()
        concurrent.futures.wait(futures, DEADLINE_SECONDS)
    assert [entry for entry in heard if entry != "commit"] == ["one", "two", "answer"]
    assert heard[0] == "commit"


def test_listener_that_raises_does_not_undo_or_fail_a_durable_write(tmp_path: Path) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError

    with small_vault(tmp_path, on_commit=broken) as vault:

        def work(transaction: Transaction) -> str:
            transaction.after_commit(lambda: broken())
            return note(vault, "kept")(transaction)

        assert vault.write(work) == "kept"
        assert contents(vault) == {"kept"}


def test_units_without_effect_do_not_count_as_a_commit(tmp_path: Path) -> None:
    generations: list[int] = []
    with small_vault(
        tmp_path, on_commit=lambda generation, _: generations.append(generation)
    ) as vault:
        future = vault.store.submit(lambda tx: tx.connection.execute("nonsense"))
        with pytest.raises(Exception, match="syntax"):
            future.result(DEADLINE_SECONDS)
    assert generations == []


def test_writes_run_with_full_synchronous(vault: SmallVault) -> None:
    mode = vault.write(lambda tx: tx.connection.execute("PRAGMA synchronous").fetchone())
    assert mode == (2,)


async def test_cancelled_before_it_started_means_never_written(vault: SmallVault) -> None:
    gate = Gate(vault)
    waiting = asyncio.ensure_future(vault.store.write(note(vault, "cancelled")))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.open()
    assert await vault.store.write(note(vault, "kept")) == "kept"
    rows = await vault.store.read(lambda c: queries.list_rows(c, RowFilter(), 10**13))
    assert [row.content for row in rows] == ["kept"]


def test_close_finishes_what_was_queued_and_empties_the_log(tmp_path: Path) -> None:
    create_database(tmp_path / "vault.db")
    vault = SmallVault(tmp_path)
    gate = Gate(vault)
    futures = [vault.store.submit(note(vault, str(n))) for n in range(30)]
    vault.listed()
    closer = threading.Thread(target=vault.close)
    closer.start()
    gate.open()
    closer.join(DEADLINE_SECONDS)
    assert [future.result(0) for future in futures] == [str(n) for n in range(30)]
    assert not (tmp_path / "vault.db-wal").exists()
    with pytest.raises(VaultLocked):
        vault.store.submit(note(vault, "late"))
    with pytest.raises(VaultLocked):
        vault.listed()
    vault.close()
    with small_vault(tmp_path) as reopened:
        assert len(reopened.listed()) == 30


class FullDisk:
    """Connections to a vault whose file may not grow beyond what it is: SQLITE_FULL on demand."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: Any = None

    def connect(self) -> Any:
        connection = connect(self._path)
        if self._writer is None:
            self._writer = connection
        return connection

    def fill(self) -> None:
        (pages,) = self._writer.execute("PRAGMA page_count").fetchone()
        self._writer.execute(f"PRAGMA max_page_count = {pages}")

    def empty(self) -> None:
        self._writer.execute("PRAGMA max_page_count = 1000000")


def test_full_disk_refuses_writes_keeps_reads_and_recovers(tmp_path: Path) -> None:
    create_database(tmp_path / "vault.db")
    disk = FullDisk(tmp_path / "vault.db")
    heard: list[str] = []
    vault = SmallVault(tmp_path)
    vault.close()
    store = Store(
        disk.connect,
        on_write_failure=lambda error: heard.append(type(error).__name__),
        on_write_recovered=lambda: heard.append("recovered"),
        retry_seconds=2.0,  # longer than what is looked at before the disk has room again
    )
    vault.store = store
    try:
        vault.remember("before")
        disk.fill()
        gate = Gate(vault)
        small = store.submit(note(vault, "shares the batch"))
        large = store.submit(note(vault, "x" * 90_000))
        gate.open()
        for future in (small, large):
            with pytest.raises(ReadOnly):
                future.result(DEADLINE_SECONDS)
        assert store.read_only
        assert contents(vault) == {"before"}
        with pytest.raises(ReadOnly):
            vault.remember("refused at once")
        disk.empty()
        until(lambda: not store.read_only)
        vault.remember("after")
        assert contents(vault) == {"before", "after"}
        assert heard == ["OperationalError", "recovered"]
        assert vault.read(lambda c: c.execute("PRAGMA integrity_check").fetchall()) == [("ok",)]
    finally:
        store.close()


def test_writes_are_refused_while_another_process_holds_the_database(tmp_path: Path) -> None:
    def impatient() -> Any:
        connection = connect(vault.path)
        connection.execute("PRAGMA busy_timeout = 50")
        return connection

    with small_vault(tmp_path) as vault:
        vault.store.close()
        vault.store = Store(impatient)
        other = connect(vault.path)
        other.execute("BEGIN IMMEDIATE")
        futures = [vault.store.submit(note(vault, f"note {n}")) for n in range(3)]
        for future in futures:
            with pytest.raises(Busy):
                future.result(DEADLINE_SECONDS)
        other.execute("ROLLBACK")
        other.close()
        vault.remember("after")
        assert contents(vault) == {"after"}


def test_reads_see_one_snapshot_and_cannot_write(vault: SmallVault) -> None:
    vault.remember("one")

    def read_twice(connection: Any) -> tuple[int, int]:
        first = queries.count_rows(connection, RowFilter(), 0)
        vault.remember("two")
        return first, queries.count_rows(connection, RowFilter(), 0)

    assert vault.read(read_twice) == (1, 1)
    vault.read(lambda c: c.execute("DELETE FROM setting"))
    vault.read(lambda c: c.execute("UPDATE vault_state SET value = 0"))
    assert vault.store.generation() > SCHEMA_VERSION
    vault.remember("three")


def test_more_readers_than_connections_take_turns(tmp_path: Path) -> None:
    with small_vault(tmp_path, readers=2) as vault:
        vault.remember("one")
        running = threading.Semaphore(0)
        most = 0
        current = 0
        lock = threading.Lock()

        def work(connection: Any) -> int:
            nonlocal most, current
            with lock:
                current += 1
                most = max(most, current)
            running.release()
            number = queries.count_rows(connection, RowFilter(), 0)
            with lock:
                current -= 1
            return number

        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            counts = list(pool.map(lambda _: vault.read(work), range(60)))
        assert counts == [1] * 60
        assert most <= 2


def test_close_interrupts_a_read_that_does_not_end(tmp_path: Path) -> None:
    vault = SmallVault(tmp_path)
    started = threading.Event()

    def endless(connection: Any) -> object:
        started.set()
        return connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
        ).fetchone()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(vault.read, endless)
        assert started.wait(DEADLINE_SECONDS)
        vault.store.close(timeout=0.2)
        with pytest.raises(VaultLocked):
            future.result(DEADLINE_SECONDS)


def test_close_interrupts_a_write_that_does_not_end(tmp_path: Path) -> None:
    vault = SmallVault(tmp_path)
    vault.remember("before")
    started = threading.Event()

    def endless(transaction: Transaction) -> object:
        note(vault, "half written")(transaction)
        started.set()
        return transaction.connection.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
        ).fetchone()

    future = vault.store.submit(endless)
    assert started.wait(DEADLINE_SECONDS)
    vault.store.close(timeout=1.0)
    with pytest.raises(VaultLocked):
        future.result(DEADLINE_SECONDS)
    with small_vault(tmp_path) as again:
        assert contents(again) == {"before"}


async def test_a_closed_store_says_that_it_is_locked(tmp_path: Path) -> None:
    vault = SmallVault(tmp_path)
    opened = threading.Event()
    slow = [
        asyncio.ensure_future(vault.store.read(lambda _: opened.wait(DEADLINE_SECONDS)))
        for _ in range(3)
    ]
    queued = [asyncio.ensure_future(vault.store.read(lambda _: True)) for _ in range(200)]
    closing = asyncio.ensure_future(asyncio.to_thread(vault.store.close))
    await asyncio.sleep(0)
    opened.set()
    await closing
    assert await asyncio.gather(*slow) == [True] * 3
    for answer in await asyncio.gather(*queued, return_exceptions=True):
        assert answer is True or isinstance(answer, VaultLocked)
    for late in (vault.store.read(lambda _: 1), vault.store.write(lambda _: 1)):
        with pytest.raises(VaultLocked):
            await late


def test_damaged_page_is_needs_repair_and_the_rest_is_served(tmp_path: Path) -> None:
    with small_vault(tmp_path) as vault:
        for number in range(30):
            vault.remember(f"{number} " + "filler " * 600)
    path = tmp_path / "vault.db"
    data = bytearray(path.read_bytes())
    data[len(data) * 3 // 4] ^= 1
    path.write_bytes(data)
    with small_vault(tmp_path) as vault:
        with pytest.raises(NeedsRepair):
            vault.listed()
        assert vault.read(lambda c: queries.count_rows(c, RowFilter(), 0)) == 30
