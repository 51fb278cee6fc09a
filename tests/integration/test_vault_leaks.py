"""T15 and T20 for the vault alone: after every act of the owner nothing readable lies anywhere."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from vault_harness import (
    OTHER_PASSPHRASE,
    PASSPHRASE,
    ProcessKeyring,
    VaultHome,
    accepted,
    write_note,
)

from memory_manager.vault import argon
from memory_manager.vault.canary import new_canary, scan
from memory_manager.vault.errors import LockReason, VaultError, WrongPassphrase
from memory_manager.vault.restore import restore_backup


def test_t15_t20_no_text_key_passphrase_or_word_in_any_file_or_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    canary = new_canary()
    secrets: dict[str, bytes] = {}
    texts = [canary, PASSPHRASE, OTHER_PASSPHRASE]
    errors: list[str] = []
    backend = ProcessKeyring()
    home = VaultHome(tmp_path / "data", accepted(backend)).create()
    assert home.result is not None
    assert home.result.recovery_words is not None
    texts.append(" ".join(home.result.recovery_words))

    def note_keys(name: str, passphrase: str) -> None:
        keys = home.keys(passphrase)
        secrets[f"{name} luk"], secrets[f"{name} dbk"] = bytes(keys.luk), bytes(keys.dbk)

    lifecycle = home.lifecycle()
    lifecycle.start()
    with pytest.raises(WrongPassphrase) as wrong:
        lifecycle.unlock_with_passphrase(canary)
    errors.append(repr(wrong.value) + str(wrong.value.hint))
    lifecycle = home.lifecycle()
    lifecycle.unlock_with_passphrase(PASSPHRASE)
    note_keys("first", PASSPHRASE)
    for number in range(50):
        write_note(lifecycle, f"{canary} {number}")
    with pytest.raises(VaultError) as refused:
        lifecycle.backup(home.paths.slots)
    errors.append(repr(refused.value))
    lifecycle.backup(tmp_path / "memories.backup")
    issued = lifecycle.rekey(PASSPHRASE)
    assert issued is not None
    texts.append(" ".join(issued))
    lifecycle.change_passphrase(PASSPHRASE, OTHER_PASSPHRASE)
    note_keys("second", OTHER_PASSPHRASE)
    write_note(lifecycle, f"{canary} again")
    during = scan([tmp_path], texts, raw=secrets)  # with WAL and slot file .prev in place
    lifecycle.lock(LockReason.IDLE)
    restore_backup(
        tmp_path / "memories.backup",
        tmp_path / "restored/vault",
        passphrase=PASSPHRASE,
        parameters=argon.FLOOR,
    )
    lifecycle.close()
    after = scan([tmp_path], texts, raw=secrets)
    assert during.hits == after.hits == ()
    assert after.files >= 12
    said = capfd.readouterr()
    logged = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    for spoken in (said.out, said.err, logged, *errors):
        for text in texts:
            assert text not in spoken
        for value in secrets.values():
            assert value.hex() not in spoken.lower()
    kek = backend.items["memlocket", backend.item("unlock-")]
    assert kek not in logged


def test_the_scan_would_have_found_them(tmp_path: Path) -> None:
    """The same scan over a database that was opened without a key."""
    import sqlite3

    canary = new_canary()
    plain = sqlite3.connect(tmp_path / "plain.db")
    plain.execute("CREATE TABLE t(a)")
    plain.execute("INSERT INTO t VALUES(?)", (f"a note: {canary}",))
    plain.commit()
    plain.close()
    assert scan([tmp_path], [canary]).hits
