"""Encrypted backup and verified restore: whole, private, bound together, always a new device."""

from __future__ import annotations

import json
import os
import tarfile
import threading
from pathlib import Path

import pytest
from small_disk import small_disk
from vault_harness import (
    OTHER_PASSPHRASE,
    PASSPHRASE,
    VaultHome,
    fill,
    notes,
    write_note,
)

from memory_manager.vault import argon, integrity, state_rows
from memory_manager.vault.anchor import Identity
from memory_manager.vault.bundle import read_bundle
from memory_manager.vault.canary import scan
from memory_manager.vault.connection import open_database
from memory_manager.vault.errors import (
    BackupRefused,
    LockReason,
    PassphraseRequired,
    ReadOnly,
    VaultExists,
    WrongPassphrase,
    WrongRecoveryWords,
)
from memory_manager.vault.restore import RestoreResult, restore_backup
from memory_manager.vault.slots import SlotType
from memory_manager.vault.status import VaultState

SECRET_NOTE = "the copper kettle stands in the north tower"


@pytest.fixture
def home(tmp_path: Path) -> VaultHome:
    home = VaultHome(tmp_path / "data").create()
    with home.opened() as lifecycle:
        write_note(lifecycle, SECRET_NOTE)
        write_note(lifecycle, "second")
    return home


@pytest.fixture
def saved(home: VaultHome, tmp_path: Path) -> Path:
    path = tmp_path / "memories.backup"
    with home.opened() as lifecycle:
        summary = lifecycle.backup(path)
    assert summary.size_bytes == path.stat().st_size
    return path


def restored(source: Path, target: VaultHome, **options: object) -> RestoreResult:
    given: dict[str, object] = {"passphrase": PASSPHRASE, "parameters": argon.FLOOR}
    return restore_backup(source, target.directory, **(given | options))  # type: ignore[arg-type]


def identity_of(home: VaultHome, passphrase: str = PASSPHRASE) -> Identity:
    keys = home.keys(passphrase)
    connection = open_database(home.paths.database, keys.dbk, keys.slot_file.salt)
    try:
        return state_rows.read_identity(connection)
    finally:
        connection.close()


def test_restore_gives_the_same_rows_under_new_keys_and_ids(
    home: VaultHome, saved: Path, tmp_path: Path
) -> None:
    target = VaultHome(tmp_path / "new")
    result = restored(saved, target)
    assert result.replaced is None
    assert result.recovery_words is not None
    with target.opened() as lifecycle:
        assert lifecycle.state is VaultState.UNLOCKED
        assert notes(lifecycle) == sorted(["second", SECRET_NOTE])
        write_note(lifecycle, "third")
    before, after = home.keys(), target.keys()
    assert after.luk != before.luk
    assert after.slot_file.salt != before.slot_file.salt
    old, new = identity_of(home), identity_of(target)
    assert new.vault == old.vault
    assert new.install != old.install
    assert new.device != old.device
    connection = open_database(target.paths.database, after.dbk, after.slot_file.salt)
    assert integrity.check(connection).ok
    connection.close()
    assert {path.name for path in target.root.iterdir()} == {"vault"}


def test_every_table_has_the_same_rows(home: VaultHome, saved: Path, tmp_path: Path) -> None:
    target = VaultHome(tmp_path / "new")
    restored(saved, target)
    dumps = []
    for vault in (home, target):
        keys = vault.keys()
        connection = open_database(vault.paths.database, keys.dbk, keys.slot_file.salt)
        dumps.append(
            {
                name: sorted(map(repr, connection.execute(f'SELECT * FROM "{name}"').fetchall()))
                for name in integrity.table_names(connection)
                if name != "vault_state"
            }
        )
        connection.close()
    assert dumps[0] == dumps[1]


