"""Finding the daemon by its discovery file, and refusing what is not private."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from memory_manager.base.private_files import UnsafeFile
from memory_manager.client.discovery import find_daemon, owner_token
from memory_manager.client.errors import ClientTooOld, DaemonNotRunning

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX system: file modes")


def write_discovery(runtime: Path, **changed: object) -> None:
    runtime.mkdir(mode=0o700, parents=True, exist_ok=True)
    document: dict[str, object] = {
        "schema": 1,
        "daemon_id": "0192f0c1",
        "pid": 4242,
        "started_at": "2026-11-30T06:32:00Z",
        "version": "0.1.0",
        "api": ["v1"],
        "socket": str(runtime / "daemon.sock"),
        "url": "http://127.0.0.1:41234",
        "runtime_dir": str(runtime),
        "home": None,
        "a key of the future": [],
        **changed,
    }
    path = runtime / "daemon.json"
    path.write_text(json.dumps(document))
    path.chmod(0o600)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def environment(home: Path) -> dict[str, str]:
    return {"MEMLOCKET_HOME": str(home)}


def test_finds_the_daemon_of_the_home(home: Path) -> None:
    write_discovery(home / "run")
    found = find_daemon(environment(home))
    assert found.pid == 4242
    assert found.socket == home / "run" / "daemon.sock"
    assert found.url == "http://127.0.0.1:41234"


def test_no_file_means_not_running(home: Path) -> None:
    with pytest.raises(DaemonNotRunning) as caught:
        find_daemon(environment(home))
    assert caught.value.hint == "Start it: memlocket up"


def test_a_file_that_was_copied_with_its_folder_is_not_of_this_home(
    home: Path, tmp_path: Path
) -> None:
    write_discovery(home / "run")
    info = (home / "run").stat()
    write_discovery(home / "run", folder=f"{info.st_dev:x}:{info.st_ino:x}")
    copy = tmp_path / "copy"
    shutil.copytree(home, copy)
    assert find_daemon(environment(home)).pid == 4242
    with pytest.raises(DaemonNotRunning):
        find_daemon(environment(copy))
    link = tmp_path / "link"
    link.symlink_to(home)
    assert find_daemon(environment(link)).pid == 4242


def test_runtime_of_xdg_comes_before_the_data_folder(home: Path, tmp_path: Path) -> None:
    xdg = tmp_path / "xdg"
    xdg.mkdir(mode=0o700)
    environ = {"HOME": str(home), "XDG_RUNTIME_DIR": str(xdg)}
    write_discovery(home / ".local/share/memlocket/run", pid=1)
    assert find_daemon(environ).pid == 1
    write_discovery(xdg / "memlocket", pid=2)
    assert find_daemon(environ).pid == 2


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o707])
def test_runtime_folder_open_to_others_is_refused(home: Path, mode: int) -> None:
    write_discovery(home / "run")
    (home / "run").chmod(mode)
    with pytest.raises(UnsafeFile):
        find_daemon(environment(home))


def test_linked_discovery_file_is_refused(home: Path, tmp_path: Path) -> None:
    write_discovery(tmp_path / "elsewhere")
    (home / "run").mkdir(mode=0o700)
    (home / "run" / "daemon.json").symlink_to(tmp_path / "elsewhere" / "daemon.json")
    with pytest.raises(UnsafeFile):
        find_daemon(environment(home))


def test_fifo_in_its_place_does_not_hang(home: Path) -> None:
    (home / "run").mkdir(mode=0o700)
    os.mkfifo(home / "run" / "daemon.json", 0o600)
    with pytest.raises(UnsafeFile):
        find_daemon(environment(home))


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "[" * 5000, '{"schema":1}', '{"schema":1,"pid":"x"}']
)
def test_torn_file_is_refused(home: Path, text: str) -> None:
    write_discovery(home / "run")
    (home / "run" / "daemon.json").write_text(text)
    with pytest.raises((UnsafeFile, ClientTooOld)):
        find_daemon(environment(home))


def test_unknown_schema_says_client_too_old(home: Path) -> None:
    write_discovery(home / "run", schema=2)
    with pytest.raises(ClientTooOld):
        find_daemon(environment(home))


def test_owner_token_comes_from_the_runtime_folder(home: Path) -> None:
    write_discovery(home / "run")
    address = find_daemon(environment(home))
    assert owner_token(address) is None
    token = home / "run" / "token"
    token.write_text("made-up\n")
    token.chmod(0o600)
    assert owner_token(address) == "made-up"
    token.chmod(0o644)
    with pytest.raises(UnsafeFile):
        owner_token(address)
