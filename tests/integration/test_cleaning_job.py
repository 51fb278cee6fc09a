"""The walk over stored text as the daemon runs it: one at a time, and through a full disk."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up_token import token_of
from older_rules import older_rules
from sandbox_daemon import wait_until
from small_disk import small_disk
from small_vault import SmallVault, small_vault

from memory_manager.service.cleaning_job import CleaningJob

DEADLINE_SECONDS = 20
ROWS = 12


def fill(vault: SmallVault) -> None:
    with older_rules():
        for number in range(ROWS):
            vault.remember(f"use {token_of(number)} " + "long " * 2_000)


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[SmallVault]:
    with small_vault(tmp_path) as opened:
        fill(opened)
        yield opened


def walks() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def ended(job: CleaningJob) -> dict[str, object]:
    await until(lambda: job.status()["state"] != "running")
    return job.status()


async def until(condition: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_until, condition, DEADLINE_SECONDS, "it is so")


async def test_requests_at_the_same_time_begin_one_walk(vault: SmallVault) -> None:
    job = CleaningJob(vault.memories)
    await asyncio.gather(
        job.begin_if_due(vault.store), job.begin(vault.store), job.begin(vault.store)
    )
    assert len(walks()) == 1
    await job.close()
    assert walks() == []
    await job.begin(vault.store)
    status = await ended(job)
    assert (status["state"], status["looked"], status["failed"]) == ("done", ROWS, 0)
    assert not any(token_of(number).encode() in vault.dump() for number in range(ROWS))


@pytest.mark.priv
async def test_it_goes_on_by_itself_when_a_full_disk_has_room_again(tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "disk", 8) as folder,
        small_vault(folder, retry_seconds=0.1) as vault,
    ):
        fill(vault)
        filler = folder / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as out:
            while out.write(bytes(4096)):
                pass
        job = CleaningJob(vault.memories)
        await job.begin_if_due(vault.store)
        status = await ended(job)
        assert (status["state"], status["error"]) == ("waiting", "read_only")
        filler.unlink()
        await until(lambda: not vault.store.read_only)
        await job.begin_if_due(vault.store)
        status = await ended(job)
        assert (status["state"], status["cleaned"], status["error"]) == ("done", ROWS, None)
        await job.close()
        assert not any(token_of(number).encode() in vault.dump() for number in range(ROWS))
