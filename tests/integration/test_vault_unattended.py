"""T51-T54: what opens a vault by itself, when it locks again, and what it says meanwhile."""

from __future__ import annotations

import errno
import logging
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from keyring.backends.fail import Keyring as FailKeyring
from keyring.backends.null import Keyring as NullKeyring
from sqlcipher3 import dbapi2 as sqlcipher
from vault_harness import (
    OTHER_PASSPHRASE,
    PASSPHRASE,
    FakeClocks,
    ProcessKeyring,
    VaultHome,
    accepted,
    current_keyring,
    reason_of,
    stand_at_now,
    timed,
    wait_for,
)

from memory_manager.vault.errors import (
    KeyFileRefused,
    LockReason,
    NoVault,
    PassphraseRequired,
    VaultError,
    VaultLocked,
)
from memory_manager.vault.key_file import create_key_file
from memory_manager.vault.os_keyring import find_keyring
from memory_manager.vault.setup import shipped_migrations
from memory_manager.vault.slots import SlotType
from memory_manager.vault.status import VaultState

HOUR = 3600


# --- keyring ----------------------------------------------------------------------------------


def test_the_keyring_opens_a_restarted_daemon(
    with_keyring: VaultHome, backend: ProcessKeyring
) -> None:
    lifecycle = with_keyring.lifecycle()
    status = lifecycle.start()
    assert (status.state, status.unlock_source) == (VaultState.UNLOCKED, "os_keyring")
    assert not status.insecure
    assert len(bytes.fromhex(backend.items["memlocket", backend.item("unlock-")])) == 32
    assert len(bytes.fromhex(backend.items["memlocket", backend.item("anchor-")])) == 64
    lifecycle.close()


@pytest.mark.parametrize("kind", [NullKeyring, FailKeyring, ProcessKeyring])
def test_t51_without_a_real_backend_it_stays_locked_and_writes_no_file(
    with_keyring: VaultHome, kind: type
) -> None:
    files = {path.name for path in with_keyring.directory.iterdir()}
    with current_keyring(kind()):
        lifecycle = with_keyring.lifecycle(keyring=find_keyring())
        lifecycle.start(has_terminal=True)
    assert reason_of(lifecycle) == (VaultState.LOCKED, "no_keyring")
    assert {path.name for path in with_keyring.directory.iterdir()} == files


def test_t51_a_locked_keyring_is_visible_and_retried(
    with_keyring: VaultHome, backend: ProcessKeyring, clocks: FakeClocks
) -> None:
    stand_at_now(clocks)
    backend.locked = True
    lifecycle = timed(with_keyring, clocks)
    lifecycle.start()
    assert reason_of(lifecycle) == (VaultState.LOCKED, "keyring_locked")
    backend.locked = False
    lifecycle.tick()
    lifecycle.tick()
    clocks.advance(31)
    lifecycle.tick()
    assert lifecycle.state is VaultState.UNLOCKED
    lifecycle.close()


def test_t51_a_hanging_keyring_does_not_block_status_or_the_passphrase(
    tmp_path: Path, backend: ProcessKeyring
) -> None:
    home = VaultHome(tmp_path / "data", accepted(backend, timeout_seconds=2.0))
    home.create(with_recovery=False)
    backend.release.clear()
    lifecycle = home.lifecycle()
    starter = threading.Thread(target=lifecycle.start)
    starter.start()
    lifecycle.status()
    with pytest.raises((VaultLocked, NoVault)):
        _ = lifecycle.store
    assert starter.is_alive(), "status waited for the keyring"
    starter.join()
    assert reason_of(lifecycle) == (VaultState.LOCKED, "keyring_locked")
    status = lifecycle.unlock_with_passphrase(PASSPHRASE)
    assert status.state is VaultState.UNLOCKED
    assert status.as_json()["anchor"]["keyring_copy"] == "unavailable"
    backend.release.set()
    lifecycle.close()


def test_setup_with_a_keyring_that_does_not_keep_its_word_has_no_keyring_slot(
    tmp_path: Path,
) -> None:
    class Forgetful(ProcessKeyring):
        def set_password(self, service: str, username: str, password: str) -> None:
            pass

    home = VaultHome(tmp_path / "data", accepted(Forgetful())).create(with_recovery=False)
    assert home.result is not None
    assert not home.result.keyring
    assert [slot.type for slot in home.keys().slot_file.slots] == [SlotType.PASSPHRASE]


