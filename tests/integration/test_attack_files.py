"""Odd things in place of the vault's files, and odd places for a backup: typed, never a hang."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sandbox_daemon import SandboxDaemon, Wire

PASSPHRASE = "orchard lantern gravel sixteen"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SandboxDaemon:
    """A vault that no daemon runs on."""
    return SandboxDaemon(tmp_path_factory.mktemp("made") / "home").init(PASSPHRASE)


@pytest.fixture
def copy(made: SandboxDaemon, tmp_path: Path) -> Iterator[SandboxDaemon]:
    home = tmp_path / "home"
    shutil.copytree(made.home, home)
    with SandboxDaemon(home, key_file_path=made.key_file) as daemon:
        yield daemon


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir(mode=0o700)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def _dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("nowhere")


@pytest.mark.parametrize(
    ("name", "plant"),
    [
        ("vault.db", _folder),
        ("vault.db", _pipe),
        ("vault.db", _link),
        ("vault.slots", _folder),
        ("vault.slots", _dangling_link),
    ],
)
def test_what_is_no_file_is_named_and_nothing_hangs(
    copy: SandboxDaemon, name: str, plant: Callable[[Path], None]
) -> None:
    plant(copy.home / "vault" / name)
    copy.start()
    vault = copy.status()["vault"]
    assert vault["state"] == "locked"
    with copy.owner() as owner:
        refused = owner.get("/v1/memories")
        ready = owner.get("/ready")
    assert vault["reason"] == "unsafe_file"
    assert (refused.status, refused.code) == (500, "unsafe_file")
    assert str(copy.home).encode() not in refused.body + ready.body
    doctor = copy.cli("doctor", check=False, timeout=60)
    assert doctor.returncode == 7
    assert name in doctor.stdout + doctor.stderr
    again = copy.cli(
        "init",
        "--no-keyring",
        "--no-recovery",
        "--insecure-key-file",
        str(copy.key_file),
        check=False,
    )
    assert again.returncode != 0, "a new vault must not grow over an odd one"


@pytest.fixture
def owner(copy: SandboxDaemon) -> Iterator[Wire]:
    copy.start()
    with copy.owner() as wire:
        assert wire.post("/v1/vault/unlock", {"passphrase": PASSPHRASE}).status == 200
        yield wire


def test_a_backup_goes_only_where_it_can_stand_and_last(
    copy: SandboxDaemon, owner: Wire, tmp_path: Path
) -> None:
    inside = copy.home / "vault" / "backup-mine.db"
    (tmp_path / "alias").symlink_to(copy.home / "vault")
    places = {
        "no such folder": tmp_path / "missing" / "x",
        "NUL": tmp_path / "a\0b",
        "too long": tmp_path / ("n" * 300),
        "cleared at the next unlock": inside,
        "the same by a link": tmp_path / "alias" / "backup-mine.db",
    }
    for what, place in places.items():
        answer = owner.post("/v1/vault/backup", {"path": str(place)})
        assert (answer.status, answer.code) == (422, "backup_refused"), what
    assert not inside.exists()
    good = owner.post("/v1/vault/backup", {"path": str(tmp_path / "good")})
    assert good.status == 200
