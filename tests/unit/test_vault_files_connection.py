"""T5, T17-T20: the one way to open SQLCipher, and what must not work on the connection."""

from __future__ import annotations

import ast
import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlcipher3 import dbapi2 as sqlcipher

import memory_manager.vault
from memory_manager.vault import authorizer, connection
from memory_manager.vault.connection import key_literal, open_database, verdict
from memory_manager.vault.errors import (
    KeyFormat,
    NeedsRepair,
    PlaintextDatabase,
    SlotDamaged,
    WrongFile,
)

DBK = bytes(range(32))
SALT = bytes(range(100, 116))
MAGIC = b"SQLite format 3\0"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "vault.db"
    made = open_database(path, DBK, SALT, create=True, maintenance=True)
    made.execute("CREATE TABLE t(a, b)")
    made.execute("CREATE VIRTUAL TABLE f USING fts5(body)")
    made.execute("INSERT INTO t VALUES(1, 'one')")
    made.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    made.close()
    return path


@pytest.fixture
def opened(database: Path) -> Iterator[sqlcipher.Connection]:
    made = open_database(database, DBK, SALT)
    yield made
    made.close()


def test_literal_is_exactly_the_raw_key_form() -> None:
    assert key_literal(DBK, SALT) == f"x'{DBK.hex()}{SALT.hex()}'".encode()
    assert len(key_literal(DBK, SALT)) == 99


@pytest.mark.parametrize("size", [0, 16, 31, 33, 47, 48, 64])
def test_t19_keys_of_other_sizes_never_reach_sqlcipher(database: Path, size: int) -> None:
    before = database.read_bytes()
    spent = []
    for _ in range(3):
        begin = time.thread_time()
        with pytest.raises(KeyFormat):
            open_database(database, bytes(size), SALT)
        with pytest.raises(KeyFormat):
            open_database(database, DBK, bytes(size) if size != 16 else bytes(17))
        spent.append(time.thread_time() - begin)
    assert min(spent) < 0.1, "a key derivation takes longer"
    assert database.read_bytes() == before


def test_the_file_is_encrypted_and_private(database: Path) -> None:
    data = database.read_bytes()
    assert data[:16] == SALT
    assert b"CREATE" not in data
    assert database.stat().st_mode & 0o777 == 0o600


def test_settings_of_an_ordinary_connection(opened: sqlcipher.Connection) -> None:
    def value(pragma: str) -> object:
        return opened.execute(f"PRAGMA {pragma}").fetchone()[0]

    assert value("journal_mode") == "wal"
    assert value("synchronous") == 1
    assert value("temp_store") == 2
    assert value("cache_size") == -65_536
    assert value("foreign_keys") == 1
    assert value("cell_size_check") == 1
    assert value("secure_delete") == 1
    assert value("trusted_schema") == 0
    assert value("cipher_status") == "1"
    assert opened.isolation_level is None


def test_opening_is_fast_so_no_key_derivation_ran(database: Path) -> None:
    spent = []
    for _ in range(5):
        begin = time.thread_time()
        open_database(database, DBK, SALT).close()
        spent.append(time.thread_time() - begin)
    assert min(spent) < 0.02


def test_t19_wrong_key_and_wrong_salt(database: Path) -> None:
    before = database.read_bytes()
    with pytest.raises(NeedsRepair):
        open_database(database, bytes(32), SALT)
    with pytest.raises(WrongFile):
        open_database(database, DBK, bytes(16))
    assert database.read_bytes() == before


def test_t19_missing_and_empty_files_create_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_database(tmp_path / "vault.db", DBK, SALT)
    assert list(tmp_path.iterdir()) == []
    empty = tmp_path / "vault.db"
    empty.touch(mode=0o600)
    with pytest.raises(WrongFile):
        open_database(empty, DBK, SALT)
    assert empty.stat().st_size == 0


def test_t19_plaintext_databases_are_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "vault.db"
    plain = sqlite3.connect(path)
    plain.execute("CREATE TABLE t(a)")
    plain.commit()
    plain.close()
    before = path.read_bytes()
    assert before[:16] == MAGIC
    with pytest.raises(PlaintextDatabase):
        open_database(path, DBK, SALT)
    assert path.read_bytes() == before


def test_corrupt_first_page_with_the_right_key_needs_repair(database: Path) -> None:
    data = bytearray(database.read_bytes())
    data[2000] ^= 1
    database.write_bytes(data)
    with pytest.raises(NeedsRepair):
        open_database(database, DBK, SALT)