def test_the_keyring_can_be_disabled_and_enabled(
    with_keyring: VaultHome, backend: ProcessKeyring
) -> None:
    with with_keyring.opened() as lifecycle:
        assert "os_keyring" not in lifecycle.disable_keyring().as_json()["slots"]
        assert not [name for _, name in backend.items if name.startswith("unlock-")]
    lifecycle = with_keyring.lifecycle()
    lifecycle.start(has_terminal=True)
    assert reason_of(lifecycle) == (VaultState.LOCKED, "no_keyring")
    lifecycle.unlock_with_passphrase(PASSPHRASE)
    lifecycle.enable_keyring()
    lifecycle.close()
    lifecycle = with_keyring.lifecycle()
    assert lifecycle.start().state is VaultState.UNLOCKED
    lifecycle.close()


def test_a_rekey_moves_the_keyring_item(with_keyring: VaultHome, backend: ProcessKeyring) -> None:
    before = backend.item("unlock-")
    with with_keyring.opened() as lifecycle:
        assert lifecycle.rekey(PASSPHRASE) is None
        assert lifecycle.state is VaultState.UNLOCKED
    assert backend.item("unlock-") != before
    lifecycle = with_keyring.lifecycle()
    assert lifecycle.start().state is VaultState.UNLOCKED
    lifecycle.close()


# --- time -------------------------------------------------------------------------------------


def test_t52_a_running_daemon_locks_after_twelve_hours_and_the_keyring_alone_does_not_reopen(
    with_keyring: VaultHome, clocks: FakeClocks
) -> None:
    stand_at_now(clocks)
    lifecycle = timed(with_keyring, clocks)
    lifecycle.start()
    clocks.advance(12 * HOUR - 60)
    lifecycle.tick()
    assert lifecycle.state is VaultState.UNLOCKED
    clocks.advance(61)
    lifecycle.tick()
    assert reason_of(lifecycle) == (VaultState.LOCKED, "reauth_required")
    clocks.advance(60)
    lifecycle.tick()
    assert lifecycle.state is VaultState.LOCKED
    restarted = timed(with_keyring, clocks)
    restarted.start()
    assert reason_of(restarted) == (VaultState.LOCKED, "reauth_required")
    restarted.unlock_with_passphrase(PASSPHRASE)
    restarted.close()
    again = timed(with_keyring, clocks)
    assert again.start().state is VaultState.UNLOCKED
    again.close()


def test_t52_a_passphrase_starts_the_period_again(
    with_keyring: VaultHome, clocks: FakeClocks
) -> None:
    stand_at_now(clocks)
    lifecycle = timed(with_keyring, clocks)
    lifecycle.start()
    clocks.advance(11 * HOUR)
    due_before = lifecycle.status().reauth_due_at_ms
    lifecycle.unlock_with_passphrase(PASSPHRASE)
    due_after = lifecycle.status().reauth_due_at_ms
    assert due_before is not None
    assert due_after is not None
    assert due_after - due_before == pytest.approx(11 * HOUR * 1000, abs=60_000)
    clocks.advance(11 * HOUR)
    lifecycle.tick()
    assert lifecycle.state is VaultState.UNLOCKED
    lifecycle.close()


@pytest.mark.parametrize(("set_back", "opens"), [(4 * 60, True), (HOUR, False)])
def test_t52_a_clock_set_back_makes_the_passphrase_due(
    with_keyring: VaultHome, clocks: FakeClocks, set_back: int, opens: bool
) -> None:
    stand_at_now(clocks)
    clocks.wall_now -= set_back
    lifecycle = timed(with_keyring, clocks)
    lifecycle.start()
    if opens:
        assert lifecycle.state is VaultState.UNLOCKED
    else:
        assert reason_of(lifecycle) == (VaultState.LOCKED, "reauth_required")
    lifecycle.close()


