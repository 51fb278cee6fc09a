"""What the owner reads of a stop: who changed what, which key was seen, what to do next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from memory_manager.cli import sync_text
from memory_manager.sync.engine.advice import advice, finding_of
from memory_manager.sync.engine.connection import base_url
from memory_manager.sync.engine.errors import CaFileRefused, SyncAddressRefused, SyncServerRefused
from memory_manager.sync.engine.rosters import Change
from memory_manager.sync.engine.transport import Transport
from memory_manager.sync.errors import ServerKeyChanged
from memory_manager.sync.wire.roster import Operation

DESK, LAPTOP, PAPER = bytes([1] * 16), bytes([2] * 16), bytes([3] * 16)


def stopped(**alarm: Any) -> str:
    sync = {
        "state": "stopped",
        "device": DESK.hex(),
        "devices": [{"id": DESK.hex(), "name": "desk"}, {"id": LAPTOP.hex(), "name": "laptop"}],
        "alarms": [{"advice": "An advice.", **alarm}],
    }
    return sync_text.status({"sync": sync})


def test_a_changed_device_list_says_who_did_what_to_whom() -> None:
    changes = (
        Change(DESK, 1, Operation.REVOKE, LAPTOP),
        Change(PAPER, 2, Operation.ADD, bytes([9] * 16)),
    )
    said = "; ".join(change.said({PAPER}) for change in changes)
    shown = stopped(code="ROSTER_CHANGED", changes=said)
    assert "revoked: laptop (02020202) by desk (01010101)" in shown
    assert "added: 09090909 by the recovery words" in shown


def test_a_revoked_device_is_told_that_it_is_the_one() -> None:
    assert "Next: memlocket sync leave" in stopped(code="REVOKED_DEVICE", device=DESK.hex())
    assert "Next: memlocket sync devices" in stopped(code="REVOKED_DEVICE", device=LAPTOP.hex())


def test_another_server_key_shows_both_rows_of_words() -> None:
    finding = finding_of(ServerKeyChanged(("one", "two"), ("three", "four")))
    shown = stopped(code=finding.code, **finding.detail)
    assert "expected: one two" in shown
    assert "seen:     three four" in shown


def test_a_restored_vault_joins_first_and_names_its_old_entry() -> None:
    shown = stopped(code="ENROL_AGAIN", device=DESK.hex())
    assert shown.index("sync join URL") < shown.index("sync renew")
    assert "sync revoke 01010101" in shown


def test_a_server_that_does_not_know_the_device_may_have_been_set_back() -> None:
    finding = finding_of(SyncServerRefused("LOGIN", 401))
    assert "set back" in advice(finding.code, finding.detail["answer"])
    assert "memlocket server token" in str(SyncServerRefused("REGISTRATION", 403).hint)


@pytest.mark.parametrize("path", ["/sub", "/?q=1"])
def test_an_address_has_no_path(path: str) -> None:
    with pytest.raises(SyncAddressRefused, match="no path"):
        base_url("https://localhost:8543" + path)


@pytest.mark.parametrize("content", [None, b"-----BEGIN PRIVATE KEY-----\n"])
def test_a_certificate_file_that_is_none_is_refused_as_one(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "chain.pem"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CaFileRefused):
        Transport("https://127.0.0.1:1", ca_file=str(path))


def test_a_reader_that_is_gone_costs_no_trace(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "memory_manager.cli.main", "--json", "sync", "status"]
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        command, stdout=writer, stderr=subprocess.PIPE, env=environment, timeout=60, text=True
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (6, "")
