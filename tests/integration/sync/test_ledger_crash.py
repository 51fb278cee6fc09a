"""``kill -9`` of a process with sync on: no acknowledged write is unsealed, no seq is missing or
used twice, and a page of another device is there whole or not at all (sync.md T1 to T3).
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ledger_world import LedgerDevice
from sync_load import PAGE_ROWS, founder, members

from memory_manager.base.identifiers import memory_id_from_bytes
from memory_manager.sync.wire.envelope import body_hash
from memory_manager.sync.wire.framing import pack_page
from memory_manager.sync.wire.log import next_global_head, unpack_entry

SUPPORT = Path(__file__).resolve().parents[2] / "support"
START_SECONDS = 30
FOREIGN_RECORDS = 200


def run_and_kill(folder: Path, seed: int, seconds: float) -> list[str]:
    """What the process said; its last line may be torn and was never said."""
    process = subprocess.Popen(
        [sys.executable, str(SUPPORT / "sync_load.py"), str(folder), str(seed)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SUPPORT)},
    )
    assert process.stdout is not None
    with process.stdout as output:
        said = bytearray(output.readline())
        assert said == b"ready\n", "the writer did not start"
        os.set_blocking(output.fileno(), False)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(BlockingIOError):
                said += os.read(output.fileno(), 1 << 20)
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait(START_SECONDS)
        os.set_blocking(output.fileno(), True)
        said += output.read()
    return said.decode().split("\n")[:-1]


def write_pages(folder: Path) -> None:
    """The second device's rows as pages, each in a file."""
    founded, keys, server = members()
    other = LedgerDevice(folder / "other", founded, keys, server)
    try:
        other.turn_on()
        ids = [other.remember(f"foreign {n} " + "text " * (n % 50)) for n in range(FOREIGN_RECORDS)]
        for number, memory in enumerate(ids):
            other.update(memory, content=f"foreign {number} again")
        other.push()
    finally:
        other.close()
    for number in range(2 * FOREIGN_RECORDS // PAGE_ROWS):
        page = server.page(number * PAGE_ROWS, PAGE_ROWS)
        (folder / f"page-{number}").write_bytes(pack_page(page))


def check(device: LedgerDevice, acknowledged: dict[str, int]) -> None:
    read = device.read
    assert read(lambda c: c.execute("PRAGMA integrity_check").fetchall()) == [("ok",)]
    found = device.state
    entries = read(
        lambda c: c.execute(
            "SELECT e.entry, s.body, s.dead FROM entry e LEFT JOIN sealed s"
            " ON s.entry_rowid = e.rowid WHERE e.device = ? ORDER BY e.seq",
            (found.device,),
        ).fetchall()
    )
    assert len(entries) == found.own_seq
    previous = bytes(32)
    for number, (raw, body, _) in enumerate(entries, 1):
        entry = unpack_entry(raw)
        assert (entry.seq, entry.previous) == (number, previous)
        assert body_hash(body) == entry.body_hash  # nothing was pushed: all is still here
        previous = entry.head
    assert previous == found.own_head
    revisions = "SELECT count(*) FROM revision WHERE device = ?"
    assert read(lambda c: c.execute(revisions, (found.device,)).fetchone()) == (found.own_seq,)
    unsealed = (
        "SELECT count(*) FROM record r LEFT JOIN sync_record s ON s.id = r.id"
        " WHERE s.version IS NULL OR s.version <> r.version"
    )
    assert read(lambda c: c.execute(unsealed).fetchone()) == (0,)
    forgotten = {
        memory_id_from_bytes(record_id)
        for (record_id,) in read(
            lambda c: c.execute(
                "SELECT d.id FROM destroyed d JOIN revision v ON v.id = d.id"
                " WHERE v.deletion = 'forget'"
            ).fetchall()
        )
    }
    for memory, version in acknowledged.items():
        row = device.vault.row(memory, include_deleted=True)
        # the last act before a kill may be durable and not acknowledged
        assert memory in forgotten if row is None else row.version >= version
    check_others(device)


def check_others(device: LedgerDevice) -> None:
    """Foreign rows are numbered without a gap, G follows from them, and each is applied."""
    found = device.state
    rows = device.read(
        lambda c: c.execute(
            "SELECT e.n, e.entry, e.g, v.id IS NOT NULL FROM entry e LEFT JOIN revision v"
            " ON v.device = e.device AND v.seq = e.seq WHERE e.n IS NOT NULL ORDER BY e.n"
        ).fetchall()
    )
    assert [n for n, *_ in rows] == list(range(1, found.n + 1))
    assert found.n % PAGE_ROWS == 0
    g = bytes(32)
    for _, raw, stored, applied in rows:
        entry = unpack_entry(raw)
        g = next_global_head(g, entry.device, entry.head)
        assert (stored, applied) == (g, 1)
    assert found.g == g
    live = sum(row.content.startswith("foreign") for row in device.vault.listed())
    assert live == min(found.n, FOREIGN_RECORDS)


@pytest.mark.timeout(600)
def test_kill_nine_neither_forks_nor_forgets(tmp_path: Path, thorough: bool) -> None:
    rng = random.Random(5)
    device = founder(tmp_path)
    device.turn_on()
    write_pages(tmp_path)
    device.close()
    acknowledged: dict[str, int] = {}
    pages = 0
    for seed in range(60):
        if not thorough and seed >= 3 and acknowledged and pages:  # a busy machine may need more
            break
        for line in run_and_kill(tmp_path, seed, rng.uniform(0.05, 0.6)):
            kind, *rest = line.split(" ")
            if kind == "ack":
                acknowledged[rest[0]] = max(acknowledged.get(rest[0], 0), int(rest[1]))
            elif kind == "page":
                pages = max(pages, int(rest[0]))
        device = founder(tmp_path)
        try:
            check(device, acknowledged)
            assert device.state.n >= pages
        finally:
            device.close()
    assert acknowledged
    assert pages
