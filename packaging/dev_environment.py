"""The ``.venv`` of this checkout: made once, filled by need, remembered by stamps.

With uv everything is faster; without it the standard library's venv and pip do the same.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
MIN_PYTHON = (3, 11)
TORCH_SPEC_VARIABLE = "MEMLOCKET_TORCH_SPEC"  # instead of the pinned version of torch
WINDOWS = sys.platform == "win32"
NEW_PIP = "pip>=25.1"  # older ones do not know --group
SHOWN_OUTPUT_CHARACTERS = 2000
# one process a file, the long files first, as tests/conftest.py orders them; -n 0 runs all in one
PARALLEL = ["--numprocesses=2", "--dist=loadfile", "--no-loadscope-reorder"]
APT_LINE = "sudo apt install python3-venv   (or install uv)"


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version)


class Failure(Exception):
    """One sentence for the user; exit 1."""


def say(text: str) -> None:
    """A remark beside the facts: standard error, so that scripts read only facts."""
    print("memlocket-dev: " + text, file=sys.stderr, flush=True)


def venv_python() -> Path:
    return VENV / ("Scripts/python.exe" if WINDOWS else "bin/python")


def child_environment() -> dict[str, str]:
    """Our environment without what would redirect another interpreter or a daemon."""
    dropped = {"PYTHONHOME", "PYTHONPATH", "UV_PYTHON", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"}
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in dropped and not name.startswith("MEMLOCKET_")
    }
    # nothing of ours outside .venv: the download caches are removed together with it
    environment.setdefault("PIP_NO_CACHE_DIR", "1")
    environment.setdefault("UV_CACHE_DIR", str(VENV / ".uv-cache"))
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    environment["PIP_NO_INPUT"] = "1"
    environment["ORT_DISABLE_TELEMETRY"] = "1"  # tests import onnxruntime, which would report home
    return environment


def quietly(
    command: list[str], what: str, environment: dict[str, str] | None = None, cwd: Path = ROOT
) -> bool:
    """Run a command; on failure show the end of what it said, unless ``what`` is empty."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=environment or child_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    _running.append(process)
    try:
        output, _ = process.communicate()
    finally:
        if process.poll() is not None:
            _running.remove(process)
    if process.returncode == 0:
        return True
    text = output.decode("utf-8", "replace").strip()
    if text and what:
        print(text[-SHOWN_OUTPUT_CHARACTERS:], file=sys.stderr)
    return False


_running: list[subprocess.Popen[bytes]] = []


def end_children() -> None:
    """End what ``quietly`` started and did not see the end of, with all it started itself."""
    for process in list(_running):
        if process.poll() is None:
            if WINDOWS:
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


# -- interpreter and .venv


def ensure_venv() -> None:
    """Make ``.venv`` unless it works already. Raises Failure with one exact sentence."""
    if _works(venv_python()):
        return
    uv = shutil.which("uv")
    young = sys.version_info[:2] >= MIN_PYTHON
    if not young and uv is None:
        raise Failure(
            f"Memlocket needs Python {_dotted(MIN_PYTHON)} or newer (this is "
            f"{_dotted(sys.version_info[:2])}); install it, or install uv."
        )
    say("making .venv")
    if VENV.exists():
        shutil.rmtree(str(VENV))
    if uv is not None:
        # named, because uv otherwise may want to download another Python
        interpreter = sys.executable if young else f">={_dotted(MIN_PYTHON)}"
        if not quietly([uv, "venv", "--seed", "-p", interpreter, str(VENV)], "uv venv"):
            raise Failure("uv could not make .venv.")
        return
    _venv_with_pip()


def _works(python: Path) -> bool:
    if not python.exists():
        return False
    check = f"import sys, pip; sys.exit(sys.version_info[:2] < {MIN_PYTHON})"
    return quietly([str(python), "-c", check], "")


def _venv_with_pip() -> None:
    if not _has_ensurepip():
        _install_venv_package()
    if not quietly([sys.executable, "-m", "venv", str(VENV)], "venv"):
        shutil.rmtree(str(VENV), ignore_errors=True)
        raise Failure("Python could not make .venv. Try: " + APT_LINE)
    pip = [str(venv_python()), "-m", "pip", "install", "--quiet", "--upgrade", NEW_PIP]
    if not quietly(pip, "pip"):
        raise Failure("pip could not be updated; is the package index reachable?")


def _has_ensurepip() -> bool:
    return quietly([sys.executable, "-c", "import ensurepip, venv"], "")


