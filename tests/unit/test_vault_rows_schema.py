"""What the database itself refuses, whoever asks: types, envelopes, changed history, schemas."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small_vault import KEY, SALT, SmallVault, connect, create_database, small_vault, writer

from memory_manager.base.schema_files import Migration
from memory_manager.security.envelope import (
    EncryptionState,
    RetrievalVisibility,
    SecurityMode,
    parse_envelope,
)
from memory_manager.security.errors import InvalidEnvelope
from memory_manager.vault import migrations
from memory_manager.vault.connection import open_database
from memory_manager.vault.errors import NewerSchema, SchemaMismatch
from memory_manager.vault.migrations import SCHEMA_VERSION, migrate, read_generation
from memory_manager.vault.rows import ForgetMode

CHECKSUMS = {
    # A released migration is never edited: a new file is added instead.
    "core": "be8f2b2740593f4c0824f142edde7a8cfe1b376e17f1a81a0fb7c8031f5a005c",
    "recall": "cf656d2e1febcd16559e67e8bd9458ddeaf5731a234de3700646dc3eb159ba88",
    "answers_by_memory": "aa888d05dcdb83a3f0e42f7ae00959e951e181babee49e6438502d5d200c9eb1",
    "items": "5df7f877fee5c1b45a69d38a9b97ae60f5d12f76fe4e8f0e28b8932d782c4c8b",
    "grants": "6c64ec6bfd28f38e5f7d5a21883d6bba24cb2f6e36c7116beed9a41b117ecb2d",
    "sync": "6ba044afe1c518cb2599c935e9b7d84b1a2cf97da5e8f003b17f4baa83a18c9d",
    "opt_in": "d2c7f08ecb8f8c32752e117a27a40069ce424f9c48e76e7c31401b0b1e9f0dc7",
    "cleaning": "eb1bc2206d72e09f77b21ba5069ca9ad42bf8c42729d3291bd284988a3940a62",
}
ENVELOPE_FIELDS = (
    "security_mode",
    "encryption_state",
    "retrieval_visibility",
    "server_embeddings_enabled",
    "server_content_search_enabled",
)


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[SmallVault]:
    with small_vault(tmp_path) as opened:
        yield opened


@pytest.fixture
def database(vault: SmallVault) -> Iterator[Any]:
    """A second connection to a vault with one memory of two versions."""
    row = vault.remember("first", semantic_key="k").row
    vault.remember("second", semantic_key="k")
    assert row.rowid == 1
    connection = connect(vault.path)
    yield connection
    connection.close()


def refused(connection: Any, statement: str, parameters: tuple[object, ...] = ()) -> str:
    from sqlcipher3.dbapi2 import IntegrityError

    with pytest.raises(IntegrityError) as caught:
        connection.execute(statement, parameters)
    return str(caught.value)


def test_migrations_are_the_released_ones() -> None:
    assert {entry.name: entry.checksum for entry in migrations.migrations()} == CHECKSUMS


def test_each_migration_counts_as_a_write_and_a_second_run_does_nothing(tmp_path: Path) -> None:
    create_database(tmp_path / "vault.db")
    connection = connect(tmp_path / "vault.db")
    assert read_generation(connection) == SCHEMA_VERSION
    assert migrate(connection) == SCHEMA_VERSION
    assert read_generation(connection) == SCHEMA_VERSION
    connection.close()


def test_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    create_database(tmp_path / "vault.db")
    connection = connect(tmp_path / "vault.db")
    connection.execute("INSERT INTO schema_migration VALUES(?, 'future', 'x', 0)", (9999,))
    before = connection.execute("SELECT * FROM schema_migration").fetchall()
    with pytest.raises(NewerSchema):
        migrate(connection)
    assert connection.execute("SELECT * FROM schema_migration").fetchall() == before
    connection.close()


def test_vault_of_an_edited_migration_is_refused(tmp_path: Path) -> None:
    create_database(tmp_path / "vault.db")
    connection = connect(tmp_path / "vault.db")
    connection.execute("UPDATE schema_migration SET checksum = 'edited' WHERE number = 1")
    with pytest.raises(SchemaMismatch):
        migrate(connection)
    connection.close()


def test_failing_migration_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Migration(1, "broken", "x", "CREATE TABLE a(b);\nCREATE TABLE a(b);\n")
    connection = open_database(tmp_path / "vault.db", KEY, SALT, create=True)
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "migrations", lambda: (broken,))
        with pytest.raises(Exception, match="already exists"):
            migrate(connection)
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
    assert migrate(connection) == SCHEMA_VERSION
    connection.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE record_version SET content = 'forged'",
        "UPDATE record_version SET content = NULL",
        "UPDATE record_version SET agent_id = 'someone else'",
        "UPDATE record_version SET written_at_ms = 1",
        'UPDATE record_version SET item = \'{"current_task":"forged"}\'',
        "UPDATE record SET kind = 'state'",
        "DELETE FROM record_version WHERE version = 1",
        "DELETE FROM record",
        "UPDATE record SET version = 1",
        "UPDATE record SET version = 3",
        "UPDATE record SET id = zeroblob(16)",
        "INSERT INTO record_version SELECT (1 << 24) + 9, 9, action, status, content, path, bucket,"
        " scope, memory_type, importance, confidence, source, metadata, provenance, semantic_key,"
        " expires_at_ms, redactions, ruleset_version, agent_id, instance_hash, credential_id,"
        " client, reason, written_at_ms, item FROM record_version WHERE version = 1",
    ],
)
def test_history_cannot_be_changed(database: Any, statement: str) -> None:
    before = database.execute("SELECT * FROM record_version").fetchall()
    refused(database, statement)
    assert database.execute("SELECT * FROM record_version").fetchall() == before


def test_permission_to_erase_permits_nothing_but_erasing(database: Any) -> None:
    database.execute("BEGIN")
    database.execute("INSERT INTO version_erasure VALUES(1)")
    message = refused(database, "UPDATE record_version SET content = 'forged'")
    assert "immutable" in message
    blanked = (
        "UPDATE record_version SET content = NULL, path = '', bucket = '', scope = NULL,"
        " source = NULL, metadata = '{}', provenance = '{}', semantic_key = NULL, reason = NULL"
    )
    refused(database, blanked + ", agent_id = 'someone else'")
    refused(database, blanked + ", written_at_ms = 1")
    refused(database, blanked + ', item = \'{"note":"forged"}\'')
    database.execute(blanked)
    database.execute("ROLLBACK")


def test_permission_to_clean_leaves_who_wrote_when_and_what_was_erased(database: Any) -> None:
    database.execute("BEGIN")
    database.execute("INSERT INTO version_erasure VALUES(1)")
    database.execute(
        "UPDATE record_version SET content = NULL, path = '', bucket = '', scope = NULL,"
        " source = NULL, metadata = '{}', provenance = '{}', semantic_key = NULL, reason = NULL"
        " WHERE version = 1"
    )
    database.execute("DELETE FROM version_erasure")
    database.execute("INSERT INTO version_cleaning VALUES(1)")
    for change in (
        "content = 'back again' WHERE version = 1",
        "content = NULL WHERE version = 2",
        "written_at_ms = 1",
        "action = 'restored'",
        "status = 'redacted'",
        "instance_hash = NULL",
        "credential_id = 'another'",
        "memory_type = 'identity'",
        "importance = 1.0",
        "expires_at_ms = 1",
    ):
        assert "immutable" in refused(database, f"UPDATE record_version SET {change}")
    database.execute("UPDATE record_version SET content = 'cleaned' WHERE version = 2")
    database.execute("DELETE FROM version_cleaning")
    assert "immutable" in refused(database, "UPDATE record_version SET path = 'elsewhere'")
    database.execute("ROLLBACK")


@pytest.mark.parametrize(
    "change",
    [
        "memory_type = 'sensitive'",
        "memory_type = 'auto'",
        "kind = 'todo'",
        "status = 'hidden'",
        "security_mode = 'open'",
        "scope = ''",
        "status = 'deleted'",
    ],
)
def test_unknown_values_are_refused(database: Any, change: str) -> None:
    refused(database, f"UPDATE record SET {change}")


def test_database_accepts_exactly_the_envelopes_that_the_parser_accepts(database: Any) -> None:
    values = itertools.product(
        [*(mode.value for mode in SecurityMode), "other"],
        [*(state.value for state in EncryptionState), "other"],
        [*(visibility.value for visibility in RetrievalVisibility), "other"],
        [False, True],
        [False, True],
    )
    from sqlcipher3.dbapi2 import IntegrityError

    assignments = ", ".join(f"{field} = ?" for field in ENVELOPE_FIELDS)
    for combination in values:
        try:
            parse_envelope(dict(zip(ENVELOPE_FIELDS, combination, strict=True)))
            valid = True
        except InvalidEnvelope:
            valid = False
        try:
            database.execute(f"UPDATE record SET {assignments}", combination)
            accepted = True
        except IntegrityError:
            accepted = False
        assert accepted is valid, combination


def test_two_live_rows_never_hold_one_semantic_key(vault: SmallVault) -> None:
    vault.remember("a", semantic_key="k")
    other = vault.remember("b").row
    with pytest.raises(Exception, match="UNIQUE"):
        vault.write(
            lambda tx: tx.connection.execute(
                "UPDATE record SET semantic_key = 'k' WHERE rowid = ?", (other.rowid,)
            )
        )


def test_rowid_of_a_destroyed_memory_is_never_used_again(vault: SmallVault) -> None:
    row = vault.remember("a").row
    vault.write(
        lambda tx: vault.memories.forget(
            tx, row.id, ForgetMode.HARD_DELETE, writer(), owner_confirmed=True
        )
    )
    assert vault.remember("b").row.rowid > row.rowid


def test_only_the_row_writer_writes_memories(repository: Path) -> None:
    """One choke point (redaction.md 10): no other file writes these tables."""
    pattern = re.compile(r"(INSERT( OR \w+)? INTO|UPDATE|DELETE FROM)\s+record(_version)?\b", re.I)
    writers = {
        path.name
        for path in (repository / "daemon").rglob("*.py")
        if pattern.search(path.read_text("utf-8"))
    }
    assert writers == {"row_writer.py"}
