"""Killed server processes, and several at once: what was acknowledged is there, in one order."""

from __future__ import annotations

import itertools
import random
import subprocess
from pathlib import Path

import pytest
from storage_child import Acknowledged, let_go, read_line, start_child
from stored_vault import StoredVault, head_of, opener

pytestmark = pytest.mark.timeout(900)  # with the full counts

DEVICES = 4
END_SECONDS = 50.0


def read_all(child: subprocess.Popen[str], stop_after: int | None = None) -> list[Acknowledged]:
    """Everything the child said; after ``stop_after`` lines it is killed."""
    assert child.stdout is not None
    lines: list[str] = []
    with child.stdout:
        for line in child.stdout:
            lines.append(line)
            if len(lines) == stop_after:
                child.kill()
    child.wait(END_SECONDS)
    return [read_line(line) for line in lines if line.endswith("\n")]


def place_of(request: pytest.FixtureRequest, kind: str, tmp_path: Path) -> str:
    if kind == "sqlite":
        return str(tmp_path / "server")
    return str(request.getfixturevalue("postgres_url"))


async def check(kind: str, place: str, vault: StoredVault, said: list[Acknowledged]) -> int:
    """Every acknowledged push is in the stored log where it was said to be; the log's length."""
    async with opener(kind, Path(place), place)() as storage:
        page = await vault.pull(storage)
        devices = {device.id: device for device in await storage.devices(vault.id)}
    rows = page.rows
    assert [row.n for row in rows] == list(range(1, len(rows) + 1))
    assert page.tip == head_of(rows)
    for device in vault.devices:
        own = [row.entry for row in rows if row.entry.device == device.keys.id]
        assert [entry.seq for entry in own] == list(range(1, len(own) + 1))
        assert devices[device.keys.id].seq == len(own)
    for each in said:
        row = rows[each.n - 1]
        assert (row.entry.device, row.entry.seq) == (vault.devices[each.who].keys.id, each.seq)
        assert each.g == head_of(rows[: each.n]).g
    return len(rows)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_killed_server_loses_no_acknowledged_push(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, thorough: bool
) -> None:
    seed, chance = f"killed {kind}", random.Random(kind)
    place = place_of(request, kind, tmp_path)
    vault = StoredVault(seed, DEVICES)
    async with opener(kind, Path(place), place)() as storage:
        await vault.create(storage)
    said: list[Acknowledged] = []
    for _ in range(50 if thorough else 2):
        child = start_child(kind, place, seed, DEVICES, range(DEVICES), 1_000)
        let_go([child])
        round_said = read_all(child, chance.randrange(5, 60))
        assert child.returncode == -9  # in the middle of its pushes
        said += round_said
        assert await check(kind, place, vault, said) >= said[-1].n


async def test_several_servers_on_one_database_make_one_log(
    request: pytest.FixtureRequest, tmp_path: Path, thorough: bool
) -> None:
    place = place_of(request, "postgres", tmp_path)
    vault = StoredVault("several", DEVICES)
    async with opener("postgres", Path(place), place)() as storage:
        await vault.create(storage)
    batches = 500 if thorough else 40
    children = [
        start_child("postgres", place, "several", DEVICES, pushing, batches)
        for pushing in ((0, 1), (2, 3))
    ]
    let_go(children)
    said = [each for child in children for each in read_all(child)]
    assert [child.returncode for child in children] == [0, 0]
    assert len(said) == DEVICES * batches
    assert await check("postgres", place, vault, said) >= len(said)
    # they really took turns
    order = [each.who // 2 for each in sorted(said, key=lambda each: each.n)]
    assert sum(first != second for first, second in itertools.pairwise(order)) > 5
