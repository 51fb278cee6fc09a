"""The life of the daemon process: one at a time, private files, clean ends, recovery after a kill.

desktop.md 8, 9, 11.1-11.3, acceptance 5 and 6; vault.md T13.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from sandbox_daemon import COMMAND, SandboxDaemon, Wire, running, unused_port, wait_until

from memory_manager.api import doors
from memory_manager.service.errors import SocketPathTooLong

ALREADY_RUNNING = 3


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SandboxDaemon:
    """A vault to copy: making one takes two processes."""
    return SandboxDaemon(tmp_path_factory.mktemp("made") / "home").init()


@pytest.fixture
def sandbox(made: SandboxDaemon, short_path: Path) -> SandboxDaemon:
    """A vault whose daemon does not run yet."""
    copy = SandboxDaemon(short_path / "home")
    shutil.copytree(made.home, copy.home)
    shutil.copy2(made.key_file, copy.key_file)
    return copy


def _start_and_wait(sandbox: SandboxDaemon, **options: object) -> subprocess.Popen[bytes]:
    command = [*COMMAND, "daemon", "--insecure-key-file", str(sandbox.key_file)]
    with sandbox.output.open("ab") as out:
        return subprocess.Popen(
            command, env=sandbox.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, **options
        )


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_every_file_is_private_under_any_umask(sandbox: SandboxDaemon, umask: int) -> None:
    process = _start_and_wait(sandbox, umask=umask)
    sandbox.process = process
    try:
        wait_until(lambda: sandbox._answers(process), 60, "the daemon answers")
        sandbox.add_agent("someone")
        modes = sandbox.modes()
        assert modes["run/daemon.sock"] == 0o600
        assert {"run/token", "run/daemon.json", "vault.lock", "log/daemon.log"} <= modes.keys()
        for name, mode in modes.items():
            is_directory = (sandbox.home / name).is_dir()
            assert mode == (0o700 if is_directory else 0o600), f"{name} {mode:o}"
    finally:
        sandbox.cleanup()


def test_the_discovery_file_describes_the_daemon_and_goes_first(sandbox: SandboxDaemon) -> None:
    with sandbox.start():
        found = json.loads((sandbox.home / "run" / "daemon.json").read_text())
        assert found["schema"] == 1
        assert found["api"] == ["v1"]
        assert sandbox.process is not None
        assert found["pid"] == sandbox.process.pid
        assert found["home"] == str(sandbox.home)
        assert found["runtime_dir"] == str(sandbox.home / "run")
        assert found["url"].startswith("http://127.0.0.1:")
        assert not found["url"].endswith(":8765")
        assert sandbox.owner_token not in json.dumps(found)
        assert sandbox.stop() == 0
        assert not any((sandbox.home / "run").iterdir())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_cleanly(sandbox: SandboxDaemon, number: signal.Signals) -> None:
    with sandbox.start():
        assert sandbox.process is not None
        sandbox.signal(number)
        assert sandbox.process.wait(20) == 0
        assert not (sandbox.home / "vault" / "vault.db-wal").exists() or (
            (sandbox.home / "vault" / "vault.db-wal").stat().st_size == 0
        )


def test_sigint_works_where_a_shell_left_it_ignored(sandbox: SandboxDaemon) -> None:
    process = _start_and_wait(
        sandbox, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)
    )
    sandbox.process = process
    try:
        wait_until(lambda: sandbox._answers(process), 60, "the daemon answers")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        sandbox.cleanup()


def test_the_owner_stops_it_over_the_socket(sandbox: SandboxDaemon) -> None:
    with sandbox.start():
        assert sandbox.process is not None
        with sandbox.owner() as owner:
            assert owner.post("/v1/daemon/stop").status == 202
        assert sandbox.process.wait(20) == 0


def test_a_request_in_flight_is_finished_before_the_end(sandbox: SandboxDaemon) -> None:
    with sandbox.start():
        assert sandbox.process is not None
        token = sandbox.add_agent("late")
        records = [{"content": f"windmill {n} " + "x " * 500, "path": "p"} for n in range(60)]
        body = json.dumps({"records": records}).encode()
        head = (
            f"POST /v1/memories/import HTTP/1.1\r\nHost: {sandbox.url[7:]}\r\n"
            f"X-API-Key: {sandbox.owner_token}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode()
        port = int(sandbox.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as stream:
            stream.sendall(head + body)
            with Wire(sandbox.url) as later:  # answered only after the loop saw the request above
                assert later.get("/health").status == 200
            sandbox.signal(signal.SIGTERM)
            assert stream.recv(65_536).startswith(b"HTTP/1.1 200 ")
        assert sandbox.process.wait(20) == 0
        with sandbox.start(), sandbox.wire(token) as wire:
            assert len(wire.search("windmill", limit=100)) == 60


def test_a_second_daemon_names_the_first_and_exits_3(sandbox: SandboxDaemon) -> None:
    with sandbox.start():
        second = sandbox.cli("daemon", "--insecure-key-file", str(sandbox.key_file), check=False)
        assert second.returncode == ALREADY_RUNNING
        assert "already_running" in second.stderr
        assert sandbox.url in second.stderr
        with sandbox.owner() as owner:
            assert owner.get("/v1/status").status == 200


@pytest.mark.timeout(240)
def test_of_three_at_once_exactly_one_wins(sandbox: SandboxDaemon) -> None:
    for _ in range(3):
        _race(sandbox)


def _race(sandbox: SandboxDaemon) -> None:
    started = [_start_and_wait(sandbox) for _ in range(3)]
    try:
        wait_until(lambda: sum(p.poll() is None for p in started) == 1, 60, "one is left")
        (winner,) = [process for process in started if process.poll() is None]
        wait_until(lambda: sandbox._answers(winner), 60, "the winner answers")
        losers = [process.wait(20) for process in started if process is not winner]
        assert losers == [ALREADY_RUNNING] * 2
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.wait(20)


def test_two_runtime_directories_do_not_open_one_vault(
    sandbox: SandboxDaemon, tmp_path: Path
) -> None:
    home = tmp_path / "user"
    home.mkdir(mode=0o700)
    data = home / ".local/share"
    data.mkdir(parents=True, mode=0o700)
    sandbox.home.rename(data / "memlocket")
    runtimes = [tmp_path / "r1", tmp_path / "r2"]
    for runtime in runtimes:
        runtime.mkdir(mode=0o700)
    environment = {**sandbox.env, "HOME": str(home)}
    environment.pop("MEMLOCKET_HOME")
    command = [*COMMAND, "daemon", "--insecure-key-file", str(sandbox.key_file)]
    output = (tmp_path / "out").open("wb")
    first = subprocess.Popen(
        command, env={**environment, "XDG_RUNTIME_DIR": str(runtimes[0])}, stdout=output
    )
    try:
        found = runtimes[0] / "memlocket" / "daemon.json"
        wait_until(found.exists, 60, "the first daemon is there")
        second = subprocess.run(
            command,
            env={**environment, "XDG_RUNTIME_DIR": str(runtimes[1])},
            capture_output=True,
            timeout=60,
        )
        assert second.returncode == ALREADY_RUNNING
        copy = data / "memlocket" / "run" / "daemon.json"
        said, copied = (json.loads(path.read_text()) for path in (found, copy))
        assert said.pop("folder") != copied.pop("folder"), "each file names the folder it lies in"
        assert copied == said
        assert json.loads(found.read_text())["url"].encode() in second.stderr
    finally:
        first.terminate()
        assert first.wait(20) == 0
        output.close()
    assert not copy.exists()
    assert not found.exists()


def test_after_a_kill_the_next_start_recovers(sandbox: SandboxDaemon) -> None:
    with sandbox.start():
        token = sandbox.add_agent("survivor")
        with sandbox.wire(token) as wire:
            key = {"Idempotency-Key": "kept-over-the-crash"}
            body = {"content": "acknowledged before the kill", "path": "p"}
            first = wire.post("/v1/remember", body, **key).json
        old = sandbox.discovery
        sandbox.kill()
        assert (sandbox.home / "run" / "daemon.json").exists()
        assert (sandbox.home / "run" / "daemon.sock").exists()
        sandbox.start()
        assert sandbox.discovery["daemon_id"] != old["daemon_id"]
        with sandbox.wire(token) as wire:
            assert [item["id"] for item in wire.search("acknowledged")] == [first["id"]]
            again = wire.post("/v1/remember", {"content": "other", "path": "q"}, **key)
            assert again.json == first
            assert again.headers["Idempotent-Replay"] == "true"


@pytest.mark.parametrize("kind", ["symlink", "fifo", "file"])
def test_planted_things_in_the_runtime_directory_are_replaced(
    sandbox: SandboxDaemon, tmp_path: Path, kind: str
) -> None:
    target = tmp_path / "victim"
    target.write_text("untouched")
    runtime = sandbox.home / "run"
    runtime.mkdir(mode=0o700, exist_ok=True)
    planted = [runtime / name for name in ("daemon.json", "daemon.sock", "token")]
    for path in planted:
        if kind == "symlink":
            path.symlink_to(target)
        elif kind == "fifo":
            os.mkfifo(path)
        else:
            path.write_text("{}")
    process = sandbox.launch()
    with sandbox:
        wait_until(lambda: _written_by(runtime / "daemon.json", process), 60, "daemon.json is ours")
        assert sandbox._answers(process)
        assert target.read_text() == "untouched"
        assert stat.S_ISSOCK(planted[1].lstat().st_mode)
        for path in planted:
            assert stat.S_IMODE(path.lstat().st_mode) == 0o600


def _written_by(path: Path, process: subprocess.Popen[bytes]) -> bool:
    """Without opening what may still be a pipe."""
    info = path.lstat()
    return stat.S_ISREG(info.st_mode) and f'"pid": {process.pid},' in path.read_text()


@pytest.mark.parametrize("place", ["vault.lock", "log/daemon.log"])
@pytest.mark.parametrize("kind", ["symlink", "fifo"])
def test_a_planted_thing_elsewhere_is_refused(
    sandbox: SandboxDaemon, tmp_path: Path, place: str, kind: str
) -> None:
    target = tmp_path / "victim"
    target.write_text("untouched")
    planted = sandbox.home / place
    planted.parent.mkdir(mode=0o700, exist_ok=True)
    planted.unlink(missing_ok=True)
    if kind == "symlink":
        planted.symlink_to(target)
    else:
        os.mkfifo(planted)
    done = sandbox.cli("daemon", "--insecure-key-file", str(sandbox.key_file), check=False)
    assert done.returncode == 5
    assert planted.name in done.stderr
    assert target.read_text() == "untouched"


@pytest.mark.parametrize("what", ["open", "symlink", "file"])
@pytest.mark.parametrize("place", ["run", "log"])
def test_a_directory_that_is_not_private_is_refused(
    sandbox: SandboxDaemon, tmp_path: Path, what: str, place: str
) -> None:
    folder = sandbox.home / place
    if folder.exists():
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    if what == "open":
        folder.mkdir()
        folder.chmod(0o755)
    elif what == "symlink":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.write_text("")
    done = sandbox.cli("daemon", "--insecure-key-file", str(sandbox.key_file), check=False)
    assert done.returncode == 5
    assert str(folder) in done.stderr


def test_a_home_open_to_others_is_refused(sandbox: SandboxDaemon) -> None:
    sandbox.home.chmod(0o755)
    done = sandbox.cli("daemon", "--insecure-key-file", str(sandbox.key_file), check=False)
    assert done.returncode == 5
    assert "chmod" in done.stderr


def test_a_long_socket_path_moves_the_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 80)
    deep.mkdir(parents=True, mode=0o700)
    short = tempfile.mkdtemp(prefix="h6-")
    try:
        with running(deep / "home", TMPDIR=short) as daemon:
            path = Path(daemon.discovery["socket"])
            assert len(os.fsencode(path)) < 100
            assert path.parent.parent == Path(short)
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert daemon.status()["vault"]["state"] == "unlocked"
            daemon.kill()
            assert path.exists()
            daemon.start()
            assert not path.parent.exists()
            moved = Path(daemon.discovery["socket"])
            assert daemon.stop() == 0
            assert not moved.parent.exists()
    finally:
        os.rmdir(short)


def test_a_deep_folder_for_temporary_files_is_no_place_for_the_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir(mode=0o700)
    with running(deep / "home", TMPDIR=str(deep)) as daemon:
        path = Path(daemon.discovery["socket"])
        assert len(os.fsencode(path)) < 100
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert daemon.status()["vault"]["state"] == "unlocked"
        assert not list(deep.glob("memlocket-*"))
        assert daemon.stop() == 0
        assert not path.parent.exists()


def test_a_socket_without_a_short_place_is_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    monkeypatch.setattr(doors, "_SHORT_ROOTS", (str(tmp_path / "missing"),))
    with pytest.raises(SocketPathTooLong):
        doors.socket_path(deep)
    assert list(deep.iterdir()) == []


def test_a_port_can_be_pinned_but_not_the_reserved_one(sandbox: SandboxDaemon) -> None:
    port = unused_port()
    sandbox.options = ("--port", str(port))
    with sandbox.start():
        assert sandbox.url == f"http://127.0.0.1:{port}"
        with Wire(sandbox.url) as wire:
            assert wire.get("/health").status == 200
        sandbox.stop()
    for bad in ("8765", "70000", "-1"):
        done = sandbox.cli(
            "daemon", "--port", bad, "--insecure-key-file", str(sandbox.key_file), check=False
        )
        assert done.returncode == 2, bad
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = str(taken.getsockname()[1])
        done = sandbox.cli(
            "daemon", "--port", number, "--insecure-key-file", str(sandbox.key_file), check=False
        )
        assert done.returncode == 2
        assert number in done.stderr


def test_the_process_is_hardened(sandbox: SandboxDaemon) -> None:
    with sandbox.start():
        assert sandbox.process is not None
        limits = psutil.Process(sandbox.process.pid).rlimit(psutil.RLIMIT_CORE)
        assert limits == (0, 0)
        status = Path(f"/proc/{sandbox.process.pid}/status").read_text()
        assert "\nUmask:\t0077\n" in status
        if os.getuid() == 0:
            # dumpable is not shown to root; the owner of the proc files tells it for others
            return
        assert Path(f"/proc/{sandbox.process.pid}/maps").stat().st_uid == 0


def test_nothing_heavy_is_loaded_to_start(sandbox: SandboxDaemon) -> None:
    started = time.monotonic()
    with sandbox.start():
        assert time.monotonic() - started < 15
        assert sandbox.process is not None
        maps = Path(f"/proc/{sandbox.process.pid}/maps").read_text()
    for library in ("torch", "onnxruntime", "tokenizers", "pydantic"):
        assert library not in maps


def test_a_service_manager_is_told(sandbox: SandboxDaemon) -> None:
    address = f"\0memlocket-test-{os.getpid()}-{time.monotonic_ns()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(60)
        sandbox.environment = {"NOTIFY_SOCKET": "@" + address[1:], "WATCHDOG_USEC": "400000"}
        sandbox.options = ("--service",)
        with sandbox.start():
            assert manager.recv(64) == b"READY=1"
            assert manager.recv(64) == b"WATCHDOG=1"
            sandbox.signal(signal.SIGTERM)
            messages = [manager.recv(64)]
            while messages[-1] != b"STOPPING=1":
                messages.append(manager.recv(64))


def test_children_do_not_inherit_the_lock(sandbox: SandboxDaemon) -> None:
    with sandbox.start():
        assert sandbox.process is not None
        pid = sandbox.process.pid
        lock = (sandbox.home / "vault.lock").stat()
        held: list[str] = []
        for number in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(FileNotFoundError):  # a connection that has just ended
                if os.stat(f"/proc/{pid}/fd/{number}").st_ino == lock.st_ino:
                    held.append(number)
        assert len(held) == 1
        flags = Path(f"/proc/{pid}/fdinfo/{held[0]}").read_text()
        octal = next(line for line in flags.splitlines() if line.startswith("flags:")).split()[1]
        assert int(octal, 8) & os.O_CLOEXEC


def test_three_crashes_in_a_row_lead_to_a_safe_mode(sandbox: SandboxDaemon) -> None:
    now = time.time_ns() // 1_000_000
    (sandbox.home / "log").mkdir(mode=0o700, exist_ok=True)
    marker = sandbox.home / "log" / "last_crash.json"
    crashes = {"times_ms": [now - 2_000, now - 1_000, now], "error": "ValueError", "unread": True}
    marker.write_text(json.dumps(crashes))
    marker.chmod(0o600)
    with sandbox.start():
        status = sandbox.status()
        assert status["daemon"]["safe_mode"] is True
        assert status["daemon"]["last_crash"]["error"] == "ValueError"
        assert status["daemon"]["last_crash"]["unread"] is True
        assert sandbox.status()["daemon"]["last_crash"]["unread"] is False, "told once"
        assert json.loads(marker.read_text())["times_ms"] == crashes["times_ms"]
        assert status["embeddings"]["state"] == "absent"
        assert status["vault"]["state"] == "unlocked"