def test_the_bundle_holds_no_plaintext_no_device_and_no_keyring_slot(
    home: VaultHome, saved: Path
) -> None:
    assert saved.stat().st_mode & 0o777 == 0o600
    with tarfile.open(saved) as archive:
        assert sorted(archive.getnames()) == ["manifest.json", "vault.db", "vault.slots"]
    bundle = read_bundle(saved)
    kinds = {slot.type for slot in bundle.slot_file.slots}
    assert kinds == {SlotType.PASSPHRASE, SlotType.RECOVERY}
    keys = home.keys()
    device = home.paths.device_key.read_bytes()[-80:]
    report = scan(
        [saved.parent],
        [SECRET_NOTE, PASSPHRASE],
        raw={"luk": bytes(keys.luk), "dbk": bytes(keys.dbk)},
    )
    assert report.hits == ()
    assert device not in saved.read_bytes()
    assert bundle.manifest.salt != keys.slot_file.salt


def test_a_key_file_slot_never_gets_into_a_bundle(tmp_path: Path) -> None:
    from memory_manager.vault.key_file import create_key_file

    create_key_file(tmp_path / "vault.key")
    home = VaultHome(tmp_path / "data").create(insecure_key_file=tmp_path / "vault.key")
    with home.opened() as lifecycle:
        lifecycle.backup(tmp_path / "b")
    slots = read_bundle(tmp_path / "b").slot_file.slots
    assert SlotType.INSECURE_FILE not in {slot.type for slot in slots}


def test_recovery_words_restore_with_a_new_passphrase(
    home: VaultHome, saved: Path, tmp_path: Path
) -> None:
    assert home.result is not None
    words = home.result.recovery_words
    target = VaultHome(tmp_path / "new")
    with pytest.raises(PassphraseRequired):
        restored(saved, target, passphrase=None, words=words)
    result = restored(saved, target, passphrase=None, words=words, new_passphrase=OTHER_PASSPHRASE)
    assert result.recovery_words is None
    assert result.recovery == "confirmed"
    assert target.keys(OTHER_PASSPHRASE).slot_file.find(SlotType.RECOVERY) is not None


def test_wrong_passphrase_and_words_leave_nothing(saved: Path, tmp_path: Path) -> None:
    target = VaultHome(tmp_path / "new")
    with pytest.raises(WrongPassphrase):
        restored(saved, target, passphrase="wrong")
    with pytest.raises(WrongRecoveryWords):
        restored(saved, target, words="abandon " * 23 + "art", new_passphrase=OTHER_PASSPHRASE)
    assert not target.directory.exists()
    assert not list(tmp_path.glob("new/*"))


def test_a_backup_never_replaces_a_file_and_needs_the_passphrase(
    home: VaultHome, saved: Path, tmp_path: Path
) -> None:
    before = saved.read_bytes()
    with home.opened() as lifecycle:
        with pytest.raises(BackupRefused):
            lifecycle.backup(saved)
        lifecycle.lock(LockReason.USER)
        with pytest.raises(PassphraseRequired):
            lifecycle.backup(tmp_path / "other")
    assert saved.read_bytes() == before


def test_restore_replaces_a_vault_only_when_told_and_keeps_the_old_one(
    home: VaultHome, saved: Path
) -> None:
    with home.opened() as lifecycle:
        write_note(lifecycle, "after the backup")
    with pytest.raises(VaultExists):
        restored(saved, home)
    with pytest.raises(PassphraseRequired):
        restored(saved, home, replace=True)
    with pytest.raises(WrongPassphrase):
        restored(saved, home, replace=True, current_passphrase="wrong")
    result = restored(saved, home, replace=True, current_passphrase=PASSPHRASE)
    with home.opened() as lifecycle:
        assert notes(lifecycle) == sorted(["second", SECRET_NOTE])
    assert result.replaced is not None
    former = VaultHome(home.root)
    os.rename(home.directory, home.root / "aside")
    os.rename(result.replaced, home.directory)
    with former.opened() as lifecycle:
        assert "after the backup" in notes(lifecycle)


def test_a_destroyed_vault_can_be_replaced_without_its_passphrase(
    home: VaultHome, saved: Path
) -> None:
    home.paths.slots.write_bytes(b"{}")
    assert restored(saved, home, replace=True).replaced is not None
    with home.opened() as lifecycle:
        assert notes(lifecycle) == sorted(["second", SECRET_NOTE])


