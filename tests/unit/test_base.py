"""The ground: identifiers, times, private files, directories."""

from __future__ import annotations

import asyncio
import os
import uuid
from pathlib import Path

import platformdirs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_manager.base import directories as places
from memory_manager.base.errors import InvalidInput
from memory_manager.base.identifiers import (
    memory_id_bytes,
    memory_id_from_bytes,
    new_memory_id,
    uuid7,
)
from memory_manager.base.private_files import (
    UnsafeFile,
    ensure_private_directory,
    read_private,
    write_private,
)
from memory_manager.base.tasks import end_task
from memory_manager.base.times import parse_rfc3339, rfc3339


def test_uuid7_of_the_rfc_9562_example() -> None:
    """RFC 9562 appendix A.6: unix_ts_ms 0x017F22E279B0, rand_a 0xCC3, rand_b 0x18C4DC0C0C07398F."""
    random = ((0xCC3 << 64) | 0x18C4DC0C0C07398F).to_bytes(10, "big")
    assert uuid7(0x017F22E279B0, random) == uuid.UUID("017f22e2-79b0-7cc3-98c4-dc0c0c07398f")


def test_memory_ids_round_trip_and_refuse_other_spellings() -> None:
    memory_id = new_memory_id()
    assert memory_id_from_bytes(memory_id_bytes(memory_id)) == memory_id
    with pytest.raises(ValueError, match="canonical"):
        memory_id_bytes(memory_id.upper())  # type: ignore[arg-type]


@given(st.integers(min_value=-62_135_596_800_000, max_value=253_402_300_799_999))
def test_times_round_trip_to_the_millisecond(unix_ms: int) -> None:
    assert parse_rfc3339(rfc3339(unix_ms), "since") == unix_ms


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-02T03:04:05", "2026-13-01T00:00:00Z"])
def test_a_time_without_offset_or_sense_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_rfc3339(text, "since")
    assert caught.value.field == "since"


@pytest.mark.parametrize(
    "text", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:60Z"]
)
def test_a_moment_that_could_not_be_written_down_again_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_rfc3339(text, "expires_at")


def test_the_last_moment_of_all_is_not_rounded_up_into_year_10000() -> None:
    assert rfc3339(parse_rfc3339("9999-12-31T23:59:59.999999Z", "t")) == "9999-12-31T23:59:59.999Z"


def test_times_with_offsets_mean_the_same_moment() -> None:
    assert parse_rfc3339("2026-01-02T05:34:05+05:30", "t") == parse_rfc3339(
        "2026-01-02t00:04:05z", "t"
    )


def test_private_files_are_born_private_whatever_the_umask(tmp_path: Path) -> None:
    previous = os.umask(0)
    try:
        ensure_private_directory(tmp_path / "above" / "between")
        ensure_private_directory(tmp_path / "ours")
        write_private(tmp_path / "ours/file", b"content")
    finally:
        os.umask(previous)
    for made in ("above", "above/between", "ours"):
        assert (tmp_path / made).stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "ours/file").stat().st_mode & 0o777 == 0o600
    assert read_private(tmp_path / "ours/file", 100) == b"content"
    assert [path.name for path in (tmp_path / "ours").iterdir()] == ["file"]


def test_a_planted_link_is_replaced_and_never_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"untouched")
    (tmp_path / "file").symlink_to(victim)
    write_private(tmp_path / "file", b"ours")
    assert victim.read_bytes() == b"untouched"
    assert not (tmp_path / "file").is_symlink()


@pytest.mark.parametrize("kind", ["link", "fifo", "open", "directory", "large"])
def test_reading_refuses_anything_but_a_private_regular_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "file"
    if kind == "link":
        write_private(tmp_path / "real", b"x")
        path.symlink_to(tmp_path / "real")
    elif kind == "fifo":
        os.mkfifo(path, 0o600)
    elif kind == "directory":
        path.mkdir(mode=0o700)
    else:
        write_private(path, b"x" * (200 if kind == "large" else 1))
        path.chmod(0o644 if kind == "open" else 0o600)
    with pytest.raises(UnsafeFile):
        read_private(path, 100)


def test_a_runtime_folder_that_is_a_link_or_open_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)  # whatever the umask of this process is by now
    (tmp_path / "link").symlink_to(tmp_path / "open")
    for name in ("open", "link"):
        with pytest.raises(UnsafeFile):
            ensure_private_directory(tmp_path / name)


def test_directories_agree_with_platformdirs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("MEMLOCKET_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    ours = places.directories()
    theirs = platformdirs.PlatformDirs("memlocket", appauthor=False)
    assert str(ours.data) == theirs.user_data_dir
    assert str(ours.config) == theirs.user_config_dir
    assert str(ours.log) == theirs.user_log_dir
    assert str(ours.cache) == theirs.user_cache_dir
    assert ours.runtime == ours.data / "run"


def test_one_variable_moves_everything(tmp_path: Path) -> None:
    moved = places.directories({"MEMLOCKET_HOME": str(tmp_path), "XDG_RUNTIME_DIR": "/elsewhere"})
    assert {moved.data, moved.config.parent, moved.log.parent, moved.cache.parent} == {tmp_path}
    assert places.runtime_candidates({"MEMLOCKET_HOME": str(tmp_path)}) == (tmp_path / "run",)


def test_clients_find_the_runtime_folder_without_the_session_variable(tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir(mode=0o700)
    with_session = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "runtime")}
    assert places.runtime_candidates(with_session)[0] == tmp_path / "runtime/memlocket"
    without = places.runtime_candidates({"HOME": str(tmp_path)})
    assert tmp_path / ".local/share/memlocket/run" in without


def test_an_open_session_directory_is_not_trusted(tmp_path: Path) -> None:
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime").chmod(0o755)
    found = places.directories(
        {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "runtime")}
    )
    assert found.runtime == found.data / "run"


async def test_a_task_that_swallows_one_cancellation_is_ended_all_the_same() -> None:
    cancellations = 0

    async def stubborn() -> None:
        nonlocal cancellations
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancellations += 1
                if cancellations > 1:
                    raise

    async with asyncio.TaskGroup() as group:
        task = group.create_task(stubborn())
        await asyncio.sleep(0)
        await end_task(task)
        await end_task(None)
    assert task.cancelled()
    assert cancellations == 2
