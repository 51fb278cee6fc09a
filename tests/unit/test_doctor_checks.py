"""Checks of the doctor that need no daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_manager.cli.doctor_checks import Level, check_swap

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
