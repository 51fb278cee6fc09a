"""T54, the file itself: four kinds of refusal, two accepted forms."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memory_manager.vault.errors import KeyFileRefused
from memory_manager.vault.key_file import create_key_file, read_key_file


def private(path: Path, data: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


def test_a_created_file_is_private_and_readable(tmp_path: Path) -> None:
    path = tmp_path / "vault.key"
    create_key_file(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(read_key_file(path)) == 32
    other = tmp_path / "other.key"
    create_key_file(other)
    assert read_key_file(other) != read_key_file(path)


def test_a_file_is_never_replaced(tmp_path: Path) -> None:
    path = private(tmp_path / "vault.key", b"k" * 32)
    with pytest.raises(KeyFileRefused):
        create_key_file(path)
    assert path.read_bytes() == b"k" * 32


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    link = tmp_path / "vault.key"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KeyFileRefused):
        create_key_file(link)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_hexadecimal_form(tmp_path: Path, end: bytes) -> None:
    key = bytes(range(32))
    path = private(tmp_path / "vault.key", key.hex().upper().encode() + end)
    assert read_key_file(path) == key


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(KeyFileRefused) as refused:
        read_key_file(private(tmp_path / "vault.key", b"k" * 32, mode))
    assert "chmod" in str(refused.value.hint)


def test_a_link_is_refused(tmp_path: Path) -> None:
    target = private(tmp_path / "target", b"k" * 32)
    link = tmp_path / "vault.key"
    link.symlink_to(target)
    with pytest.raises(KeyFileRefused):
        read_key_file(link)


@pytest.mark.parametrize(
    "data",
    [b"", b"k" * 31, b"k" * 33, b"k" * 64, b"ab" * 31, b"ab" * 32 + b"\n\n", b"k" * 100_000],
    ids=len,
)
def test_other_lengths_are_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(KeyFileRefused):
        read_key_file(private(tmp_path / "vault.key", data))


def test_a_pipe_a_folder_and_nothing_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(mode=0o700)
    for name in ("pipe", "folder", "nothing"):
        with pytest.raises(KeyFileRefused):
            read_key_file(tmp_path / name)


@pytest.mark.priv
def test_a_foreign_owner_is_refused(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("run as root: gives a file away")
    path = private(tmp_path / "vault.key", b"k" * 32)
    os.chown(path, 65_534, 65_534)
    with pytest.raises(KeyFileRefused):
        read_key_file(path)
