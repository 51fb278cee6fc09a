"""Checks of the doctor that need no daemon."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from memory_manager.base.directories import directories
from memory_manager.base.private_files import write_private
from memory_manager.cli.doctor_checks import (
    Level,
    check_permissions,
    check_recovery,
    check_swap,
)

HEADER = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


@pytest.mark.parametrize(
    ("devices", "level"),
    [
        ([], None),
        (["/dev/zram0"], Level.OK),
        (["/dev/dm-1"], Level.OK),
        (["/dev/dm-2"], Level.NOTE),
        (["/dev/sda2"], Level.NOTE),
        (["/dev/dm-1", "/swapfile"], Level.NOTE),
    ],
)
def test_swap_that_is_not_known_to_be_encrypted_is_said(
    tmp_path: Path, devices: list[str], level: Level | None
) -> None:
    swaps = tmp_path / "swaps"
    lines = [f"{device}\tpartition\t1000\t0\t-2\n" for device in devices]
    swaps.write_text(HEADER + "".join(lines))
    for name, uuid in (("dm-1", "CRYPT-PLAIN-swap"), ("dm-2", "LVM-abc")):
        (tmp_path / "block" / name / "dm").mkdir(parents=True)
        (tmp_path / "block" / name / "dm" / "uuid").write_text(uuid)
    found = list(check_swap(swaps, tmp_path / "block"))
    assert [finding.level for finding in found] == ([] if level is None else [level])
    if level is Level.NOTE:
        assert devices[-1] in found[0].text


def test_where_there_is_no_list_of_swaps_nothing_is_said(tmp_path: Path) -> None:
    assert list(check_swap(tmp_path / "none", tmp_path)) == []


def test_files_that_a_running_daemon_replaces_meanwhile_are_no_problem(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    done = threading.Event()

    def replace() -> None:
        while not done.is_set():
            write_private(home / "anchor.bin", b"new", durable=False)

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        for _ in range(200):
            (finding,) = check_permissions(directories({"MEMLOCKET_HOME": str(home)}))
            assert finding.level is Level.OK
    finally:
        done.set()
        writer.join()


@pytest.mark.parametrize(
    ("recovery", "sync", "command"),
    [
        ("confirmed", "ok", None),
        ("unconfirmed", "off", "memlocket recovery new"),
        ("unconfirmed", "ok", "type them once: memlocket sync words"),
        ("none", "offline", "memlocket recovery new && memlocket sync words"),
    ],
)
def test_words_that_are_shared_are_confirmed_not_changed(
    recovery: str, sync: str, command: str | None
) -> None:
    found = list(check_recovery({"recovery": recovery}, {"state": sync}))
    assert [str(finding.hint).endswith(str(command)) for finding in found] == [True] * (
        command is not None
    )
