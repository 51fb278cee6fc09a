"""``kill -9`` of a process that writes through the store: nothing acknowledged is lost, nothing is
half there, and the generation never goes back (vault.md 9.1 and T1).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_vault import SmallVault
from store_load import digest

from memory_manager.vault.filters import RowFilter
from memory_manager.vault.rows import RowStatus

SUPPORT = Path(__file__).resolve().parent.parent / "support"
EVERYTHING = RowFilter(include_deleted=True, include_hidden=True)
START_SECONDS = 30


def start(folder: Path, seed: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(SUPPORT / "store_load.py"), str(folder), str(seed)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SUPPORT)},
    )


def kill_after(process: subprocess.Popen[bytes], seconds: float, at_least: int = 0) -> list[str]:
    """Everything the process said until it was killed, after so many acknowledged writes; a torn
    last line was never said.
    """
    assert process.stdout is not None
    first = process.stdout.readline()
    assert first, "the writer did not start"
    said = bytearray(first)
    while b"ready\n" not in said:
        line = process.stdout.readline()
        assert line, "the writer did not start"
        said += line
    end = time.monotonic() + seconds
    descriptor = process.stdout.fileno()
    os.set_blocking(descriptor, False)
    while time.monotonic() < end or said.count(b"\nack ") < at_least:
        # The pipe is emptied meanwhile, so that a full one does not stop the load.
        said += _available(descriptor)
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait(START_SECONDS)
    os.set_blocking(descriptor, True)
    said += process.stdout.read()
    process.stdout.close()
    return said.decode().split("\n")[:-1]


def _available(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 20)
    except BlockingIOError:
        return b""


class Ledger:
    """What the killed processes had been told is durable."""

    def __init__(self) -> None:
        self.versions: dict[tuple[str, int], str] = {}
        self.generation = 0

    def add(self, lines: list[str]) -> None:
        for line in lines:
            kind, *rest = line.split(" ")
            if kind == "ack":
                self.versions[rest[0], int(rest[1])] = rest[2]
            elif kind == "generation":
                self.generation = max(self.generation, int(rest[0]))

    def check(self, vault: SmallVault) -> None:
        assert vault.read(lambda c: c.execute("PRAGMA integrity_check").fetchall()) == [("ok",)]
        assert vault.store.generation() >= self.generation
        rows = vault.listed(EVERYTHING)
        every: dict[tuple[str, int], str | None] = {}
        for row in rows:
            history = vault.versions(row.id)
            assert [entry.version for entry in history] == list(range(1, row.version + 1))
            assert history[-1].content == row.content
            for entry in history:
                every[row.id, entry.version] = entry.content
        for (memory_id, version), expected in self.versions.items():
            assert (memory_id, version) in every, "an acknowledged write is lost"
            content = every[memory_id, version]
            # A later redaction may have blanked it; anything else must be what was acknowledged.
            assert content is None or digest(content) == expected
        audited = vault.read(lambda c: c.execute("SELECT count(*) FROM audit").fetchone())
        assert audited == (len(every),)
        live = {row.rowid: digest(row.content) for row in rows if row.status != RowStatus.DELETED}
        shadow = vault.read(lambda c: dict(c.execute("SELECT * FROM shadow").fetchall()))
        assert shadow == live
        permits = vault.read(lambda c: c.execute("SELECT count(*) FROM version_erasure").fetchone())
        assert permits == (0,)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_f01_kill_nine_loses_no_acknowledged_write(tmp_path: Path, thorough: bool) -> None:
    rng = random.Random(20260101)
    ledger = Ledger()
    for kill in range(80 if thorough else 20):
        folder = tmp_path / str(kill // 20)  # a fresh vault now and then keeps the check short
        if kill % 20 == 0:
            folder.mkdir()
            ledger = Ledger()
        ledger.add(kill_after(start(folder, kill), rng.uniform(0.005, 0.25)))
        vault = SmallVault(folder)
        try:
            ledger.check(vault)
        finally:
            vault.close()
        if kill % 20 == 19:
            assert len(ledger.versions) > 20, "the load hardly wrote anything"


def test_check_notices_a_lost_write(tmp_path: Path) -> None:
    ledger = Ledger()
    ledger.add(kill_after(start(tmp_path, 1), 1.0, at_least=25))
    assert len(ledger.versions) > 20
    vault = SmallVault(tmp_path)
    lost = next(iter(ledger.versions))
    ledger.versions[lost[0], 999] = "0" * 16
    try:
        with pytest.raises(AssertionError, match="lost"):
            ledger.check(vault)
    finally:
        vault.close()
