"""T8 and the table of verdicts: damaged, foreign, plaintext and newer files, each by its name."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from small_vault import connect, small_vault
from sqlcipher3 import dbapi2 as sqlcipher
from vault_harness import PASSPHRASE, VaultHome, notes, wait_for, write_note

from memory_manager.base.identifiers import memory_id_from_bytes
from memory_manager.base.private_files import UnsafeFile
from memory_manager.vault import integrity
from memory_manager.vault.connection import open_database
from memory_manager.vault.errors import (
    KdfParametersRefused,
    LockReason,
    NeedsRepair,
    NewerSchema,
    PlaintextDatabase,
    SlotDamaged,
    VaultError,
    VaultLocked,
    WrongFile,
)
from memory_manager.vault.lifecycle import VaultLifecycle
from memory_manager.vault.status import VaultState

PAGE = 4096


@pytest.fixture
def home(tmp_path: Path) -> VaultHome:
    return VaultHome(tmp_path / "data").create(with_recovery=False)


def refused(home: VaultHome, error: type[VaultError]) -> VaultLifecycle:
    """Unlocking raises ``error``; the daemon stays up and its status names it."""
    lifecycle = home.lifecycle()
    with pytest.raises(error):
        lifecycle.unlock_with_passphrase(PASSPHRASE)
    status = lifecycle.status()
    assert status.reason == error.code
    with pytest.raises(error):
        _ = lifecycle.store
    return lifecycle


def test_a_foreign_database_is_a_wrong_file(home: VaultHome, tmp_path: Path) -> None:
    other = VaultHome(tmp_path / "other").create(with_recovery=False)
    good = home.paths.database.read_bytes()
    shutil.copy2(other.paths.database, home.paths.database)
    lifecycle = refused(home, WrongFile)
    assert lifecycle.state is VaultState.LOCKED
    home.paths.database.write_bytes(good)
    assert lifecycle.unlock_with_passphrase(PASSPHRASE).state is VaultState.UNLOCKED
    lifecycle.close()


def test_a_plaintext_database_is_never_opened(home: VaultHome) -> None:
    home.paths.database.unlink()
    plain = sqlite3.connect(home.paths.database)
    plain.execute("CREATE TABLE t(a)")
    plain.commit()
    plain.close()
    home.paths.database.chmod(0o600)
    before = home.paths.database.read_bytes()
    refused(home, PlaintextDatabase)
    assert home.paths.database.read_bytes() == before


def test_an_empty_database_file_is_a_wrong_file(home: VaultHome) -> None:
    home.paths.database.write_bytes(b"")
    refused(home, WrongFile)
    assert home.paths.database.read_bytes() == b""


@pytest.mark.parametrize(
    "name", ["", "vault.db", "vault.db-wal", "vault.slots", "device.key", "anchor.bin"]
)
def test_a_file_that_others_may_read_is_refused_with_the_command_that_closes_it(
    home: VaultHome, name: str
) -> None:
    with home.opened() as lifecycle:
        write_note(lifecycle, "a")
    path = home.directory / name
    path.touch(mode=0o600)
    path.chmod(0o755 if path.is_dir() else 0o644)
    lifecycle = home.lifecycle()
    with pytest.raises(UnsafeFile) as refused:
        lifecycle.unlock_with_passphrase(PASSPHRASE)
    assert str(path) in refused.value.message
    assert refused.value.hint == f"Run: chmod go-rwx '{path}'"
    assert lifecycle.status().reason == "unsafe_file"
    with pytest.raises(UnsafeFile) as shown:
        _ = lifecycle.store
    assert str(home.root) not in f"{shown.value.message} {shown.value.hint}", "told to anybody"
    path.chmod(0o700 if path.is_dir() else 0o600)
    assert lifecycle.unlock_with_passphrase(PASSPHRASE).state is VaultState.UNLOCKED
    lifecycle.close()


def test_a_corrupt_first_page_needs_repair(home: VaultHome) -> None:
    data = bytearray(home.paths.database.read_bytes())
    data[3000] ^= 1
    home.paths.database.write_bytes(data)
    assert refused(home, NeedsRepair).state is VaultState.NEEDS_REPAIR


def test_a_damaged_slot_file_is_named_and_the_previous_one_is_used(home: VaultHome) -> None:
    good = home.paths.slots.read_bytes()
    home.paths.slots.write_bytes(good.replace(b'"gen":1', b'"gen":2'))
    refused(home, SlotDamaged)
    home.paths.slots_previous.write_bytes(good)
    home.paths.slots_previous.chmod(0o600)
    with home.opened() as lifecycle:
        assert lifecycle.state is VaultState.UNLOCKED
    assert home.paths.slots.read_bytes() == good
    assert not home.paths.slots_previous.exists()


def test_kdf_parameters_outside_the_limits_are_named(home: VaultHome) -> None:
    import json

    from memory_manager.vault import kdf

    body = json.loads(home.paths.slots.read_bytes())
    body["slots"][0]["m_kib"] = 1024
    del body["sum"]
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    body["sum"] = kdf.labelled_hash(text.encode(), b"mlk-slots-v1").hex()
    home.paths.slots.write_text(json.dumps(body, sort_keys=True, separators=(",", ":")))
    refused(home, KdfParametersRefused)


def test_a_newer_schema_is_refused_and_left_alone(home: VaultHome) -> None:
    keys = home.keys()
    connection = open_database(home.paths.database, keys.dbk, keys.slot_file.salt)
    connection.execute(
        "INSERT INTO schema_migration(number, name, checksum, applied_at_ms)"
        " VALUES(9999, 'future', 'x', 0)"
    )
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    before = home.paths.database.read_bytes()
    assert refused(home, NewerSchema).state is VaultState.LOCKED
    assert home.paths.database.read_bytes() == before


def damage_a_data_page(home: VaultHome) -> None:
    """Flip one bit in the last page: the end of the last long text of ``add_bulk``."""
    data = bytearray(home.paths.database.read_bytes())
    data[len(data) - PAGE + 1000] ^= 8
    home.paths.database.write_bytes(data)


def add_bulk(connection: Any) -> None:
    connection.execute("CREATE TABLE bulk(id INTEGER PRIMARY KEY, body TEXT)")
    for number in range(20):
        connection.execute("INSERT INTO bulk VALUES(?, ?)", (number, f"{number}" * 20_000))


def test_t08_one_flipped_bit_hurts_only_the_statements_that_touch_it(home: VaultHome) -> None:
    with home.opened() as lifecycle:
        write_note(lifecycle, "a")
        lifecycle.store.submit(lambda transaction: add_bulk(transaction.connection)).result()
    damage_a_data_page(home)
    keys = home.keys()
    connection = open_database(home.paths.database, keys.dbk, keys.slot_file.salt)
    report = integrity.check(connection)
    assert len(report.cipher) == 1
    assert "page" in report.cipher[0]
    connection.close()
    with home.opened() as lifecycle:
        assert lifecycle.state is VaultState.UNLOCKED
        assert notes(lifecycle) == ["a"]
        write_note(lifecycle, "b")
        readable = broken = 0
        for number in range(20):
            try:
                lifecycle.store.read_now(
                    lambda c, n=number: c.execute(
                        "SELECT body FROM bulk WHERE id = ?", (n,)
                    ).fetchone()
                )
                readable += 1
            except (sqlcipher.DatabaseError, NeedsRepair):
                broken += 1
        assert (readable, broken) == (19, 1)


def test_the_check_after_an_unclean_shutdown_finds_damage_and_keeps_serving(
    home: VaultHome,
) -> None:
    with home.opened() as lifecycle:
        write_note(lifecycle, "a")
        lifecycle.store.submit(lambda transaction: add_bulk(transaction.connection)).result()
    damage_a_data_page(home)
    with home.opened() as lifecycle:
        write_note(lifecycle, "b")
        crashed = home.save("crash")
    home.put_back(crashed)
    with home.opened() as lifecycle:
        wait_for(lambda: lifecycle.state is VaultState.NEEDS_REPAIR)
        assert lifecycle.status().reason == "needs_repair"
        assert notes(lifecycle) == ["a", "b"]
        assert lifecycle.status().last_integrity_check_ms is None


def test_the_check_after_an_unclean_shutdown_remembers_a_clean_result(home: VaultHome) -> None:
    with home.opened() as lifecycle:
        write_note(lifecycle, "a")
        crashed = home.save("crash")
    home.put_back(crashed)
    with home.opened() as lifecycle:
        wait_for(lambda: lifecycle.status().last_integrity_check_ms is not None)
        stored = lifecycle.status().last_integrity_check_ms
        wait_for(
            lambda: (
                lifecycle.store.read_now(
                    lambda c: c.execute(
                        "SELECT value FROM vault_state WHERE key = 'last_integrity_check_ms'"
                    ).fetchone()
                )
                == (stored,)
            )
        )
    with home.opened() as lifecycle:
        assert lifecycle.status().last_integrity_check_ms == stored


def test_the_weekly_check_runs_from_the_tick(home: VaultHome) -> None:
    with home.opened() as lifecycle:
        assert lifecycle.status().last_integrity_check_ms is None
        lifecycle.tick()
        wait_for(lambda: lifecycle.status().last_integrity_check_ms is not None)


def test_half_written_files_of_a_crash_are_cleared(home: VaultHome) -> None:
    for name in (".anchor.bin.0011.tmp", "backup-0011.db", "backup-0011.db-wal"):
        (home.directory / name).write_bytes(b"x")
    with home.opened():
        pass
    names = {path.name for path in home.directory.iterdir()}
    assert not [name for name in names if "0011" in name]


def test_t08_the_memories_on_a_damaged_page_are_listed_and_the_rest_is_served(
    tmp_path: Path,
) -> None:
    with small_vault(tmp_path) as vault:
        stored = {
            vault.remember(f"{number} " + "long " * 3_000).row.id: number for number in range(12)
        }
    whole = vault.path.read_bytes()
    tried = 0
    for page in range(len(whole) // PAGE - 12, len(whole) // PAGE):
        data = bytearray(whole)
        data[page * PAGE + 1000] ^= 8
        vault.path.write_bytes(data)
        report = integrity.check_and_list(lambda: contextlib.closing(connect(vault.path)))
        assert report.cipher == (f"HMAC verification failed for page {page + 1}",)
        gone = {memory_id_from_bytes(row.id) for row in report.lost if row.id is not None}
        if not gone:
            continue
        tried += 1
        with small_vault(tmp_path) as damaged:
            for memory_id, number in stored.items():
                if memory_id in gone:
                    with pytest.raises(NeedsRepair):
                        damaged.row(memory_id)
                else:
                    row = damaged.row(memory_id)
                    assert row is not None
                    assert row.content.startswith(f"{number} ")
    assert tried >= 8


def test_the_check_of_an_open_vault_turns_it_into_needs_repair(home: VaultHome) -> None:
    with home.opened() as lifecycle:
        write_note(lifecycle, "a")
        lifecycle.store.submit(lambda transaction: add_bulk(transaction.connection)).result()
        assert lifecycle.check_integrity().ok
    damage_a_data_page(home)
    with home.opened() as lifecycle:
        assert lifecycle.state is VaultState.UNLOCKED
        assert not lifecycle.check_integrity().ok
        assert lifecycle.state is VaultState.NEEDS_REPAIR
        assert notes(lifecycle) == ["a"]
        lifecycle.lock(LockReason.USER)
        with pytest.raises(VaultLocked):
            lifecycle.check_integrity()


def test_a_whole_database_has_no_lost_memories(tmp_path: Path) -> None:
    with small_vault(tmp_path) as vault:
        vault.remember("one")

    def connecting() -> contextlib.closing[Any]:
        return contextlib.closing(connect(vault.path))

    assert integrity.check_and_list(connecting) == integrity.IntegrityReport((), ())
    assert integrity.unreadable_records(connecting) == ()


def last_overflow_page(home: VaultHome) -> bytes:
    """A database whose damage makes SQLCipher answer zeros instead of an error."""
    with home.opened() as lifecycle:
        lifecycle.store.submit(lambda transaction: add_bulk(transaction.connection)).result()
    return home.paths.database.read_bytes()


def test_zeros_in_place_of_a_damaged_page_are_never_taken_for_content(home: VaultHome) -> None:
    """SQLCipher gives zeros for the last page of a long value, once, without an error."""
    whole, anchor = last_overflow_page(home), home.paths.anchor.read_bytes()
    silent = 0
    for page in range(len(whole) // PAGE - 12, len(whole) // PAGE):
        data = bytearray(whole)
        data[page * PAGE + 1000] ^= 8
        home.paths.database.write_bytes(data)
        home.paths.anchor.write_bytes(anchor)
        keys = home.keys()
        bare = open_database(home.paths.database, keys.dbk, keys.slot_file.salt)
        for number in range(20):
            with contextlib.suppress(sqlcipher.DatabaseError):
                (body,) = bare.execute("SELECT body FROM bulk WHERE id = ?", (number,)).fetchone()
                silent += body != f"{number}" * 20_000
        bare.close()
        with home.opened() as lifecycle:
            for number in range(20):

                def body_of(connection: Any, n: int = number) -> str:
                    return str(
                        connection.execute("SELECT body FROM bulk WHERE id = ?", (n,)).fetchone()[0]
                    )

                with contextlib.suppress(NeedsRepair):
                    assert lifecycle.store.read_now(body_of) == f"{number}" * 20_000
            with pytest.raises(NeedsRepair):
                lifecycle.store.submit(
                    lambda tx: tx.connection.execute("UPDATE bulk SET body = body || 'x'")
                ).result()
            assert lifecycle.state is VaultState.NEEDS_REPAIR
            write_note(lifecycle, f"p{page}")
            assert f"p{page}" in notes(lifecycle)
    assert silent, "SQLCipher no longer answers zeros: the check may be obsolete"


@pytest.mark.parametrize("act", ["backup", "rekey"])
def test_damaged_pages_are_never_copied_as_if_they_were_whole(
    home: VaultHome, tmp_path: Path, act: str
) -> None:
    whole = last_overflow_page(home)
    for page in range(len(whole) // PAGE - 6, len(whole) // PAGE):
        data = bytearray(whole)
        data[page * PAGE + 1000] ^= 8
        home.paths.database.write_bytes(data)
        with home.opened() as lifecycle:
            with pytest.raises(NeedsRepair):
                lifecycle.backup(tmp_path / "b") if act == "backup" else lifecycle.rekey(PASSPHRASE)
            assert lifecycle.status().generation
        assert not (tmp_path / "b").exists()
        assert not home.paths.rekey_copy.exists()