def _install_venv_package() -> None:
    """As root on Debian the missing package is installed without a question."""
    apt = shutil.which("apt-get")
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    if apt is None or not is_root:
        raise Failure(APT_LINE)
    say("installing python3-venv")
    environment = dict(child_environment(), DEBIAN_FRONTEND="noninteractive")
    install = [apt, "install", "-y", "-q", "--no-install-recommends", "python3-venv"]
    quietly([apt, "update", "-q"], "apt-get update", environment)
    if not quietly(install, "apt-get install", environment) or not _has_ensurepip():
        raise Failure(APT_LINE)


# -- packages


def ensure_packages(name: str) -> None:
    """Install a set, ``base`` or ``dev`` or ``build``, unless its stamp says it is there."""
    ensure_venv()
    if _stamp_is_fresh(name):
        return
    wanted = {
        "base": ["-e", "."],
        "dev": ["-e", ".", "--group", "dev"],
        "build": ["hatchling>=1.27"],
    }[name]
    say(f"installing packages ({name}); about two minutes the first time")
    began = time.time()
    uv = shutil.which("uv")
    if uv is not None:
        # -p always: with UV_PYTHON set, uv would put them into that interpreter
        command = [uv, "pip", "install", "--quiet", "-p", str(venv_python())]
    else:
        command = [str(venv_python()), "-m", "pip", "install", "--quiet"]
    if not quietly(command + wanted, "install"):
        raise Failure("The packages could not be installed; is the package index reachable?")
    say(f"installed in {time.time() - began:.0f} s")
    _write_stamp(name)
    if name == "dev":
        _write_stamp("base")


def _stamp_value() -> str:
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes())
    version = subprocess.run(
        [str(venv_python()), "-c", "import sys; print(sys.version)"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=True,
    ).stdout
    digest.update(version)
    return digest.hexdigest()


def _stamp_is_fresh(name: str) -> bool:
    try:
        return (VENV / (".deps-" + name)).read_text() == _stamp_value()
    except OSError:
        return False


def _write_stamp(name: str) -> None:
    (VENV / (".deps-" + name)).write_text(_stamp_value())


def install_embeddings(local_only: bool) -> bool:
    """The extra ``embed`` by the product's own installer; False when it cannot be had here.

    ``local_only`` takes torch only where pip finds a wheel on this machine.
    """
    if _stamp_is_fresh("embed"):
        return True
    say("installing embeddings; a few minutes the first time")
    command = [str(venv_python()), "-m", "memory_manager.cli.main", "embeddings", "install"]
    command += ["--no-prepare", *(["--local-only"] if local_only else [])]
    environment = child_environment()
    if TORCH_SPEC_VARIABLE in os.environ:
        environment[TORCH_SPEC_VARIABLE] = os.environ[TORCH_SPEC_VARIABLE]
    if not quietly(command, "embeddings", environment):
        return False
    _write_stamp("embed")
    return True


# -- test and lint


def run_tests(pytest_arguments: list[str], full: bool) -> int:
    """All tests in ``.venv``; returns pytest's exit code, whose closing line is the last one."""
    ensure_packages("dev")
    if not install_embeddings(local_only=not full):
        say("no embeddings: their tests skip (dev.py test --full downloads torch)")
    environment = child_environment()
    environment.pop("PIP_NO_INPUT", None)
    return subprocess.run(
        [str(venv_python()), "-m", "pytest", *PARALLEL, *pytest_arguments],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        check=False,
    ).returncode


def run_lint() -> int:
    """Every linter, also after one of them found something; 1 if any did."""
    ensure_packages("dev")
    python, scripts = str(venv_python()), venv_python().parent
    steps = [
        ("ruff check", [python, "-m", "ruff", "check", "."]),
        ("ruff format", [python, "-m", "ruff", "format", "--check", "."]),
        ("mypy", [python, "-m", "mypy"]),
        ("pyright", [python, "-m", "pyright", "--pythonpath", python]),
        ("lint-imports", [str(scripts / "lint-imports")]),
    ]
    failed = []
    for name, command in steps:
        print("== " + name, flush=True)
        done = subprocess.run(
            command, cwd=ROOT, env=child_environment(), stdin=subprocess.DEVNULL, check=False
        )
        if done.returncode != 0:
            failed.append(name)
    print("lint: " + ("failed: " + ", ".join(failed) if failed else "clean"), flush=True)
    return 1 if failed else 0
