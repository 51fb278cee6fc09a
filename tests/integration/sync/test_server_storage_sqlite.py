"""What only the storage in a SQLite file has: file modes, group commit, full disks, backups."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import stat
import threading
from pathlib import Path

import pytest
from small_disk import small_disk
from stored_vault import StoredVault, head_of

from memory_manager.base.private_files import UnsafeFile
from memory_manager.sync.server.migrations import migrations
from memory_manager.sync.server.open_storage import open_storage
from memory_manager.sync.server.refusals import (
    QuotaExceeded,
    StorageMismatch,
    StorageUnavailable,
    VaultUnknown,
)
from memory_manager.sync.server.sqlite.backup import back_up
from memory_manager.sync.server.sqlite.database import FILE_NAME, open_file
from memory_manager.sync.server.sqlite.writer import Writer
from memory_manager.sync.server.storage import Quota, VaultHead

WAIT_SECONDS = 20.0
CHECKSUMS = {  # a migration that was shipped is never changed: add another one
    ("sqlite", 1): "c3ed0c6d0336163738125ebfb1da8fe3a7138e13f4d06db6564a3ffc451a9455",
    ("sqlite", 2): "01c89639b5df985fe20a8d60c1a0e7f8f1d00c570fa6d7fe72a998bdbca09f1c",
    ("postgres", 1): "88672d3feff7192fe255ed3c486817f6ea94aad5b8fde656203b9f7e4453c660",
    ("postgres", 2): "b6211a3bb17fc9007cb37d286e299d021103dfe16b7893c2fb5cc6d55c489205",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "server"


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_shipped_migrations_stay_what_they_were() -> None:
    found = {
        (database, migration.number): migration.checksum
        for database in ("sqlite", "postgres")
        for migration in migrations(database)
    }
    assert found == CHECKSUMS


async def test_all_files_are_the_owners_alone(folder: Path) -> None:
    vault = StoredVault("modes")
    async with open_storage(data=folder) as storage:
        await vault.create(storage)
        assert modes(folder) == dict.fromkeys(
            (FILE_NAME, f"{FILE_NAME}-wal", f"{FILE_NAME}-shm"), 0o600
        )
        assert modes(folder.parent)[folder.name] == 0o700
    assert modes(folder) == {FILE_NAME: 0o600}  # all is in the one file


@pytest.mark.parametrize("mode", [0o644, 0o620])
async def test_a_database_that_others_may_open_is_refused(folder: Path, mode: int) -> None:
    async with open_storage(data=folder):
        pass
    (folder / FILE_NAME).chmod(mode)
    with pytest.raises(UnsafeFile):
        async with open_storage(data=folder):
            pass


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE schema_migration SET checksum = 'another'",
        "INSERT INTO schema_migration VALUES (9999, 'later', 'checksum', 0)",
    ],
    ids=["changed", "newer"],
)
async def test_a_database_of_another_version_is_left_alone(folder: Path, change: str) -> None:
    async with open_storage(data=folder):
        pass
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as connection, connection:
        connection.execute(change)
    with pytest.raises(StorageMismatch):
        async with open_storage(data=folder):
            pass


def test_what_is_no_database_is_not_touched(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    (folder / FILE_NAME).write_bytes(b"not a database" * 100)
    (folder / FILE_NAME).chmod(0o600)
    with pytest.raises(StorageUnavailable):
        open_file(folder)
    assert (folder / FILE_NAME).read_bytes() == b"not a database" * 100


def test_units_that_wait_share_one_commit_and_one_failure_is_its_own(folder: Path) -> None:
    writer = Writer(open_file(folder))
    go_on = threading.Event()
    statements: list[str] = []

    def first(connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(statements.append)
        go_on.wait(WAIT_SECONDS)

    def add(number: int, connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO registration VALUES (?, 0)", (bytes([number]),))
        if number % 10 == 3:
            raise VaultUnknown
        return number

    futures = [writer.submit(first)]
    futures += [writer.submit(lambda c, n=number: add(n, c)) for number in range(50)]
    heard: list[int] = []
    last = writer.submit(lambda _: 7, heard.append)
    go_on.set()
    writer.close()  # finishes what was asked before
    assert last.result(0) == 7
    assert heard == [7]
    refused = [number for number in range(50) if futures[number + 1].exception() is not None]
    assert refused == [3, 13, 23, 33, 43]
    assert statements.count("COMMIT") <= 2
    with pytest.raises(StorageUnavailable):
        writer.submit(first)
    with contextlib.closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        rows = connection.execute("SELECT token_hash FROM registration ORDER BY 1").fetchall()
    assert [row[0][0] for row in rows] == [n for n in range(50) if n not in refused]


def test_every_commit_waits_for_the_disk(folder: Path) -> None:
    writer = Writer(open_file(folder))

    def pragma(name: str) -> object:
        work = writer.submit(lambda c: c.execute(f"PRAGMA {name}").fetchone()[0])
        return work.result(WAIT_SECONDS)

    assert pragma("journal_mode") == "wal"
    assert pragma("synchronous") == 2  # FULL: a power cut takes nothing that was acknowledged
    writer.close()


@pytest.mark.priv
async def test_a_full_disk_refuses_pushes_and_loses_none_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    vault = StoredVault("full")
    with small_disk(tmp_path / "disk", 4) as disk:
        ballast = disk / "ballast"
        async with open_storage(data=disk / "server") as storage:
            await vault.create(storage)
            ballast.write_bytes(bytes(1 << 20))
            acknowledged = 0
            with contextlib.suppress(StorageUnavailable):
                while acknowledged < 10_000:
                    acknowledged = (await vault.push(storage, vault.batch(0, 50))).head.n
            assert 0 < acknowledged < 10_000
            stored = await vault.pull(storage)
            assert stored.tip.n == acknowledged
            assert stored.head == head_of(stored.rows)
            ballast.unlink()
            # the same rows once more: it is whole again without a restart
            again = vault.again(0, acknowledged + 1, acknowledged + 50)
            assert (await vault.push(storage, again)).added == 50
        async with open_storage(data=disk / "server") as storage:
            assert (await storage.vault(vault.id)).head.n == acknowledged + 50


async def test_a_backup_of_a_running_server_names_its_heads(folder: Path, tmp_path: Path) -> None:
    vaults = [StoredVault(f"backup {number}") for number in range(3)]
    target = tmp_path / "copies" / "server" / FILE_NAME
    target.parent.mkdir(parents=True, mode=0o700)
    async with open_storage(data=folder) as storage:
        for number, vault in enumerate(vaults):
            await vault.create(storage)
            for _ in range(number):
                await vault.push(storage, vault.batch(0, 2))
        heads = await asyncio.to_thread(back_up, folder, target)
        assert heads == await storage.heads()
        assert {head.head.n for head in heads} == {0, 2, 4}
        with pytest.raises(FileExistsError):
            await asyncio.to_thread(back_up, folder, target)
        await vaults[2].push(storage, vaults[2].batch(0, 1))  # it goes on
        newest = await vaults[2].pull(storage)

    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert [path.name for path in target.parent.iterdir()] == [FILE_NAME]
    async with open_storage(data=target.parent) as restored:
        assert await restored.heads() == heads
        old = await vaults[2].pull(restored)
        assert old.rows == newest.rows[:4]
        assert VaultHead(vaults[2].id, old.tip) in heads


async def test_a_backup_during_pushes_is_one_moment(folder: Path, tmp_path: Path) -> None:
    vault = StoredVault("moment")
    target = tmp_path / FILE_NAME
    async with open_storage(data=folder) as storage:
        await vault.create(storage)

        async def push_all() -> None:
            for _ in range(40):
                await vault.push(storage, vault.batch(0, 5))

        async with asyncio.TaskGroup() as group:
            group.create_task(push_all())
            heads = await asyncio.to_thread(back_up, folder, target)
        rows = (await vault.pull(storage)).rows
    (said,) = heads
    assert said.head == head_of(rows[: said.head.n])
    copies = tmp_path / "copy"
    copies.mkdir(mode=0o700)
    target.rename(copies / FILE_NAME)
    async with open_storage(data=copies) as restored:
        assert (await vault.pull(restored)).rows == rows[: said.head.n]


def test_no_backup_of_what_is_not_there(folder: Path, tmp_path: Path) -> None:
    folder.mkdir(mode=0o700)
    with pytest.raises(StorageUnavailable):
        back_up(folder, tmp_path / FILE_NAME)
    assert not (tmp_path / FILE_NAME).exists()


async def test_a_refused_push_among_others_takes_none_with_it(folder: Path) -> None:
    vaults = [StoredVault(f"among {number}") for number in range(6)]
    async with open_storage(data=folder) as storage:
        for vault in vaults:
            await vault.create(storage)
        await storage.set_quota(vaults[2].id, Quota(rows=2))
        answers = await asyncio.gather(
            *(vault.push(storage, vault.batch(0, 3)) for vault in vaults), return_exceptions=True
        )
        assert [isinstance(answer, QuotaExceeded) for answer in answers] == [
            False, False, True, False, False, False,
        ]  # fmt: skip
        heads = [(await storage.vault(vault.id)).head.n for vault in vaults]
    assert heads == [3, 3, 0, 3, 3, 3]
