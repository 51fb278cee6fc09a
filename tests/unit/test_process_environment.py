"""What the processes that run models inherit: no network, no telemetry, no secret of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memory_manager.recall.process_environment import (
    child_environment,
    limit_arithmetic_threads,
)


def test_only_what_is_needed_is_passed_on() -> None:
    made_up = "made-" + "up"
    found = child_environment({"PATH": "/bin", "HOME": "/h", "MY_TOKEN": made_up, "OMP": "8"})
    assert made_up not in found.values()
    assert found["PATH"] == "/bin"
    assert found["HF_HUB_OFFLINE"] == found["ORT_DISABLE_TELEMETRY"] == "1"


@pytest.mark.embed
def test_onnxruntime_leaves_nothing_in_the_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    environment = child_environment({**os.environ, "HOME": str(home)})
    code = "import onnxruntime as o; print(o.get_available_providers())"
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=50)
    assert list(home.rglob("*")) == []


def test_the_daemon_calculates_on_one_thread_unless_told_otherwise() -> None:
    environ = {"OMP_NUM_THREADS": "4"}
    limit_arithmetic_threads(environ)
    assert environ["OMP_NUM_THREADS"] == "4"
    assert environ["OPENBLAS_NUM_THREADS"] == "1"


def test_the_command_line_leaves_numpy_to_the_daemon() -> None:
    """Its thread count is read when numpy is imported: too late once a command has done it."""
    code = (
        "import sys, memory_manager.cli.main, memory_manager.cli.daemon_command;"
        "import memory_manager.recall.process_environment; print('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
