"""Running a client's own command for its list of servers, such as ``claude mcp add``."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final

from memory_manager.cli.errors import ClientCommandFailed

TIMEOUT_SECONDS: Final = 60.0
SHOWN_CHARACTERS: Final = 300
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def find_program(program: str, environ: Mapping[str, str]) -> str | None:
    return shutil.which(program, path=environ.get("PATH"))


def run_program(command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Raises ClientCommandFailed with its last words when it fails or hangs."""
    try:
        done = subprocess.run(  # noqa: S603  the program was found in PATH; no shell is involved
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = "it did not end" if isinstance(error, subprocess.TimeoutExpired) else str(error)
        raise ClientCommandFailed(f"{command[0]}: {reason}") from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace")
        said = _COLOURS.sub("", said).strip()
        raise ClientCommandFailed(
            f"{command[0]} ended with exit code {done.returncode}: {said[-SHOWN_CHARACTERS:]}"
        )
