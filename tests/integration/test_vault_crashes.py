"""T4, T12, T47 and setup, restore, accepting a rollback: killed at every change of a file.

The child dies before its first, second, third ... change until it once runs to its end, so each
state that a crash can leave between two file operations is opened here.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from small_disk import small_disk
from vault_harness import (
    OTHER_PASSPHRASE,
    PASSPHRASE,
    VaultHome,
    fill,
    notes,
    run_and_kill,
    write_note,
)

from memory_manager.vault import integrity, slot_files
from memory_manager.vault.connection import open_database
from memory_manager.vault.errors import ReadOnly, RekeyFailed, WrongFile, WrongPassphrase
from memory_manager.vault.paths import SQLITE_SUFFIXES, read_head
from memory_manager.vault.status import VaultState

WHOLE_VAULT = {
    "anchor.bin",
    "ballast.bin",
    "device.key",
    "images",
    "vault.db",
    "vault.slots",
}
NOTES = [f"n{number}" for number in range(8)]
MAX_STEPS = 60

# each third step, and with the slow tests the steps between
STEPS = pytest.mark.parametrize(
    "steps",
    [
        [step for step in range(1, MAX_STEPS) if step % 3 == 1],
        pytest.param(
            [step for step in range(1, MAX_STEPS) if step % 3 != 1], marks=pytest.mark.slow
        ),
    ],
    ids=["some", "the-others"],
)
ALL_STEPS = range(1, MAX_STEPS)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault with a few notes, to be copied."""
    home = VaultHome(tmp_path_factory.mktemp("made") / "data").create(with_recovery=True)
    with home.opened() as lifecycle:
        for text in NOTES:
            write_note(lifecycle, text)
    return home.root


def fresh(made: Path, tmp_path: Path, name: str) -> VaultHome:
    shutil.copytree(made, tmp_path / name)
    return VaultHome(tmp_path / name)


def kills(
    act: str, made: Path, tmp_path: Path, steps: Sequence[int] = ALL_STEPS
) -> Iterator[VaultHome]:
    """A home after the kill at each of ``steps``, until the act runs to its end."""
    for step in steps:
        home = fresh(made, tmp_path, f"{act}-{step}")
        killed = run_and_kill(act, home.root, str(step))
        yield home
        if not killed:
            assert step > 3, "the act changed too few files: are the audit events still counted?"
            return
    raise AssertionError("the act never came to its end")


def opens_with(home: VaultHome, passphrase: str) -> bool:
    lifecycle = home.lifecycle()
    try:
        status = lifecycle.unlock_with_passphrase(passphrase)
    except WrongPassphrase:
        return False
    else:
        assert status.state is VaultState.UNLOCKED, status
        assert notes(lifecycle) == NOTES
        return True
    finally:
        lifecycle.close()


def check_whole(home: VaultHome) -> None:
    """The vault opens twice with its passphrase, its parts fit each other and nothing is left."""
    assert opens_with(home, PASSPHRASE)
    assert opens_with(home, PASSPHRASE)
    keys = home.keys()
    assert read_head(home.paths.database) == keys.slot_file.salt
    connection = open_database(home.paths.database, keys.dbk, keys.slot_file.salt)
    assert integrity.check(connection).ok
    connection.close()
    assert {entry.name for entry in home.directory.iterdir()} == WHOLE_VAULT


def test_t12_passphrase_change_killed_at_each_step(made: Path, tmp_path: Path) -> None:
    database = (made / "vault/vault.db").read_bytes()
    outcomes = []
    for home in kills("passphrase", made, tmp_path):
        assert home.paths.database.read_bytes() == database
        outcomes.append((opens_with(home, PASSPHRASE), opens_with(home, OTHER_PASSPHRASE)))
    assert set(outcomes) == {(True, False), (False, True)}
    assert outcomes == sorted(outcomes, reverse=True), "old first, then new, never neither"


@pytest.mark.timeout(400)
@STEPS
def test_t04_copy_rekey_killed_at_each_step(
    made: Path, tmp_path: Path, steps: Sequence[int]
) -> None:
    old_salt = read_head(made / "vault/vault.db")
    switched = []
    for home in kills("rekey", made, tmp_path, steps):
        check_whole(home)
        switched.append(read_head(home.paths.database) != old_salt)
    assert switched == sorted(switched), "once finished, never undone"
    assert switched[-1]
    assert not switched[0]


MANY = [pytest.param(number, marks=pytest.mark.slow) for number in range(5, 25)]


@pytest.mark.parametrize("run", [*range(5), *MANY])
def test_t04_copy_rekey_killed_at_random(made: Path, tmp_path: Path, run: int) -> None:
    home = fresh(made, tmp_path, "random")
    moment = f"t{random.Random().randrange(1, 1500)}"
    print(f"killed at {moment}")  # shown when it fails: each run takes another moment
    run_and_kill("rekey", home.root, moment)
    check_whole(home)


@pytest.mark.parametrize("suffix", SQLITE_SUFFIXES)
def test_t04_what_a_copy_killed_early_leaves_is_cleared_at_the_next_unlock(
    made: Path, tmp_path: Path, suffix: str
) -> None:
    home = fresh(made, tmp_path, "early")
    copy = home.paths.rekey_copy
    copy.with_name(copy.name + suffix).write_bytes(b"half a page")
    check_whole(home)