def test_t52_without_its_anchor_the_keyring_alone_opens_nothing(with_keyring: VaultHome) -> None:
    with_keyring.paths.anchor.unlink()
    lifecycle = with_keyring.lifecycle()
    lifecycle.start()
    assert reason_of(lifecycle) == (VaultState.LOCKED, "reauth_required")


def test_the_clock_thread_locks_by_itself(with_keyring: VaultHome, clocks: FakeClocks) -> None:
    stand_at_now(clocks)
    lifecycle = timed(with_keyring, clocks, tick_seconds=0.02)
    lifecycle.start()
    assert lifecycle.state is VaultState.UNLOCKED
    clocks.advance(13 * HOUR)
    wait_for(lambda: lifecycle.state is VaultState.LOCKED)
    lifecycle.close()


def test_a_passphrase_vault_locks_when_idle(plain: VaultHome, clocks: FakeClocks) -> None:
    lifecycle = timed(plain, clocks)
    lifecycle.unlock_with_passphrase(PASSPHRASE)
    for _ in range(3):
        clocks.advance(14 * 60)
        lifecycle.tick()
        _ = lifecycle.store  # somebody works
    clocks.advance(16 * 60)
    lifecycle.tick()
    assert reason_of(lifecycle) == (VaultState.LOCKED, "idle")


def test_a_keyring_vault_does_not_lock_when_idle(
    with_keyring: VaultHome, clocks: FakeClocks
) -> None:
    stand_at_now(clocks)
    lifecycle = timed(with_keyring, clocks)
    lifecycle.unlock_with_passphrase(PASSPHRASE)
    clocks.advance(2 * HOUR)
    lifecycle.tick()
    assert lifecycle.state is VaultState.UNLOCKED
    lifecycle.close()


# --- nobody there, key file -------------------------------------------------------------------


def test_t53_no_keyring_and_no_terminal_stays_up_and_says_so_once(
    plain: VaultHome, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    lifecycle = plain.lifecycle()
    status = lifecycle.start(has_terminal=False)
    assert (status.state, status.reason) == (VaultState.LOCKED, "no_terminal")
    for _ in range(5):
        lifecycle.tick()
        with pytest.raises(VaultLocked) as locked:
            _ = lifecycle.store
    assert locked.value.reason is LockReason.NO_TERMINAL
    assert locked.value.hint
    assert len(caplog.records) == 1


def test_t54_a_key_file_opens_and_is_flagged(tmp_path: Path, clocks: FakeClocks) -> None:
    key = tmp_path / "vault.key"
    create_key_file(key)
    home = VaultHome(tmp_path / "data").create(
        passphrase=None, insecure_key_file=key, with_recovery=False
    )
    lifecycle = timed(home, clocks)
    status = lifecycle.start(insecure_key_file=key)
    assert (status.state, status.insecure) == (VaultState.UNLOCKED, True)
    shown = status.as_json()
    assert shown["insecure"] is True
    assert shown["unlock_source"] == "insecure_key_file"
    assert shown["reauth_due_at"] is None
    clocks.advance(100 * HOUR)
    lifecycle.tick()
    assert lifecycle.state is VaultState.UNLOCKED, "a key file is not subject to the 12 h rule"
    with pytest.raises(PassphraseRequired):
        lifecycle.require_admin()
    lifecycle.change_passphrase(None, PASSPHRASE)
    lifecycle.require_admin()
    with pytest.raises(PassphraseRequired):
        lifecycle.change_passphrase(None, OTHER_PASSPHRASE)
    lifecycle.lock(LockReason.USER)
    assert lifecycle.unlock_with_passphrase(PASSPHRASE).insecure is False
    lifecycle.close()


@pytest.mark.parametrize("fault", ["mode", "link", "length", "missing", "other"])
def test_t54_a_bad_key_file_leaves_the_daemon_up_and_locked(tmp_path: Path, fault: str) -> None:
    key = tmp_path / "vault.key"
    create_key_file(key)
    home = VaultHome(tmp_path / "data").create(
        passphrase=None, insecure_key_file=key, with_recovery=False
    )
    used = tmp_path / "used.key"
    if fault == "link":
        used.symlink_to(key)
    elif fault == "other":
        create_key_file(used)
    elif fault != "missing":
        used.write_bytes(key.read_bytes()[: 31 if fault == "length" else 32])
        used.chmod(0o640 if fault == "mode" else 0o600)
    lifecycle = home.lifecycle()
    lifecycle.start(insecure_key_file=used)
    assert reason_of(lifecycle) == (VaultState.LOCKED, "key_file_refused")
    with pytest.raises(KeyFileRefused):
        _ = lifecycle.store
    assert lifecycle.unlock_with_key_file(key).state is VaultState.UNLOCKED
    lifecycle.close()


# --- what goes wrong while nobody is there ----------------------------------------------------


def refused_by_sqlite(code: int, text: str) -> Exception:
    error = sqlcipher.OperationalError(text)
    error.sqlite_errorcode = code  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "no space"), "read_only"),
        (refused_by_sqlite(sqlite3.SQLITE_FULL, "full"), "read_only"),
        (refused_by_sqlite(sqlite3.SQLITE_BUSY, "locked"), "vault_busy"),
        (refused_by_sqlite(sqlite3.SQLITE_CORRUPT, "malformed"), "needs_repair"),
        (TimeoutError("secret text"), "vault_error"),
        (RuntimeError("secret text"), "vault_error"),
    ],
    ids=["disk-full", "sqlite-full", "busy", "corrupt", "timeout", "bug"],
)
def test_whatever_fails_while_opening_the_daemon_stays_up_and_says_why(
    with_keyring: VaultHome, caplog: pytest.LogCaptureFixture, error: Exception, reason: str
) -> None:
    def migrate(_: object) -> None:
        raise error

    lifecycle = with_keyring.lifecycle(migrate=migrate)
    status = lifecycle.start()
    assert status.reason == reason
    with pytest.raises(VaultError) as refused:
        _ = lifecycle.store
    assert refused.value.code == reason
    assert "secret text" not in refused.value.message
    (record,) = [entry for entry in caplog.records if entry.message == "vault_not_opened"]
    assert record.exc_info is None
    assert "secret text" not in str(vars(record))
    lifecycle.close()


