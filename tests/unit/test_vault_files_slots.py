"""Which slot file counts, and what a rewrite leaves behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memory_manager.vault import credential_slots, kdf, slot_files, slots
from memory_manager.vault.errors import PlaintextDatabase, SlotDamaged, WrongFile
from memory_manager.vault.paths import VaultPaths
from memory_manager.vault.slots import SlotFile, SlotType

LUK = bytes(32)


def slot_file(salt: bytes) -> SlotFile:
    commit = slots.database_commitment(kdf.database_key(LUK))
    empty = SlotFile(os.urandom(16), os.urandom(16), 0, salt, commit, (), None)
    return credential_slots.put_key(empty, LUK, SlotType.INSECURE_FILE, bytes(32))


def put(path: Path, made: SlotFile | bytes) -> None:
    path.write_bytes(made if isinstance(made, bytes) else slots.encode(made))
    path.chmod(0o600)


@pytest.fixture
def paths(tmp_path: Path) -> VaultPaths:
    (tmp_path / "vault").mkdir(mode=0o700)
    found = VaultPaths(tmp_path / "vault")
    found.database.write_bytes(b"A" * 16 + bytes(4080))
    return found


A, B, C = slot_file(b"A" * 16), slot_file(b"B" * 16), slot_file(b"C" * 16)


def test_the_current_file_with_the_right_salt_counts(paths: VaultPaths) -> None:
    put(paths.slots, A)
    put(paths.slots_previous, slot_file(b"A" * 16))
    assert slot_files.select(paths) == slot_files.Selected(A, from_previous=False)


@pytest.mark.parametrize("current", [B, b"{}", b"", None])
def test_the_previous_file_is_the_only_other_candidate(paths: VaultPaths, current) -> None:
    if current is not None:
        put(paths.slots, current)
    put(paths.slots_previous, A)
    assert slot_files.select(paths) == slot_files.Selected(A, from_previous=True)


@pytest.mark.parametrize(
    ("current", "previous", "error"),
    [
        (B, C, WrongFile),
        (B, None, WrongFile),
        (b"{}", None, SlotDamaged),
        (b"{}", B, SlotDamaged),
        (B, b"{}", SlotDamaged),
    ],
)
def test_neither_fits(paths: VaultPaths, current, previous, error) -> None:
    put(paths.slots, current)
    if previous is not None:
        put(paths.slots_previous, previous)
    with pytest.raises(error):
        slot_files.select(paths)


def test_a_plaintext_database_is_named_before_anything_else(paths: VaultPaths) -> None:
    put(paths.slots, A)
    paths.database.write_bytes(b"SQLite format 3\0" + bytes(100))
    with pytest.raises(PlaintextDatabase):
        slot_files.select(paths)


def test_rewriting_keeps_the_old_file_and_stays_private(paths: VaultPaths) -> None:
    put(paths.slots, A)
    changed = slot_file(b"A" * 16)
    slot_files.rewrite(paths, changed)
    assert slot_files.read_slot_file(paths.slots) == changed
    assert slot_files.read_slot_file(paths.slots_previous) == A
    for path in paths.directory.iterdir():
        assert path.stat().st_mode & 0o077 == 0 or path == paths.database
    assert not list(paths.directory.glob("*.tmp"))