@pytest.mark.timeout(200)
@STEPS
def test_setup_killed_at_each_step_leaves_no_vault_or_a_whole_one(
    tmp_path: Path, steps: Sequence[int]
) -> None:
    (tmp_path / "nothing").mkdir(mode=0o700)
    outcomes = []
    for home in kills("setup", tmp_path / "nothing", tmp_path, steps):
        if home.directory.exists():
            outcomes.append(True)
            assert {entry.name for entry in home.directory.iterdir()} == WHOLE_VAULT
        else:
            outcomes.append(False)
            home.create()  # a second try is not hindered by what the first left
        with home.opened() as lifecycle:
            assert lifecycle.state is VaultState.UNLOCKED
        assert [entry.name for entry in home.root.iterdir()] == ["vault"]
    assert outcomes[-1]
    assert not outcomes[0]


@pytest.mark.timeout(400)
@STEPS
def test_restore_killed_at_each_step_leaves_no_vault_or_a_whole_one(
    made: Path, tmp_path: Path, steps: Sequence[int]
) -> None:
    source = fresh(made, tmp_path, "source")
    backup = tmp_path / "empty"
    backup.mkdir(mode=0o700)
    with source.opened() as lifecycle:
        lifecycle.backup(backup / "backup.tar")
    outcomes = []
    for home in kills("restore", backup, tmp_path, steps):
        outcomes.append(home.directory.exists())
        home.lifecycle().start()  # what the daemon does first
        left = {entry.name for entry in home.root.iterdir()} - {"backup.tar"}
        assert left <= {"vault"}, "a start finishes or clears what a killed restore left"
        if home.directory.exists():
            check_whole(home)
    assert outcomes[-1]
    assert not outcomes[0]


def test_a_restore_killed_between_the_two_renames_is_finished_by_the_next_start(
    made: Path, tmp_path: Path
) -> None:
    home = fresh(made, tmp_path, "swapped")
    os.rename(home.directory, home.directory.with_name("vault.restored"))
    shutil.copytree(made / "vault", home.root / "vault.replaced-20260101T000000Z")
    (home.root / "vault.restoring").mkdir(mode=0o700)
    (home.root / "vault.restored.new").mkdir(mode=0o700)
    lifecycle = home.lifecycle()
    assert lifecycle.start(has_terminal=True).state is VaultState.LOCKED
    left = sorted(entry.name for entry in home.root.iterdir())
    assert left == ["vault", "vault.replaced-20260101T000000Z"]
    check_whole(home)


@pytest.mark.timeout(400)
@STEPS
def test_accepting_a_rollback_killed_at_each_step(
    made: Path, tmp_path: Path, steps: Sequence[int]
) -> None:
    rolled = fresh(made, tmp_path, "rolled")
    copy = rolled.save("before")
    with rolled.opened() as lifecycle:
        for number in range(5):
            write_note(lifecycle, f"late{number}")
    rolled.put_back(copy, "vault.db")
    for home in kills("accept", rolled.root, tmp_path, steps):
        with home.opened() as lifecycle:
            if lifecycle.state is VaultState.ROLLED_BACK:
                lifecycle.accept_rollback()
            assert lifecycle.state is VaultState.UNLOCKED
        check_whole(home)


def test_t47_copy_rekey_with_a_second_writer_leaves_the_vault_alone(
    made: Path, tmp_path: Path
) -> None:
    home = fresh(made, tmp_path, "busy")
    with home.opened() as lifecycle:
        keys = home.keys()
        other = open_database(home.paths.database, keys.dbk, keys.slot_file.salt)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RekeyFailed):
            lifecycle.rekey(PASSPHRASE)
        assert lifecycle.state is VaultState.UNLOCKED
        assert not home.paths.rekey_copy.exists()
        assert slot_files.read_slot_file(home.paths.slots) == keys.slot_file
        other.execute("ROLLBACK")
        other.close()
        write_note(lifecycle, "n9")
    with home.opened() as lifecycle:
        assert notes(lifecycle) == [*NOTES, "n9"]


@pytest.mark.priv
def test_t47_copy_rekey_on_a_full_disk_leaves_the_vault_alone(made: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 6) as disk:
        check_rekey_on(made, disk)


def check_rekey_on(made: Path, disk: Path) -> None:
    shutil.copytree(made, disk / "data")
    home = VaultHome(disk / "data")
    with home.opened() as lifecycle:
        fill(disk, leave_bytes=64 * 1024)
        with pytest.raises(ReadOnly):
            lifecycle.rekey(PASSPHRASE)
        assert not home.paths.rekey_copy.exists()
        assert notes(lifecycle) == NOTES
        (disk / "filler").unlink()
        assert lifecycle.rekey(PASSPHRASE) is not None
    check_whole(home)


def test_rekey_changes_every_key_and_the_old_slot_file_opens_nothing(
    made: Path, tmp_path: Path
) -> None:
    home = fresh(made, tmp_path, "leaked")
    copy = home.save("leak")
    before = home.keys()
    with home.opened() as lifecycle:
        issued = lifecycle.rekey(PASSPHRASE)
        assert issued is not None
        assert lifecycle.status().recovery == "unconfirmed"
        assert notes(lifecycle) == NOTES
    after = home.keys()
    assert after.luk != before.luk
    assert after.slot_file.salt != before.slot_file.salt
    assert after.slot_file.vault == before.slot_file.vault
    with pytest.raises(WrongFile):
        open_database(home.paths.database, before.dbk, before.slot_file.salt)
    leaked = VaultHome(tmp_path / "leaked-data")
    leaked.root.mkdir(mode=0o700)
    shutil.copytree(copy, leaked.directory)
    assert leaked.keys().luk == before.luk, "an old copy of everything opens with the old key"
    shutil.copy2(home.paths.database, leaked.paths.database)
    with pytest.raises(WrongFile):
        leaked.keys()
