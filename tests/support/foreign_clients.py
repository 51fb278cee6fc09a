"""Public clients that tests run unmodified, each in an environment of its own.

The Hermes host pins its dependencies, so it gets a virtual environment; the JavaScript clients get
a folder of node modules. Both lie beside the packages of the running interpreter and are made once.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Final

import pytest

HERMES: Final = ("hermes-agent==0.19.0", "hermes-xmemo==1.2.1")
NODE_PACKAGES: Final = {
    "@modelcontextprotocol/inspector": "2.12.0",
    "@modelcontextprotocol/sdk": "1.32.2",
    "mcp-remote": "0.15.1",
}
INSTALL_SECONDS: Final = 600.0
_FOLDER: Final = Path(sys.prefix) / "memlocket-test-clients"


def hermes_python() -> Path:
    """The interpreter of an environment with the Hermes host and its XMemo plugin."""
    home = _FOLDER / "-".join(["hermes", *(spec.partition("==")[2] for spec in HERMES)])
    python, finished = home / "bin" / "python", home / "finished"
    if not finished.exists():
        shutil.rmtree(home, ignore_errors=True)
        venv.create(home, with_pip=True)
        _run([str(python), "-m", "pip", "install", "--quiet", *HERMES], home)
        finished.touch()
    return python


def node_folder() -> Path:
    """A folder whose ``node_modules`` hold the JavaScript clients."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("needs npm and node (on Debian: apt-get install npm)")
    home = _FOLDER / "-".join(["node", *NODE_PACKAGES.values()])
    finished = home / "finished"
    if not finished.exists():
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        manifest = {"private": True, "type": "module", "dependencies": NODE_PACKAGES}
        (home / "package.json").write_text(json.dumps(manifest))
        quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
        _run(["npm", "install", *quiet], home)
        finished.touch()
    return home


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode("utf-8", "replace")[-2000:]
