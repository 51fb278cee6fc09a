"""A disk that is really full: nothing half written, reads go on, writes come back (vault.md T9)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_disk import small_disk
from small_vault import SmallVault

from memory_manager.vault.errors import ReadOnly

DEADLINE_SECONDS = 20


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 3 MiB."""
    with small_disk(tmp_path / "disk", 3) as folder:
        yield folder


def fill(vault: SmallVault) -> list[str]:
    """Write until the disk refuses; what was acknowledged."""
    stored: list[str] = []
    try:
        for number in range(1_000):
            text = f"{number} " + "full " * 2_000
            vault.remember(text)
            stored.append(text)
    except ReadOnly:
        return stored
    raise AssertionError("the disk was never full")


@pytest.mark.priv
def test_t09_full_disk_loses_nothing_and_recovers(tiny_disk: Path) -> None:
    filler = tiny_disk / "filler"
    filler.write_bytes(bytes(1 << 20))
    failures: list[BaseException] = []
    vault = SmallVault(tiny_disk, on_write_failure=failures.append, retry_seconds=0.2)
    try:
        stored = fill(vault)
        assert stored
        assert vault.store.read_only
        assert len(failures) == 1
        assert sorted(row.content for row in vault.listed()) == sorted(stored)
        filler.unlink()
        deadline = time.monotonic() + DEADLINE_SECONDS
        while vault.store.read_only:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        vault.remember("after")
        assert len(vault.listed()) == len(stored) + 1
    finally:
        vault.close()
    reopened = SmallVault(tiny_disk)
    try:
        assert {row.content for row in reopened.listed()} == {*stored, "after"}
        assert reopened.read(lambda c: c.execute("PRAGMA integrity_check").fetchall()) == [("ok",)]
        assert reopened.read(lambda c: c.execute("PRAGMA cipher_integrity_check").fetchall()) == []
    finally:
        reopened.close()
