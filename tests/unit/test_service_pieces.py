"""Lock, discovery file, crash history, owner token, notifier, events."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from memory_manager.auth.tokens import is_token, token_digest
from memory_manager.base.private_files import UnsafeFile
from memory_manager.service import crash, discovery
from memory_manager.service.events import CredentialsChanged, EventBus, StopRequested
from memory_manager.service.instance_lock import InstanceLock
from memory_manager.service.notify import ServiceNotifier
from memory_manager.service.owner_token import OwnerToken
from memory_manager.vault.errors import AlreadyRunning


@pytest.fixture
def private(tmp_path: Path) -> Path:
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    return folder


def test_the_lock_is_exclusive_and_let_go(private: Path) -> None:
    with InstanceLock(private):
        assert (private / "vault.lock").stat().st_mode & 0o777 == 0o600
        with pytest.raises(AlreadyRunning):
            InstanceLock(private).acquire()
    with InstanceLock(private):
        pass


def test_a_child_does_not_keep_the_lock(private: Path) -> None:
    lock = InstanceLock(private)
    lock.acquire()
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        close_fds=False,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()  # its exec is over
        lock.release()
        with InstanceLock(private):
            pass


def test_planted_lock_files_are_refused(private: Path, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("x")
    (private / "vault.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(UnsafeFile):
        InstanceLock(private).acquire()
    (private / "vault.lock").unlink()
    os.mkfifo(private / "vault.lock")
    with pytest.raises(UnsafeFile):
        InstanceLock(private).acquire()


def _discovery(folder: Path, daemon_id: str = "d1") -> discovery.Discovery:
    return discovery.Discovery(
        daemon_id=daemon_id,
        pid=4242,
        started_at="2026-11-30T06:32:00Z",
        version="0.1.0",
        socket=folder / "daemon.sock",
        url="http://127.0.0.1:41234",
        runtime_dir=folder,
        home=None,
    )


def test_the_discovery_file_is_written_and_withdrawn_everywhere(tmp_path: Path) -> None:
    places = (tmp_path / "a", tmp_path / "b")
    for place in places:
        place.mkdir(mode=0o700)
    discovery.publish(_discovery(places[0]), places)
    for place in places:
        found = json.loads((place / "daemon.json").read_text())
        assert found["schema"] == 1
        assert found["home"] is None
        assert (place / "daemon.json").stat().st_mode & 0o777 == 0o600
        assert "41234" in (discovery.describe_running(place) or "")
    discovery.withdraw("d1", places)
    assert not any((place / "daemon.json").exists() for place in places)


def test_only_our_own_discovery_file_is_withdrawn(private: Path) -> None:
    discovery.publish(_discovery(private, "of-another"), (private,))
    discovery.withdraw("ours", (private,))
    assert (private / "daemon.json").exists()


def test_a_copied_discovery_file_says_nothing_of_its_new_folder(
    private: Path, tmp_path: Path
) -> None:
    discovery.publish(_discovery(private), (private,))
    copy = tmp_path / "copy"
    shutil.copytree(private, copy)
    assert discovery.left_behind_socket(private) == private / "daemon.sock"
    assert discovery.left_behind_socket(copy) is None
    assert discovery.describe_running(copy) is None
    (tmp_path / "link").symlink_to(private)
    assert discovery.describe_running(tmp_path / "link") is not None


DAMAGED = [b"", b"[]", b"{", b"[" * 4_000, b"\xff", b'{"socket": 7}']


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_discovery_file_says_nothing(private: Path, content: bytes) -> None:
    (private / "daemon.json").write_bytes(content)
    (private / "daemon.json").chmod(0o600)
    assert discovery.describe_running(private) is None
    discovery.withdraw("ours", (private,))


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_crash_marker_counts_as_no_crash(private: Path, content: bytes) -> None:
    (private / crash.MARKER_NAME).write_bytes(content)
    (private / crash.MARKER_NAME).chmod(0o600)
    assert crash.read_history(private) == crash.NO_CRASHES


def test_crashes_are_counted_without_their_text(private: Path) -> None:
    crash.record_crash(private, "ValueError", "0.1.0")
    history = crash.read_history(private)
    assert (history.error, history.version, history.unread) == ("ValueError", "0.1.0", True)
    assert len(history.times_ms) == 1
    assert (private / crash.MARKER_NAME).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("times", "now", "expected"),
    [
        ((), 0, False),
        ((0, 1_000), 2_000, False),
        ((0, 1_000, 2_000), 3_000, True),
        ((0, 1_000, 300_000), 300_001, True),
        ((0, 1_000, 300_001), 300_002, False),
        ((0, 1_000, 2_000), 602_000, True),
        ((0, 1_000, 2_000), 602_001, False),
        ((0, 900_000, 900_001, 900_002), 900_003, True),
    ],
)
def test_three_crashes_in_five_minutes_want_safe_mode(
    times: tuple[int, ...], now: int, expected: bool
) -> None:
    assert crash.CrashHistory(times).wants_safe_mode(now) is expected


def test_what_a_fatal_signal_left_counts_as_a_crash(private: Path) -> None:
    (private / crash.FAULT_NAME).write_text("Fatal Python error: Segmentation fault\n")
    (private / crash.FAULT_NAME).chmod(0o600)
    script = (
        "import sys; from pathlib import Path; from memory_manager.service import crash;"
        "crash.watch_fatal_signals(Path(sys.argv[1]), '0.1.0')"
    )
    subprocess.run([sys.executable, "-c", script, str(private)], check=True, timeout=30)
    assert crash.read_history(private).error == "FatalSignal"
    assert (private / crash.FAULT_NAME).stat().st_size == 0


def test_the_owner_token_file_holds_one_line(private: Path) -> None:
    first, second = OwnerToken(private), OwnerToken(private)
    text = (private / "token").read_text()
    assert text.endswith("\n")
    assert is_token(text.strip())
    assert token_digest(text.strip()) == second.digest != first.digest
    second.remove()
    second.remove()
    assert not (private / "token").exists()


def test_the_notifier_is_silent_without_a_manager() -> None:
    notifier = ServiceNotifier({})
    notifier.ready()
    assert notifier.watchdog_seconds is None
    ServiceNotifier({"NOTIFY_SOCKET": "/nowhere/at/all"}).stopping()


def test_the_notifier_speaks_to_a_path(short_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(short_path / "notify"))
        notifier = ServiceNotifier(
            {"NOTIFY_SOCKET": str(short_path / "notify"), "WATCHDOG_USEC": "60000000"}
        )
        assert notifier.watchdog_seconds == 30
        for send in (notifier.ready, notifier.alive, notifier.stopping):
            send()
        assert [manager.recv(32) for _ in range(3)] == [b"READY=1", b"WATCHDOG=1", b"STOPPING=1"]


def test_every_listener_hears_every_event() -> None:
    bus, heard = EventBus(), []
    bus.subscribe(heard.append)
    bus.subscribe(heard.append)
    bus.publish(CredentialsChanged())
    bus.publish(StopRequested("owner"))
    assert heard == [CredentialsChanged()] * 2 + [StopRequested("owner")] * 2
