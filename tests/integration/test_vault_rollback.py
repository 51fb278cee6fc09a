"""T6, T7, T48, T49: SQLite and SQLCipher see nothing wrong, the anchor does."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from vault_harness import (
    PASSPHRASE,
    ProcessKeyring,
    VaultHome,
    accepted,
    notes,
    wait_for,
    write_note,
)

from memory_manager.vault import integrity, kdf, state_rows
from memory_manager.vault.anchor import parse_anchor
from memory_manager.vault.connection import open_database
from memory_manager.vault.errors import (
    AnchorDamaged,
    PassphraseRequired,
    ReadOnly,
    RolledBack,
)
from memory_manager.vault.lifecycle import VaultLifecycle
from memory_manager.vault.status import VaultState

PAGE = 4096


@pytest.fixture
def home(tmp_path: Path, backend: ProcessKeyring) -> VaultHome:
    """A vault with a keyring and two writes."""
    home = VaultHome(tmp_path / "data", accepted(backend)).create(with_recovery=False)
    with home.opened() as lifecycle:
        write_note(lifecycle, "a")
        write_note(lifecycle, "b")
    return home


def write_more(home: VaultHome) -> None:
    with home.opened() as lifecycle:
        write_note(lifecycle, "c")
        write_note(lifecycle, "d")


def sqlite_says_ok(home: VaultHome) -> bool:
    keys = home.keys()
    connection = open_database(home.paths.database, keys.dbk, keys.slot_file.salt)
    try:
        return integrity.check(connection).ok
    finally:
        connection.close()


def check_rolled_back(lifecycle: VaultLifecycle, reason: str, error: type[Exception]) -> None:
    status = lifecycle.status()
    assert (status.state, status.reason) == (VaultState.ROLLED_BACK, reason)
    with pytest.raises(error):
        lifecycle.require_writable()
    with pytest.raises(ReadOnly):
        write_note(lifecycle, "never")


def test_nothing_happened_is_fresh(home: VaultHome) -> None:
    write_more(home)
    with home.opened() as lifecycle:
        assert lifecycle.state is VaultState.UNLOCKED
        assert lifecycle.status().keyring_copy == "ok"
        lifecycle.require_writable()


def test_t07_last_weeks_file_is_caught_and_stays_readable(home: VaultHome) -> None:
    copy = home.save("old")
    write_more(home)
    home.put_back(copy, "vault.db")
    assert sqlite_says_ok(home)
    with home.opened() as lifecycle:
        check_rolled_back(lifecycle, "database_rolled_back", RolledBack)
        assert notes(lifecycle) == ["a", "b"]


def test_a_rolled_back_vault_refuses_writes_without_asking_the_disk(
    home: VaultHome, caplog: pytest.LogCaptureFixture
) -> None:
    """Each request notes that its credential was used; that must not look like a broken disk."""
    copy = home.save("old")
    write_more(home)
    home.put_back(copy, "vault.db")
    with home.opened() as lifecycle:
        caplog.clear()
        assert lifecycle.store.read_only
        for _ in range(3):
            with pytest.raises(ReadOnly):
                write_note(lifecycle, "never")
        assert caplog.records == []
        assert lifecycle.state is VaultState.ROLLED_BACK


def test_t07_the_whole_folder_of_last_week_is_caught_by_the_keyring(home: VaultHome) -> None:
    copy = home.save("old")
    write_more(home)
    home.put_back(copy)
    assert sqlite_says_ok(home)
    with home.opened() as lifecycle:
        check_rolled_back(lifecycle, "anchor_rolled_back", RolledBack)


def test_t07_one_old_page_is_caught(home: VaultHome) -> None:
    """Each page that the last writes changed, put back alone: caught by MACs or by the anchor."""
    old = home.paths.database.read_bytes()
    write_more(home)
    new = home.paths.database.read_bytes()
    changed = [
        number
        for number in range(min(len(old), len(new)) // PAGE)
        if old[number * PAGE :][:PAGE] != new[number * PAGE :][:PAGE]
    ]
    assert changed
    generation_pages = 0
    for number in changed:
        mixed = bytearray(new)
        mixed[number * PAGE :][:PAGE] = b""
        mixed[number * PAGE : (number + 1) * PAGE] = old[number * PAGE : (number + 1) * PAGE]
        home.paths.database.write_bytes(mixed)
        lifecycle = home.lifecycle()
        try:
            status = lifecycle.unlock_with_passphrase(PASSPHRASE)
            if status.state is VaultState.ROLLED_BACK:
                generation_pages += 1
        finally:
            lifecycle.close()
    assert generation_pages, "the page that holds the generation was not noticed"
    home.paths.database.write_bytes(new)


@functools.cache
def anchor_key_of(directory: Path) -> bytes:
    return bytes(kdf.anchor_key(VaultHome(directory).keys().luk))


def anchored(home: VaultHome) -> int:
    """The generation in the anchor file now."""
    data = home.paths.anchor.read_bytes()
    return parse_anchor(data, anchor_key_of(home.root)).progress.generation


def crash(home: VaultHome, backend: ProcessKeyring) -> bytes:
    """Write more, leave files and keyring as a crash would leave them, and return the WAL."""
    with home.opened() as lifecycle:
        for number in range(6):
            write_note(lifecycle, f"w{number}")
        # the anchor follows within a second; a rollback of less than that is not promised
        wait_for(lambda: anchored(home) == lifecycle.store.generation())
        home.save("crash")
        items = dict(backend.items)
        wal = home.paths.wal.read_bytes()
    crashed = home.root.parent / f"{home.root.name}-crash"
    home.put_back(crashed)
    home.paths.shm.unlink(missing_ok=True)
    backend.items = items
    return wal


def test_an_untouched_wal_after_a_crash_is_fresh_and_complete(
    home: VaultHome, backend: ProcessKeyring
) -> None:
    crash(home, backend)
    with home.opened() as lifecycle:
        assert lifecycle.state is VaultState.UNLOCKED
        assert "w5" in notes(lifecycle)


@pytest.mark.parametrize("damage", ["half", "torn", "bit", "deleted"])
def test_t06_a_damaged_wal_is_caught(home: VaultHome, backend: ProcessKeyring, damage: str) -> None:
    wal = crash(home, backend)
    frame = 24 + PAGE
    if damage == "half":
        home.paths.wal.write_bytes(wal[: len(wal) // 2])
    elif damage == "torn":
        frames = (len(wal) - 32) // frame
        home.paths.wal.write_bytes(wal[: 32 + frame * (frames // 2) + 100])
    elif damage == "bit":
        changed = bytearray(wal)
        changed[32 + frame + 200] ^= 4
        home.paths.wal.write_bytes(changed)
    else:
        home.paths.wal.unlink()
    assert sqlite_says_ok(home)
    with home.opened() as lifecycle:
        check_rolled_back(lifecycle, "database_rolled_back", RolledBack)
        assert notes(lifecycle)[:2] == ["a", "b"]


def test_t48_an_older_keyring_copy_is_fine(home: VaultHome, backend: ProcessKeyring) -> None:
    name = backend.item("anchor-")
    older = backend.items["memlocket", name]
    write_more(home)
    assert backend.items["memlocket", name] != older
    backend.items["memlocket", name] = older
    with home.opened() as lifecycle:
        assert lifecycle.state is VaultState.UNLOCKED
    assert backend.items["memlocket", name] != older


def test_t48_an_older_anchor_is_caught(home: VaultHome) -> None:
    copy = home.save("old")
    write_more(home)
    home.put_back(copy, "anchor.bin")
    with home.opened() as lifecycle:
        check_rolled_back(lifecycle, "anchor_rolled_back", RolledBack)
        assert notes(lifecycle) == ["a", "b", "c", "d"]


def test_t48_a_deleted_anchor_is_caught_with_and_without_keyring(home: VaultHome) -> None:
    home.paths.anchor.unlink()
    with home.opened() as lifecycle:
        check_rolled_back(lifecycle, "anchor_rolled_back", RolledBack)
    with home.opened(keyring=None) as lifecycle:
        check_rolled_back(lifecycle, "anchor_damaged", AnchorDamaged)


@pytest.mark.parametrize("content", [b"", bytes(220), bytes(5000), None])
def test_t48_a_damaged_anchor_is_caught(home: VaultHome, content: bytes | None) -> None:
    data = bytearray(home.paths.anchor.read_bytes())
    data[60] ^= 1
    home.paths.anchor.write_bytes(data if content is None else content)
    with home.opened() as lifecycle:
        check_rolled_back(lifecycle, "anchor_damaged", AnchorDamaged)


def test_without_a_keyring_the_status_says_so(home: VaultHome) -> None:
    with home.opened(keyring=None) as lifecycle:
        assert lifecycle.state is VaultState.UNLOCKED
        assert lifecycle.status().as_json()["anchor"]["keyring_copy"] == "none"


def test_t49_accepting_needs_a_fresh_passphrase_and_mints_a_new_device(home: VaultHome) -> None:
    device_before = device_of(home)
    copy = home.save("old")
    write_more(home)
    home.put_back(copy, "vault.db")
    lifecycle = home.lifecycle()
    lifecycle.start()
    assert lifecycle.state is VaultState.ROLLED_BACK
    with pytest.raises(PassphraseRequired):
        lifecycle.accept_rollback()
    lifecycle.unlock_with_passphrase(PASSPHRASE)
    status = lifecycle.accept_rollback()
    assert status.state is VaultState.UNLOCKED
    write_note(lifecycle, "e")
    assert notes(lifecycle) == ["a", "b", "e"]
    generation = lifecycle.status().generation
    lifecycle.close()
    assert device_of(home) != device_before
    with home.opened() as lifecycle:
        assert lifecycle.state is VaultState.UNLOCKED
        assert lifecycle.status().generation == generation
    home.put_back(copy, "vault.db", "anchor.bin", "device.key")
    with home.opened() as lifecycle:
        assert lifecycle.state is VaultState.ROLLED_BACK


def device_of(home: VaultHome) -> bytes:
    keys = home.keys()
    connection = open_database(home.paths.database, keys.dbk, keys.slot_file.salt)
    try:
        return state_rows.read_identity(connection).device
    finally:
        connection.close()


@pytest.mark.parametrize("reason", ["anchor_rolled_back", "anchor_damaged"])
def test_a_bad_anchor_is_accepted_the_same_way(home: VaultHome, reason: str) -> None:
    if reason == "anchor_damaged":
        home.paths.anchor.write_bytes(bytes(220))
    else:
        home.paths.anchor.unlink()
    with home.opened() as lifecycle:
        assert lifecycle.status().reason == reason
        assert lifecycle.accept_rollback().state is VaultState.UNLOCKED
        write_note(lifecycle, "e")
    with home.opened() as lifecycle:
        assert lifecycle.state is VaultState.UNLOCKED
        assert notes(lifecycle) == ["a", "b", "e"]


def test_a_device_key_of_another_vault_is_noticed(home: VaultHome, tmp_path: Path) -> None:
    other = VaultHome(tmp_path / "other").create(with_recovery=False)
    home.paths.device_key.write_bytes(other.paths.device_key.read_bytes())
    with home.opened() as lifecycle:
        check_rolled_back(lifecycle, "wrong_identity", RolledBack)


def test_the_anchor_never_runs_ahead_and_reaches_the_database_at_lock(home: VaultHome) -> None:
    with home.opened() as lifecycle:
        for number in range(30):
            write_note(lifecycle, f"x{number}")
            seen = anchored(home)
            assert seen <= lifecycle.store.generation()
        wait_for(lambda: anchored(home) == lifecycle.store.generation())
        write_note(lifecycle, "last")
        final = lifecycle.store.generation()
    assert anchored(home) == final


def test_the_anchor_is_written_at_most_once_a_second(home: VaultHome) -> None:
    with home.opened() as lifecycle:
        inodes = set()
        for number in range(60):
            write_note(lifecycle, f"y{number}")
            inodes.add(home.paths.anchor.stat().st_ino)
    assert len(inodes) < 20
