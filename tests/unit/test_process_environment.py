"""What the processes that run models inherit: no network, no telemetry, no secret of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from memory_manager.recall.process_environment import child_environment


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
