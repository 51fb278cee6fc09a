"""T9 for the whole vault: a really full disk at commit, anchor and slot rewrite, and its end."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_disk import small_disk
from vault_harness import (
    OTHER_PASSPHRASE,
    PASSPHRASE,
    FakeClocks,
    VaultHome,
    fill,
    notes,
    wait_for,
    write_note,
)

from memory_manager.vault.errors import ReadOnly
from memory_manager.vault.lifecycle import VaultLifecycle
from memory_manager.vault.status import VaultState

pytestmark = pytest.mark.priv


@pytest.fixture
def home(tmp_path: Path) -> Iterator[VaultHome]:
    with small_disk(tmp_path / "disk", 8) as disk:
        yield VaultHome(disk / "data").create(with_recovery=False)


def disk_of(home: VaultHome) -> Path:
    return home.root.parent


def write_until_refused(lifecycle: VaultLifecycle) -> list[str]:
    acknowledged: list[str] = []
    for number in range(2_000):
        text = f"{number:05}" + "x" * 3_000
        try:
            write_note(lifecycle, text)
        except ReadOnly:
            return acknowledged
        acknowledged.append(text)
    raise AssertionError("the disk was never full")


def test_t09_full_at_commit_goes_read_only_frees_the_ballast_and_recovers(
    home: VaultHome,
) -> None:
    with home.opened(tick_seconds=0.05) as lifecycle:
        lifecycle.start()
        acknowledged = write_until_refused(lifecycle)
        assert acknowledged
        wait_for(lambda: not home.paths.ballast.exists())
        assert notes(lifecycle) == acknowledged
        fill(disk_of(home), leave_bytes=0)
        acknowledged += write_until_refused(lifecycle)
        assert lifecycle.state is VaultState.READ_ONLY
        assert lifecycle.status().reason == "read_only"
        (disk_of(home) / "filler").unlink()

        def writes_again() -> bool:
            try:
                write_note(lifecycle, "again")
            except ReadOnly:
                return False
            return True

        wait_for(writes_again)
        wait_for(lambda: lifecycle.state is VaultState.UNLOCKED)
        assert lifecycle.status().reason is None
    with home.opened() as lifecycle:
        assert lifecycle.state is VaultState.UNLOCKED
        assert notes(lifecycle) == sorted([*acknowledged, "again"])


def test_t09_the_last_page_taken_by_somebody_else(home: VaultHome) -> None:
    """Commits, WAL growth and anchor meet a disk without a single free page."""
    with home.opened() as lifecycle:
        write_note(lifecycle, "a")
        home.paths.ballast.unlink()
        fill(disk_of(home), leave_bytes=20_000)
        (disk_of(home) / "second").write_bytes(b"")
        with contextlib.suppress(OSError), open(disk_of(home) / "second", "ab") as second:
            while True:
                second.write(bytes(4096))
        write_until_refused(lifecycle)
        kept = notes(lifecycle)
        assert lifecycle.state is VaultState.READ_ONLY
        (disk_of(home) / "second").unlink()
        (disk_of(home) / "filler").unlink()
    with home.opened() as lifecycle:
        assert lifecycle.state is VaultState.UNLOCKED
        assert notes(lifecycle) == kept


def test_t09_full_at_a_slot_rewrite_keeps_the_old_passphrase(home: VaultHome) -> None:
    before = home.paths.slots.read_bytes()
    lifecycle = home.lifecycle()
    fill(disk_of(home), leave_bytes=0)
    with pytest.raises(ReadOnly):
        lifecycle.change_passphrase(PASSPHRASE, OTHER_PASSPHRASE)
    assert home.paths.slots.read_bytes() == before
    assert not [path for path in home.directory.iterdir() if path.name.endswith(".tmp")]
    (disk_of(home) / "filler").unlink()
    lifecycle.change_passphrase(PASSPHRASE, OTHER_PASSPHRASE)
    lifecycle.unlock_with_passphrase(OTHER_PASSPHRASE)
    lifecycle.close()


def test_t09_a_full_disk_does_not_stop_unlocking_and_reading(home: VaultHome) -> None:
    with home.opened() as lifecycle:
        write_note(lifecycle, "a")
    fill(disk_of(home), leave_bytes=0)
    lifecycle = home.lifecycle()
    lifecycle.unlock_with_passphrase(PASSPHRASE)
    assert notes(lifecycle) == ["a"]
    write_until_refused(lifecycle)
    assert lifecycle.state is VaultState.READ_ONLY
    kept = notes(lifecycle)
    (disk_of(home) / "filler").unlink()
    lifecycle.close()
    with home.opened() as lifecycle:
        assert notes(lifecycle) == kept


def remount(disk: Path, mode: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{mode}", str(disk)], check=True, timeout=30)


def test_t10_a_read_only_disk_is_readable_and_recovers(home: VaultHome) -> None:
    with home.opened() as lifecycle:
        write_note(lifecycle, "a")
    remount(disk_of(home), "ro")
    try:
        clocks = FakeClocks()
        lifecycle = home.lifecycle(clock=clocks.monotonic)
        lifecycle.unlock_with_passphrase(PASSPHRASE)
        assert lifecycle.status().reason == "read_only"
        assert lifecycle.state is VaultState.READ_ONLY
        assert notes(lifecycle) == ["a"]
        with pytest.raises(ReadOnly):
            write_note(lifecycle, "b")
        clocks.advance(31)
        lifecycle.tick()
        assert lifecycle.state is VaultState.READ_ONLY
    finally:
        remount(disk_of(home), "rw")
    clocks.advance(31)
    lifecycle.tick()
    assert lifecycle.state is VaultState.UNLOCKED
    write_note(lifecycle, "c")
    assert notes(lifecycle) == ["a", "c"]
    lifecycle.close()


@pytest.mark.parametrize(
    ("leave_bytes", "refusal"),
    [(2_500_000, OSError), (1_000_000, ReadOnly)],
    ids=["for its ballast", "for the database"],
)
def test_setup_on_a_full_disk_leaves_nothing(
    tmp_path: Path, leave_bytes: int, refusal: type[Exception]
) -> None:
    with small_disk(tmp_path / "disk", 8) as disk:
        fill(disk, leave_bytes=leave_bytes)
        home = VaultHome(disk / "data")
        with pytest.raises(refusal, match=r"space|full"):
            home.create(with_recovery=False)
        assert not home.directory.exists()
        assert list(home.root.iterdir()) == []