@pytest.mark.parametrize("fraction", [0.0, 0.02, 0.05, 0.3, 0.6, 0.95])
def test_a_flipped_bit_anywhere_in_a_bundle_is_refused(
    saved: Path, tmp_path: Path, fraction: float
) -> None:
    data = bytearray(saved.read_bytes())
    end = len(data) - 1024 * 10  # tar's zero padding at the end says nothing
    data[int(end * fraction)] ^= 1
    changed = tmp_path / "changed"
    changed.write_bytes(data)
    target = VaultHome(tmp_path / "new")
    with pytest.raises((BackupRefused, WrongPassphrase)):
        restored(changed, target)
    assert not target.directory.exists()


def rewritten(saved: Path, target: Path, change: str) -> Path:
    """The bundle with one deliberate change, with matching checksums where that is possible."""
    with tarfile.open(saved) as archive:
        parts = {
            member.name: archive.extractfile(member).read()  # type: ignore[union-attr]
            for member in archive
        }
    manifest = json.loads(parts["manifest.json"])
    extra: list[tarfile.TarInfo] = []
    if change == "generation":
        manifest["generation"] += 1
    elif change == "vault":
        manifest["vault"] = "ab" * 16
    elif change == "traversal":
        member = tarfile.TarInfo("images/../../escape")
        extra.append(member)
    elif change == "link":
        member = tarfile.TarInfo("images/link")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        extra.append(member)
    elif change == "twice":
        extra.append(tarfile.TarInfo("vault.db"))
    elif change == "unlisted":
        extra.append(tarfile.TarInfo("images/abc"))
    parts["manifest.json"] = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    if change == "missing":
        del parts["vault.slots"]
    import io

    with tarfile.open(target, "w") as archive:
        for name, data in parts.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        for member in extra:
            archive.addfile(member)
    return target


@pytest.mark.parametrize(
    "change", ["generation", "vault", "traversal", "link", "twice", "unlisted", "missing"]
)
def test_deliberate_changes_are_refused(saved: Path, tmp_path: Path, change: str) -> None:
    target = VaultHome(tmp_path / "new")
    with pytest.raises(BackupRefused):
        restored(rewritten(saved, tmp_path / "changed", change), target)
    assert not target.directory.exists()
    assert not (tmp_path / "escape").exists()


@pytest.mark.parametrize("data", [b"", b"not a tar", bytes(10_240)])
def test_other_files_are_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "other").write_bytes(data)
    with pytest.raises(BackupRefused):
        restored(tmp_path / "other", VaultHome(tmp_path / "new"))
    with pytest.raises(BackupRefused):
        restored(tmp_path / "missing", VaultHome(tmp_path / "new"))


def test_a_backup_under_load_is_one_snapshot(home: VaultHome, tmp_path: Path) -> None:
    stop = threading.Event()
    with home.opened() as lifecycle:

        def write() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                write_note(lifecycle, f"load{number:05}")

        writer = threading.Thread(target=write)
        writer.start()
        try:
            summary = lifecycle.backup(tmp_path / "b")
        finally:
            stop.set()
            writer.join()
        final = lifecycle.store.generation()
    assert summary.generation <= final
    target = VaultHome(tmp_path / "new")
    assert restored(tmp_path / "b", target).generation == summary.generation
    with target.opened() as lifecycle:
        loaded = [text for text in notes(lifecycle) if text.startswith("load")]
    assert loaded == [f"load{number:05}" for number in range(1, len(loaded) + 1)]


def test_images_travel_as_they_are(home: VaultHome, tmp_path: Path) -> None:
    sealed = os.urandom(5000)
    (home.paths.images / "0a1b").write_bytes(sealed)
    with home.opened() as lifecycle:
        lifecycle.backup(tmp_path / "b")
    target = VaultHome(tmp_path / "new")
    restored(tmp_path / "b", target)
    assert (target.paths.images / "0a1b").read_bytes() == sealed


@pytest.mark.priv
def test_a_backup_onto_a_full_disk_leaves_nothing_and_hurts_nothing(
    home: VaultHome, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", 1) as disk:
        fill(disk, leave_bytes=40_000)
        with home.opened() as lifecycle:
            with pytest.raises(ReadOnly):
                lifecycle.backup(disk / "b")
            assert [path.name for path in disk.iterdir()] == ["filler"]
            assert lifecycle.state is VaultState.UNLOCKED
            write_note(lifecycle, "third")
    assert not list(home.directory.glob("backup-*"))
