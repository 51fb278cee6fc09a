"""T55 and the state machine: setup, passphrase, recovery words, the admin window."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from vault_harness import (
    OTHER_PASSPHRASE,
    PASSPHRASE,
    FakeClocks,
    ProcessKeyring,
    VaultHome,
    accepted,
    notes,
    reason_of,
    stand_at_now,
    timed,
    write_note,
)

from memory_manager.vault.errors import (
    LockReason,
    NoVault,
    PassphraseRequired,
    SetupCancelled,
    VaultExists,
    VaultLocked,
    WeakPassphrase,
    WrongPassphrase,
    WrongRecoveryWords,
)
from memory_manager.vault.status import VaultState

# --- absent, setup ----------------------------------------------------------------------------


def test_absent_says_so(tmp_path: Path) -> None:
    home = VaultHome(tmp_path / "data")
    lifecycle = home.lifecycle()
    assert lifecycle.start().state is VaultState.ABSENT
    for act in (lambda: lifecycle.store, lambda: lifecycle.unlock_with_passphrase(PASSPHRASE)):
        with pytest.raises(NoVault):
            act()
    home.create()
    assert lifecycle.start().reason == "no_terminal"
    lifecycle.unlock_with_passphrase(PASSPHRASE)
    lifecycle.close()


def test_setup_never_replaces_a_vault(plain: VaultHome, tmp_path: Path) -> None:
    before = plain.paths.slots.read_bytes()
    with pytest.raises(VaultExists):
        plain.create()
    plain.paths.database.unlink()
    with pytest.raises(VaultExists):
        plain.create()
    assert plain.paths.slots.read_bytes() == before
    other = VaultHome(tmp_path / "other")
    other.directory.mkdir(parents=True, mode=0o700)
    (other.directory / "somebody.txt").touch()
    with pytest.raises(VaultExists):
        other.create()


@pytest.mark.parametrize("present", ["vault.db", "vault.slots"])
def test_one_file_alone_is_an_error_not_a_fresh_start(plain: VaultHome, present: str) -> None:
    missing = {"vault.db": "vault.slots", "vault.slots": "vault.db"}[present]
    (plain.directory / missing).unlink()
    lifecycle = plain.lifecycle()
    assert lifecycle.start().reason == "incomplete_vault"
    assert lifecycle.state is VaultState.LOCKED


def test_weak_passphrases_create_nothing(tmp_path: Path) -> None:
    home = VaultHome(tmp_path / "data")
    with pytest.raises(WeakPassphrase):
        home.create(passphrase="summer")
    with pytest.raises(PassphraseRequired):
        home.create(passphrase=None)
    assert not home.root.exists()


def test_every_file_is_born_private(plain: VaultHome) -> None:
    with plain.opened() as lifecycle:
        write_note(lifecycle, "a")
        for path in [plain.directory, *plain.directory.rglob("*")]:
            with contextlib.suppress(FileNotFoundError):  # an anchor that was just put in place
                assert path.stat().st_mode & 0o077 == 0, path


def test_t55_wrong_confirmation_makes_no_vault_and_leaves_no_keyring_item(
    tmp_path: Path, backend: ProcessKeyring
) -> None:
    home = VaultHome(tmp_path / "data", accepted(backend))
    shown: list[Sequence[str]] = []

    def refuse(words: Sequence[str]) -> bool:
        shown.append(words)
        return False

    with pytest.raises(SetupCancelled):
        home.create(confirm_words=refuse)
    assert len(shown) == 1
    assert not home.directory.exists()
    assert backend.items == {}


def test_t55_recovery_is_confirmed_unconfirmed_or_none(tmp_path: Path) -> None:
    found = {}
    for name, options in {
        "confirmed": {"confirm_words": lambda words: len(words) == 24},
        "unconfirmed": {},
        "none": {"with_recovery": False},
    }.items():
        home = VaultHome(tmp_path / name).create(**options)
        with home.opened() as lifecycle:
            found[name] = lifecycle.status().as_json()["recovery"]
        assert home.result is not None
        assert (home.result.recovery_words is None) is (name == "none")
        assert "recovery_words" not in repr(home.result)
    assert found == {name: name for name in found}


# --- passphrase, words, admin window ----------------------------------------------------------


def test_unlock_lock_and_unlock_again(plain: VaultHome) -> None:
    lifecycle = plain.lifecycle()
    lifecycle.start()
    with pytest.raises(VaultLocked) as locked:
        _ = lifecycle.store
    assert locked.value.reason is LockReason.NO_TERMINAL
    assert lifecycle.unlock_with_passphrase(PASSPHRASE).state is VaultState.UNLOCKED
    write_note(lifecycle, "a")
    store = lifecycle.store
    lifecycle.lock(LockReason.USER)
    assert reason_of(lifecycle) == (VaultState.LOCKED, "user")
    with pytest.raises(VaultLocked):
        store.submit(lambda _: None).result()
    lifecycle.unlock_with_passphrase(PASSPHRASE)
    assert notes(lifecycle) == ["a"]
    lifecycle.close()


def test_locking_zeroes_every_key(plain: VaultHome) -> None:
    lifecycle = plain.lifecycle()
    lifecycle.unlock_with_passphrase(PASSPHRASE)
    with lifecycle.owner_act() as session:
        keys = session.keys
    assert any(keys.luk)
    assert any(keys.dbk)
    connect = session.connect
    lifecycle.lock(LockReason.SUSPEND)
    assert not any(keys.luk)
    assert not any(keys.dbk)
    with pytest.raises(VaultLocked):
        connect()
    assert not plain.paths.wal.exists()


def test_wrong_passphrases_wait_longer_each_time(plain: VaultHome, clocks: FakeClocks) -> None:
    lifecycle = timed(plain, clocks)
    lifecycle.start(has_terminal=True)
    with pytest.raises(WrongPassphrase) as first:
        lifecycle.unlock_with_passphrase("wrong")
    assert first.value.retry_after_seconds == 1
    spent: list[float] = []
    for _ in range(3):  # something else may take time once
        begin = time.process_time()
        with pytest.raises(WrongPassphrase) as too_soon:
            lifecycle.unlock_with_passphrase(PASSPHRASE)
        spent.append(time.process_time() - begin)
        assert too_soon.value.retry_after_seconds > 0
    assert min(spent) < 0.1, "Argon2id ran although the delay was not over"
    clocks.advance(1)
    with pytest.raises(WrongPassphrase) as second:
        lifecycle.unlock_with_passphrase("wrong")
    assert second.value.retry_after_seconds == 2
    assert reason_of(lifecycle) == (VaultState.LOCKED, "no_keyring")
    clocks.advance(2)
    assert lifecycle.unlock_with_passphrase(PASSPHRASE).state is VaultState.UNLOCKED
    lifecycle.close()


def test_a_wrong_passphrase_leaves_an_open_vault_open(plain: VaultHome) -> None:
    with plain.opened() as lifecycle:
        with pytest.raises(WrongPassphrase):
            lifecycle.unlock_with_passphrase("wrong")
        assert lifecycle.state is VaultState.UNLOCKED
        write_note(lifecycle, "a")


def test_admin_acts_need_a_passphrase_of_the_last_five_minutes(
    with_keyring: VaultHome, clocks: FakeClocks, tmp_path: Path
) -> None:
    stand_at_now(clocks)
    lifecycle = timed(with_keyring, clocks)
    assert lifecycle.start().unlock_source == "os_keyring"
    acts = {
        "backup": lambda: lifecycle.backup(tmp_path / "b"),
        "rekey": lambda: lifecycle.rekey(PASSPHRASE),
        "words": lifecycle.new_recovery_words,
        "keyring": lifecycle.disable_keyring,
        "enable": lifecycle.enable_keyring,
        "rollback": lifecycle.accept_rollback,
        "check": lifecycle.require_admin,
    }
    for name, act in acts.items():
        with pytest.raises(PassphraseRequired):
            act()
        assert lifecycle.state is VaultState.UNLOCKED, name
    assert not (tmp_path / "b").exists()
    lifecycle.unlock_with_passphrase(PASSPHRASE)
    clocks.advance(299)
    lifecycle.require_admin()
    clocks.advance(1)
    with pytest.raises(PassphraseRequired):
        lifecycle.require_admin()
    lifecycle.unlock_with_passphrase(PASSPHRASE)
    lifecycle.lock(LockReason.USER)
    with pytest.raises(PassphraseRequired):
        lifecycle.require_admin()
    lifecycle.close()


def test_changing_the_passphrase_touches_the_slot_file_only(plain: VaultHome) -> None:
    before = {path.name: path.read_bytes() for path in plain.directory.iterdir() if path.is_file()}
    lifecycle = plain.lifecycle()
    lifecycle.change_passphrase(PASSPHRASE, OTHER_PASSPHRASE)
    after = {path.name: path.read_bytes() for path in plain.directory.iterdir() if path.is_file()}
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"vault.slots", "vault.slots.prev"}
    with pytest.raises(WrongPassphrase):
        plain.keys(PASSPHRASE)
    assert lifecycle.unlock_with_passphrase(OTHER_PASSPHRASE).state is VaultState.UNLOCKED
    assert not plain.paths.slots_previous.exists()
    lifecycle.close()


def test_changing_with_a_wrong_or_weak_passphrase_changes_nothing(plain: VaultHome) -> None:
    before = plain.paths.slots.read_bytes()
    lifecycle = plain.lifecycle()
    with pytest.raises(WeakPassphrase):
        lifecycle.change_passphrase(PASSPHRASE, "summer")
    with pytest.raises(WrongPassphrase):
        lifecycle.change_passphrase("wrong", OTHER_PASSPHRASE)
    assert plain.paths.slots.read_bytes() == before
    assert not plain.paths.slots_previous.exists()


def test_recovery_words_open_and_set_a_new_passphrase(plain: VaultHome) -> None:
    assert plain.result is not None
    words = plain.result.recovery_words
    assert words is not None
    lifecycle = plain.lifecycle()
    with pytest.raises(WeakPassphrase):
        lifecycle.unlock_with_recovery_words(words, "summer")
    status = lifecycle.unlock_with_recovery_words(" ".join(words).upper(), OTHER_PASSPHRASE)
    assert (status.state, status.unlock_source) == (VaultState.UNLOCKED, "recovery")
    lifecycle.require_admin()
    lifecycle.close()
    with pytest.raises(WrongPassphrase):
        plain.keys(PASSPHRASE)
    assert plain.keys(OTHER_PASSPHRASE).slot_file.gsk is not None


def test_new_recovery_words_end_the_old_ones(plain: VaultHome) -> None:
    assert plain.result is not None
    old = plain.result.recovery_words
    assert old is not None
    with plain.opened() as lifecycle:
        new = lifecycle.new_recovery_words()
        assert lifecycle.status().recovery == "unconfirmed"
        assert lifecycle.confirm_recovery().recovery == "confirmed"
    lifecycle = plain.lifecycle()
    with pytest.raises(WrongRecoveryWords):
        lifecycle.unlock_with_recovery_words(old, OTHER_PASSPHRASE)
    lifecycle = plain.lifecycle()
    assert lifecycle.unlock_with_recovery_words(new, OTHER_PASSPHRASE).recovery == "confirmed"
    lifecycle.close()
