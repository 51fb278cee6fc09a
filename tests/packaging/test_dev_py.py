"""The two commands of packaging/dev.py on a copy of the checkout, without a terminal."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from sandbox_daemon import wait_until

pytestmark = [pytest.mark.packaging, pytest.mark.slow, pytest.mark.timeout(240)]

FACT = re.compile(r"^memlocket-dev (\w+) +(.*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def checkout(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy whose ``.venv`` takes its packages from the environment of this run."""
    copy = tmp_path_factory.mktemp("deep") / ("folder-" + "x" * 100) / "checkout"
    copy.mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(repository / name, copy / name)
    for name in ("daemon", "sync", "packaging"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(repository / name, copy / name, ignore=ignored)
    folder = copy / ".venv"
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (here,) = [Path(path) for path in sys.path if path.endswith("site-packages")][:1]
    for entry in here.iterdir():
        if entry.suffix != ".pth" or "editable" not in entry.name:
            with contextlib.suppress(FileExistsError):
                (site / entry.name).symlink_to(entry)
    for leftover in site.glob("_memlocket*.pth"):
        leftover.unlink()
    (site / "checkout.pth").write_text(f"{copy / 'daemon'}\n{copy / 'sync'}\n")
    stamp = hashlib.sha256((copy / "pyproject.toml").read_bytes())
    stamp.update((sys.version + "\n").encode())
    (folder / ".deps-base").write_text(stamp.hexdigest())
    return copy


@pytest.fixture
def empty_home(tmp_path: Path) -> Iterator[Path]:
    """A HOME that must stay empty."""
    home = tmp_path / "home"
    home.mkdir()
    yield home
    assert list(home.rglob("*")) == []


def environment(home: Path) -> dict[str, str]:
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "MEMLOCKET_HOME": str(home / "a-real-vault"),
        "TMPDIR": str(home.parent),
    }


def dev(checkout: Path, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "packaging/dev.py", *arguments],
        cwd=checkout,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=200,
    )


def processes_of(checkout: Path) -> list[psutil.Process]:
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(str(checkout) in part for part in process.cmdline()):
                found.append(process)
    return found


def leave_no_process(checkout: Path) -> None:
    """One that was killed last may still be on its way out."""
    wait_until(lambda: processes_of(checkout) == [], 10, "no process is left")


def test_once_remembers_recalls_and_leaves_no_process(checkout: Path, empty_home: Path) -> None:
    first = dev(checkout, empty_home, "run", "--once")
    assert first.returncode == 0, first.stdout + first.stderr
    facts = dict(FACT.findall(first.stdout))
    assert list(facts) == ["home", "daemon", "remember", "recall", "address", "stopped"]
    assert facts["home"] == str(checkout / ".sandbox")
    assert facts["recall"].startswith("ok hits=")
    assert "relation=self" in facts["recall"]
    assert facts["stopped"] == "rc=0"
    leave_no_process(checkout)
    assert (checkout / ".sandbox" / ".gitignore").read_text() == "*\n"
    assert (checkout / ".sandbox").stat().st_mode & 0o077 == 0
    again = dict(FACT.findall(dev(checkout, empty_home, "run", "--once").stdout))
    assert again["remember"] == facts["remember"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_stop_it_with_exit_0(
    checkout: Path, empty_home: Path, number: signal.Signals, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    # as a non-interactive shell starts a background job: SIGINT ignored
    with output.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "packaging/dev.py", "run", "--lite"],
            cwd=checkout,
            env=environment(empty_home),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        )
    try:
        wait_until(lambda: "ready" in output.read_text(), 60, "it is ready")
        second = dev(checkout, empty_home, "run", "--once")
        assert second.returncode == 0, second.stderr
        assert "running-already" in second.stdout
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
    assert "memlocket-dev stopped    rc=0" in output.read_text()
    leave_no_process(checkout)


def test_daemon_that_dies_ends_the_run_with_its_words(
    checkout: Path, empty_home: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out"
    with output.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "packaging/dev.py", "run", "--lite"],
            cwd=checkout, env=environment(empty_home), stdin=subprocess.DEVNULL,
            stdout=stream, stderr=stream,
        )  # fmt: skip
    try:
        wait_until(lambda: "ready" in output.read_text(), 60, "it is ready")
        match = re.search(r"pid=(\d+)", output.read_text())
        assert match is not None
        os.kill(int(match[1]), signal.SIGKILL)
        assert process.wait(30) == 1
    finally:
        process.kill()
        process.wait()
    assert "The daemon ended with exit code -9" in output.read_text()


@pytest.mark.parametrize("where", [".local/share/memlocket", ".local/share/memlocket/x", "."])
def test_a_real_home_is_refused(checkout: Path, tmp_path: Path, where: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    done = dev(checkout, home, "run", "--once", "--home", str(home / where))
    assert done.returncode == 1
    assert "your own Memlocket" in done.stderr
    assert list(home.rglob("*")) == []


def test_what_follows_test_is_pytests(checkout: Path, empty_home: Path) -> None:
    shutil.copy(checkout / ".venv" / ".deps-base", checkout / ".venv" / ".deps-dev")
    shutil.copy(checkout / ".venv" / ".deps-base", checkout / ".venv" / ".deps-embed")
    (checkout / "tests").mkdir(exist_ok=True)
    (checkout / "tests" / "support").mkdir(exist_ok=True)
    case = checkout / "tests" / "test_case.py"
    case.write_text("def test_a():\n    pass\n\n\ndef test_b():\n    assert False\n")
    options = ("-p", "no:cacheprovider", "-q")
    good = dev(checkout, empty_home, "test", *options, "-k", "test_a", "tests/test_case.py")
    assert good.returncode == 0, good.stdout + good.stderr
    assert re.search(r"\b1 passed\b", good.stdout.splitlines()[-1])
    bad = dev(checkout, empty_home, "test", *options)
    assert bad.returncode == 1
    assert re.search(r"1 failed, 1 passed", bad.stdout.splitlines()[-1])


def test_no_venv_package_gives_one_exact_line(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "import sys; sys.dont_write_bytecode = True; sys.path.insert(0, sys.argv[1])\n"
        "import dev_environment as e, os, shutil\n"
        "os.geteuid = lambda: 1000\n"
        "shutil.which = lambda name: None\n"
        "e.VENV = e.Path(sys.argv[2]); e._has_ensurepip = lambda: False\n"
        "try:\n    e.ensure_venv()\n"
        "except e.Failure as failure:\n    print(failure)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(repository / "packaging"), str(tmp_path / ".venv")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "sudo apt install python3-venv   (or install uv)\n"
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize("name", ["dev", "dev_build", "dev_environment", "dev_run", "dev_wire"])
def test_scripts_parse_on_python_3_8_and_need_only_the_standard_library(
    repository: Path, name: str
) -> None:
    source = (repository / "packaging" / f"{name}.py").read_text()
    tree = ast.parse(source, feature_version=(3, 8))
    imported = {
        alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    } | {
        (node.module or "").split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    }
    own = {"dev_build", "dev_environment", "dev_run", "dev_wire"}
    assert imported - own <= set(sys.stdlib_module_names)


def test_torch_never_comes_from_a_second_index(repository: Path) -> None:
    for path in (repository / "packaging").glob("dev*.py"):
        assert "--extra-index-url" not in path.read_text()
    assert "tool.uv.sources" not in (repository / "pyproject.toml").read_text()