def test_a_vault_that_a_full_disk_kept_shut_opens_by_itself_later(
    with_keyring: VaultHome, clocks: FakeClocks
) -> None:
    stand_at_now(clocks)
    full = True

    def migrate(connection: Any) -> None:
        if full:
            raise OSError(errno.ENOSPC, "no space")
        shipped_migrations()(connection)

    lifecycle = timed(with_keyring, clocks, migrate=migrate)
    lifecycle.start()
    assert reason_of(lifecycle) == (VaultState.LOCKED, "read_only")
    full = False
    lifecycle.tick()
    clocks.advance(31)
    lifecycle.tick()
    assert lifecycle.state is VaultState.UNLOCKED
    lifecycle.close()


# --- listeners --------------------------------------------------------------------------------


class Recorder:
    def __init__(self) -> None:
        self.seen: list[str] = []
        self.fail = False

    def unlocked(self, store: Any) -> None:
        store.read_now(lambda connection: connection.execute("SELECT 1").fetchone())
        self.seen.append("unlocked")

    def locking(self, store: Any) -> None:
        store.read_now(lambda connection: connection.execute("SELECT 1").fetchone())
        self.seen.append("locking")
        if self.fail:
            raise RuntimeError("listener")


def test_listeners_see_an_open_store_both_times(plain: VaultHome) -> None:
    recorder = Recorder()
    with plain.opened(listeners=[recorder]) as lifecycle:
        lifecycle.unlock_with_passphrase(PASSPHRASE)
        assert recorder.seen == ["unlocked"]
        lifecycle.rekey(PASSPHRASE)
        assert recorder.seen == ["unlocked", "locking", "unlocked"]
    assert recorder.seen[3:] == ["locking"]


def test_a_failing_listener_does_not_keep_the_keys_alive(plain: VaultHome) -> None:
    recorder = Recorder()
    recorder.fail = True
    lifecycle = plain.lifecycle(listeners=[recorder])
    lifecycle.unlock_with_passphrase(PASSPHRASE)
    with lifecycle.owner_act() as session:
        keys = session.keys
    lifecycle.lock(LockReason.USER)
    assert not any(keys.luk)
    assert lifecycle.state is VaultState.LOCKED
