"""T8 and the table of verdicts: damaged, foreign, plaintext and newer files, each by its name."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from small_vault import small_vault
from sqlcipher3 import dbapi2 as sqlcipher
from vault_harness import PASSPHRASE, VaultHome, notes, wait_for, write_note

from memory_manager.base.identifiers import memory_id_from_bytes
from memory_manager.vault import integrity
from memory_manager.vault.connection import open_database
from memory_manager.vault.errors import (
    KdfParametersRefused,
    NeedsRepair,
    NewerSchema,
    PlaintextDatabase,
    SlotDamaged,
    VaultError,
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
    data = bytearray(vault.path.read_bytes())
    data[len(data) - PAGE + 1000] ^= 8
    vault.path.write_bytes(data)
    with small_vault(tmp_path) as damaged:
        report = damaged.read(integrity.check)
        lost = damaged.read(integrity.unreadable_records)
        assert not report.ok
        assert len(lost) == 1
        assert lost[0].id is not None
        (gone,) = {memory_id_from_bytes(row.id) for row in lost if row.id is not None}
        assert gone in stored
        for memory_id in stored.keys() - {gone}:
            row = damaged.row(memory_id)
            assert row is not None
            assert row.content.startswith(f"{stored[memory_id]} ")
        damaged.remember("and writing goes on")


def test_a_whole_database_has_no_lost_memories(tmp_path: Path) -> None:
    with small_vault(tmp_path) as vault:
        vault.remember("one")
        assert vault.read(integrity.check).ok
        assert vault.read(integrity.unreadable_records) == ()
