"""up, stop, restart, status, logs, doctor and the self-test as real processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from sandbox_daemon import COMMAND, SandboxDaemon, frozen, is_alive, wait_until
from terminal import Terminal


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[SandboxDaemon]:
    sandbox = SandboxDaemon(tmp_path / "home").init()
    yield sandbox
    sandbox.cli("stop", check=False)


def start(sandbox: SandboxDaemon) -> int:
    """Up by the command; the pid of the daemon."""
    key = ("--insecure-key-file", str(sandbox.key_file))
    done = sandbox.cli("up", "--json", "--no-embeddings", *key)
    sandbox.discovery = json.loads((sandbox.home / "run" / "daemon.json").read_bytes())
    return int(json.loads(done.stdout)["pid"])


def test_up_status_stop(sandbox: SandboxDaemon) -> None:
    assert sandbox.cli("status", check=False).returncode == 6
    pid = start(sandbox)
    assert is_alive(pid)
    again = json.loads(sandbox.cli("up", "--json").stdout)
    assert (again["start"], again["pid"]) == ("already_running", pid)
    shown = sandbox.cli("status").stdout
    assert f"pid {pid}" in shown
    assert "INSECURE" in shown
    document = json.loads(sandbox.cli("status", "--json").stdout)
    assert document["vault"]["state"] == "unlocked"
    assert document["vault"]["insecure"] is True
    assert json.loads(sandbox.cli("stop", "--json").stdout) == {"stop": "stopped"}
    assert not is_alive(pid)
    assert json.loads(sandbox.cli("stop", "--json").stdout) == {"stop": "not_running"}
    assert not (sandbox.home / "run" / "daemon.json").exists()


def test_up_survives_the_terminal_it_was_started_from(sandbox: SandboxDaemon) -> None:
    arguments = ["up", "--no-embeddings", "--insecure-key-file", str(sandbox.key_file)]
    with Terminal([*COMMAND, *arguments], sandbox.env) as terminal:
        assert terminal.wait() == 0
    assert sandbox.cli("status").returncode == 0


def test_up_speaks_at_once_on_a_terminal_and_leaves_one_line(sandbox: SandboxDaemon) -> None:
    arguments = ["up", "--no-embeddings", "--insecure-key-file", str(sandbox.key_file)]
    with Terminal([*COMMAND, *arguments], sandbox.env) as terminal:
        terminal.expect(r"^Starting the memory service \.\.\.")
        terminal.expect(r"\r +\rStarted: pid")
        assert terminal.wait() == 0


def test_a_folder_open_to_others_is_refused_by_init_and_up_alike(tmp_path: Path) -> None:
    daemon = SandboxDaemon(tmp_path / "open")
    daemon.home.mkdir()
    daemon.home.chmod(0o755)  # whatever this process lets others do
    said = {}
    for command in (("init", "--insecure-key-file", str(tmp_path / "key")), ("up",)):
        done = daemon.cli(*command, "--json", check=False)
        said[command[0]] = (done.returncode, json.loads(done.stdout)["error"]["message"])
    assert said["up"] == said["init"]
    assert said["up"][0] == 5


def test_stop_kills_what_does_not_react_and_never_a_pid_from_a_file(
    sandbox: SandboxDaemon,
) -> None:
    pid = start(sandbox)
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        path = sandbox.home / "run" / "daemon.json"
        path.write_text(json.dumps({**json.loads(path.read_bytes()), "pid": bystander.pid}))
        os.kill(pid, signal.SIGSTOP)
        assert json.loads(sandbox.cli("stop", "--json").stdout) == {"stop": "killed"}
        assert not is_alive(pid)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_left_over_discovery_file_is_not_a_daemon(sandbox: SandboxDaemon) -> None:
    os.kill(start(sandbox), signal.SIGKILL)
    wait_until(lambda: sandbox.cli("status", check=False).returncode == 6, 20, "it is noticed")
    assert (sandbox.home / "run" / "daemon.json").exists()
    assert is_alive(start(sandbox))


def test_a_copied_home_is_a_home_of_its_own(sandbox: SandboxDaemon) -> None:
    pid = start(sandbox)
    sandbox.cli("remember", "the first home knows this")
    copy = sandbox.home.with_name("copy")
    # a socket cannot be copied by Python; `cp -r` makes a dead one, which is a leftover
    with frozen(pid):
        shutil.copytree(sandbox.home, copy, ignore=shutil.ignore_patterns("daemon.sock"))
    other = SandboxDaemon(copy, key_file_path=sandbox.key_file)
    try:
        assert (copy / "run" / "daemon.json").exists()
        assert other.cli("status", check=False).returncode == 6
        assert json.loads(other.cli("stop", "--json").stdout) == {"stop": "not_running"}
        assert is_alive(pid)
        assert start(other) != pid
        other.cli("remember", "only the copy knows this")
        assert json.loads(other.cli("status", "--json").stdout)["counts"]["memories"] == 2
        status = json.loads(sandbox.cli("status", "--json").stdout)
        assert (status["daemon"]["pid"], status["counts"]["memories"]) == (pid, 1)
    finally:
        other.cli("stop", check=False)
    assert is_alive(pid)
    assert sandbox.cli("status").returncode == 0


def test_restart_gives_a_new_process(sandbox: SandboxDaemon) -> None:
    before = start(sandbox)
    key = ("--insecure-key-file", str(sandbox.key_file))
    after = json.loads(sandbox.cli("restart", "--json", *key).stdout)["pid"]
    assert after != before
    assert not is_alive(before)


def test_a_port_that_cannot_be_had_ends_nothing(sandbox: SandboxDaemon) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = (str(taken.getsockname()[1]), "80000", "8765")
        for port in ports:
            done = sandbox.cli("up", "--port", port, "--json", check=False)
            assert json.loads(done.stdout)["error"]["code"] == "port_unavailable"
            assert done.returncode == 2
        before = start(sandbox)
        for port in ports:
            done = sandbox.cli("restart", "--port", port, "--json", check=False)
            assert json.loads(done.stdout)["error"]["code"] == "port_unavailable"
            assert done.returncode == 2
            assert is_alive(before)
    own = sandbox.discovery["url"].rpartition(":")[2]
    key = ("--no-embeddings", "--insecure-key-file", str(sandbox.key_file))
    again = json.loads(sandbox.cli("restart", "--port", own, "--json", *key).stdout)
    assert again["url"] == sandbox.discovery["url"]
    assert not is_alive(before)


def test_start_that_fails_says_why(sandbox: SandboxDaemon) -> None:
    sandbox.key_file.chmod(0o644)
    done = sandbox.cli("up", "--insecure-key-file", str(sandbox.key_file), check=False)
    shown = done.stdout + done.stderr
    assert done.returncode == 6 or "locked" in shown
    assert "Traceback" not in shown


def test_daemon_in_the_foreground_exits_3_beside_another(sandbox: SandboxDaemon) -> None:
    start(sandbox)
    done = sandbox.cli("daemon", check=False)
    assert done.returncode == 3
    assert sandbox.discovery["socket"] in done.stderr


def test_commands_name_the_way_out_without_a_daemon_and_without_a_vault(tmp_path: Path) -> None:
    empty = SandboxDaemon(tmp_path / "empty")
    empty.home.mkdir(mode=0o700)
    done = empty.cli("recall", "x", check=False)
    assert done.returncode == 6
    assert "memlocket init, then: memlocket up" in done.stderr
    try:
        up = empty.cli("up", check=False)
        assert "memlocket init" in up.stdout + up.stderr
        chain = "memlocket stop && memlocket init && memlocket up"
        for command in (["recall", "x"], ["remember", "x"], ["unlock"], ["passphrase"]):
            refused = empty.cli(*command, check=False)  # no terminal: asking would end with 11
            assert (refused.returncode, chain in refused.stderr) == (14, True), command
        assert "memlocket init" in empty.cli("status").stdout
        key = str(tmp_path / "k")
        empty.cli("keyfile", "new", key)
        init = empty.cli("init", "--insecure-key-file", key, check=False)
        assert init.returncode == 3
        assert "memlocket stop && memlocket init" in init.stderr
    finally:
        empty.cli("stop", check=False)


def test_logs_are_short_lines_and_json(sandbox: SandboxDaemon) -> None:
    assert sandbox.cli("logs", check=False).returncode == 4
    start(sandbox)
    assert "daemon_ready" in sandbox.cli("logs").stdout
    lines = sandbox.cli("logs", "--json", "-n", "1").stdout.splitlines()
    assert len(lines) == 1
    assert "event" in json.loads(lines[0])


def test_logs_follow_until_interrupted(sandbox: SandboxDaemon) -> None:
    start(sandbox)
    with Terminal([*COMMAND, "logs", "-f"], sandbox.env) as terminal:
        terminal.expect("daemon_ready")
        sandbox.cli("lock")
        terminal.expect("vault_locked")
        terminal.interrupt()
        assert terminal.wait() == 130


def test_doctor_finds_what_is_open_to_others(sandbox: SandboxDaemon) -> None:
    start(sandbox)
    healthy = sandbox.cli("doctor", "--quick", "--json", check=False)
    assert healthy.returncode == 0, healthy.stdout
    (sandbox.home / "vault" / "vault.slots").chmod(0o644)
    done = sandbox.cli("doctor", "--quick", "--json", check=False)
    assert done.returncode == 7
    problems = [x for x in json.loads(done.stdout)["findings"] if x["level"] == "problem"]
    assert [problem["check"] for problem in problems] == ["permissions"]
    assert "chmod go-rwx" in problems[0]["hint"]


def test_doctor_reads_every_page_and_finds_plain_text_of_memories(sandbox: SandboxDaemon) -> None:
    start(sandbox)
    text = "The walnut gateway rotates its receipts at 04:30"
    sandbox.cli("remember", text)
    healthy = sandbox.cli("doctor", "--json", check=False)
    assert healthy.returncode == 0, healthy.stdout
    found = {x["check"]: x["level"] for x in json.loads(healthy.stdout)["findings"]}
    assert found["integrity"] == found["plaintext"] == found["round trip"] == "ok"
    leak = sandbox.home / "log" / "debug.txt"
    leak.write_bytes(text.encode("utf-16-le"))
    leak.chmod(0o600)
    done = sandbox.cli("doctor", "--json", check=False)
    assert done.returncode == 7
    problems = [x for x in json.loads(done.stdout)["findings"] if x["level"] == "problem"]
    assert [problem["check"] for problem in problems] == ["plaintext"]
    assert "walnut" not in done.stdout


def test_doctor_bundle_holds_no_memory(sandbox: SandboxDaemon, tmp_path: Path) -> None:
    start(sandbox)
    sandbox.cli("remember", "a canary in a coal mine 4711", "--path", "canary/path")
    target = tmp_path / "bundle.zip"
    told = sandbox.cli("doctor", "--quick", "--bundle", str(target))
    assert f"Report written: {target}" in told.stderr
    again = sandbox.cli("doctor", "--quick", "--bundle", str(target), check=False)
    assert (again.returncode, "--replace" in again.stderr) == (2, True)
    sandbox.cli("doctor", "--quick", "--bundle", str(target), "--replace")
    assert target.stat().st_mode & 0o077 == 0
    with zipfile.ZipFile(target) as bundle:
        whole = b"".join(bundle.read(name) for name in bundle.namelist())
        assert {"findings.json", "status.json", "files.json"} <= set(bundle.namelist())
    assert b"canary" not in whole
    assert str(sandbox.home).encode() not in whole


def test_selftest_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    empty = SandboxDaemon(tmp_path / "home", environment={"TMPDIR": str(folder)})
    done = empty.cli("--selftest")
    assert done.stdout.startswith("Self-test passed")
    assert list(folder.iterdir()) == []
    assert not empty.home.exists()


@pytest.mark.parametrize("moment", ["vault.lock", "run/daemon.json"])
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_selftest_that_is_ended_early_leaves_nothing_behind(
    tmp_path: Path, number: signal.Signals, moment: str
) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    empty = SandboxDaemon(tmp_path / "home", environment={"TMPDIR": str(folder)})
    daemons: list[psutil.Process] = []
    while not daemons:  # on a busy machine it may be over before it is looked at
        with subprocess.Popen(
            [*COMMAND, "--selftest"],
            env=empty.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            wait_until(
                lambda process=process: any(folder.glob(f"*/{moment}")) or process.poll() == 0,
                30,
                "its daemon starts",
                0.005,
            )
            daemons = psutil.Process(process.pid).children() if process.poll() is None else []
            process.send_signal(number)
            process.wait(timeout=30)
    (daemon,) = daemons
    wait_until(lambda: not is_alive(daemon.pid), 30, "its daemon is gone")
    assert list(folder.iterdir()) == []


def test_a_daemon_in_the_foreground_ends_with_its_terminal(sandbox: SandboxDaemon) -> None:
    with sandbox.start():
        sandbox.signal(signal.SIGHUP)
        assert sandbox.process is not None
        assert sandbox.process.wait(30) == 0
    assert not (sandbox.home / "run" / "daemon.json").exists()