@pytest.mark.parametrize(
    ("head", "committed", "previous", "expected"),
    [
        (SALT, True, None, NeedsRepair),
        (SALT, False, None, SlotDamaged),
        (b"p" * 16, True, b"p" * 16, None),
        (b"o" * 16, True, b"p" * 16, WrongFile),
        (b"", True, None, WrongFile),
        (MAGIC, True, MAGIC, PlaintextDatabase),
    ],
)
def test_verdict_table(head, committed, previous, expected) -> None:
    found = verdict(head, SALT, key_committed=committed, previous_salt=previous)
    assert found is None if expected is None else type(found) is expected


@pytest.mark.parametrize(
    "statement",
    [
        "ATTACH 'plain.db' AS p KEY ''",
        "ATTACH 'plain.db' AS p",
        "ATTACH ':memory:' AS p",
        "DETACH main",
        "VACUUM",
        "VACUUM INTO 'copy.db'",
        "PRAGMA temp_store=1",
        "PRAGMA TEMP_STORE=0",
        "PRAGMA temp_store(1)",
        "PRAGMA temp_store_directory='/tmp'",
        "PRAGMA key='x'",
        "PRAGMA rekey='x'",
        "PRAGMA hexkey='ab'",
        "PRAGMA hexrekey='ab'",
        "PRAGMA textkey='x'",
        "PRAGMA textrekey='x'",
        "PRAGMA kdf_iter=1",
        "PRAGMA writable_schema=ON",
        "PRAGMA journal_mode=DELETE",
        "PRAGMA journal_mode=OFF",
        "PRAGMA trusted_schema=ON",
        "PRAGMA secure_delete=OFF",
        "PRAGMA cell_size_check=OFF",
        "PRAGMA mmap_size=1000000",
        "PRAGMA query_only=OFF",
        "PRAGMA cipher_log_level=TRACE",
        "PRAGMA cipher_log='log.txt'",
        "PRAGMA cipher_profile='profile.txt'",
        "PRAGMA cipher_memory_security=ON",
        "PRAGMA cipher_page_size=8192",
        "PRAGMA cipher_plaintext_header_size=32",
        "PRAGMA cipher_default_kdf_iter=1",
        "PRAGMA cipher_use_hmac=OFF",
        "PRAGMA Cipher_Salt=\"x'00'\"",
        "PRAGMA cipher_migrate",
        "SELECT load_extension('x')",
        "SELECT sqlcipher_export('main')",
        "SELECT fts3_tokenizer('simple')",
    ],
)
def test_t18_every_way_around_is_denied(
    opened: sqlcipher.Connection, tmp_path: Path, monkeypatch, statement: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    with pytest.raises(sqlcipher.DatabaseError):
        opened.execute(statement).fetchall()
    assert set(tmp_path.iterdir()) == before
    assert opened.execute("SELECT b FROM t").fetchall() == [("one",)]


def test_t18_the_denials_come_from_the_authorizer(opened: sqlcipher.Connection) -> None:
    for statement in ("PRAGMA temp_store=1", "ATTACH 'p' AS p KEY ''", "PRAGMA rekey='x'"):
        with pytest.raises(sqlcipher.DatabaseError, match="not authorized"):
            opened.execute(statement)


def test_t18_an_unkeyed_target_gets_no_plaintext_copy(
    opened: sqlcipher.Connection, tmp_path: Path
) -> None:
    plain = sqlcipher.connect(str(tmp_path / "plain.db"))
    with pytest.raises(sqlcipher.Error):
        opened.backup(plain)
    plain.close()
    assert b"one" not in (tmp_path / "plain.db").read_bytes()


def test_f27_extensions_stay_off(opened: sqlcipher.Connection, tmp_path: Path) -> None:
    """The vault's connections load none: vectors need no SQLite that can."""
    with pytest.raises(sqlcipher.Error):
        opened.load_extension(str(tmp_path / "x.so"))


def test_ordinary_work_goes_on(opened: sqlcipher.Connection) -> None:
    opened.execute("BEGIN IMMEDIATE")
    opened.execute("SAVEPOINT s")
    opened.execute("INSERT INTO f VALUES('needle in a haystack')")
    opened.execute("INSERT INTO f(f, rank) VALUES('secure-delete', 1)")
    opened.execute("RELEASE s")
    opened.execute("COMMIT")
    assert opened.execute("SELECT count(*) FROM f WHERE f MATCH 'needle'").fetchone() == (1,)
    opened.execute("CREATE TEMP TABLE scratch AS SELECT * FROM t")
    opened.execute("ANALYZE")
    for pragma in (
        "optimize",
        "integrity_check",
        "cipher_integrity_check",
        "cipher_status",
        "wal_checkpoint(TRUNCATE)",
        "synchronous=FULL",
        "table_info(t)",
        "journal_mode",
    ):
        opened.execute(f"PRAGMA {pragma}").fetchall()


def test_unknown_actions_with_odd_arguments_do_not_crash_the_callback() -> None:
    assert authorizer.authorize(31, None, None, None, None) == 0
    assert authorizer.authorize(19, None, None, None, None) == 0
    assert authorizer.authorize(19, "CIPHER_X", "1", None, None) == 1


def test_read_only_connections_cannot_write_or_free_themselves(database: Path) -> None:
    reader = open_database(database, DBK, SALT, read_only=True)
    try:
        for statement in ("INSERT INTO t VALUES(2, 'two')", "CREATE TABLE u(a)"):
            with pytest.raises(sqlcipher.OperationalError, match="readonly"):
                reader.execute(statement)
        with pytest.raises(sqlcipher.DatabaseError):
            reader.execute("PRAGMA query_only=0")
        assert reader.execute("SELECT count(*) FROM t").fetchone() == (1,)
    finally:
        reader.close()


SORT = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 25000)
          SELECT count(*) FROM (SELECT i, hex(randomblob(500)) AS r FROM n ORDER BY r)"""


def files_opened_while_sorting(connection: Any) -> set[str]:
    """Names of our own descriptors that come up during a sort of 25 MB."""

    def names() -> set[str]:
        found: set[str] = set()
        for entry in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                found.add(os.readlink(f"/proc/self/fd/{entry}"))
        return found

    before, seen = names(), set[str]()
    looks = 0

    def look() -> int:
        nonlocal looks
        looks += 1
        seen.update(names())
        return 0

    connection.set_progress_handler(look, 20_000)
    assert connection.execute(SORT).fetchone() == (25_000,)
    assert looks > 20
    return {name for name in seen - before if not name.startswith("/proc")}


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux: reads /proc")
def test_t17_a_forced_spill_creates_no_temporary_file(database: Path, tmp_path: Path) -> None:
    sorter = open_database(database, DBK, SALT, cache_kib=512)
    assert files_opened_while_sorting(sorter) == set()
    sorter.close()
    plain = sqlite3.connect(tmp_path / "plain.db")
    plain.execute("PRAGMA temp_store=1")
    plain.execute("PRAGMA cache_size=-512")
    assert files_opened_while_sorting(plain), "the watcher would not have seen a spill"
    plain.close()


def test_t20_neither_trace_nor_errors_hold_the_key(database: Path, capfd) -> None:
    statements: list[str] = []
    tracer = open_database(database, DBK, SALT)
    tracer.set_trace_callback(statements.append)
    tracer.execute("SELECT count(*) FROM t").fetchone()
    tracer.close()
    assert statements
    with pytest.raises(NeedsRepair) as wrong:
        open_database(database, bytes(32), SALT)
    said = capfd.readouterr()
    for text in (*statements, repr(wrong.value), said.out, said.err):
        assert DBK.hex() not in text.lower()
    assert said.err == ""


def test_t20_sqlcipher_writes_nothing_to_stderr_about_damage(database: Path, capfd) -> None:
    data = bytearray(database.read_bytes())
    data[2000] ^= 1
    database.write_bytes(data)
    with pytest.raises(NeedsRepair):
        open_database(database, DBK, SALT)
    assert capfd.readouterr().err == ""


def test_t05_no_source_calls_an_in_place_rekey() -> None:
    package = Path(memory_manager.vault.__file__).parent.parent
    found: list[str] = []
    for path in sorted(package.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "reset_key" not in text and "rekey" not in text.lower():
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and node.attr == "reset_key":
                found.append(f"{path.name}:{node.lineno}")
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                value = node.value.lower()
                if "pragma rekey" in value or "pragma hexrekey" in value:
                    found.append(f"{path.name}:{node.lineno}")
    assert found == []


def test_write_failures_are_told_from_other_errors() -> None:
    full = sqlcipher.OperationalError("database or disk is full")
    full.sqlite_errorcode = 13  # type: ignore[attr-defined]
    locked = sqlcipher.OperationalError("database is locked")
    locked.sqlite_errorcode = 5  # type: ignore[attr-defined]
    io_write = sqlcipher.OperationalError("disk I/O error")
    io_write.sqlite_errorcode = 10 | (3 << 8)  # type: ignore[attr-defined]
    assert connection.is_write_failure(full)
    assert connection.is_write_failure(io_write)
    assert connection.is_write_failure(OSError(28, "no space"))
    assert not connection.is_write_failure(TimeoutError())
    assert not connection.is_write_failure(PermissionError(13, "permission denied"))
    assert not connection.is_write_failure(locked)
    assert not connection.is_write_failure(ValueError())
