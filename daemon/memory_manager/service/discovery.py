"""``daemon.json``: where clients find the running daemon. Written last, removed first.

Contract: desktop.md 11.1, 11.2. It holds no secret; readers treat it as a hint.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path

from memory_manager.base.directories import folder_identity
from memory_manager.base.private_files import UnsafeFile, read_private, write_private

DISCOVERY_NAME = "daemon.json"
SCHEMA = 1
_MAX_BYTES = 16_384


@dataclasses.dataclass(frozen=True, slots=True)
class Discovery:
    """One running daemon. ``url``: None while door 2 is off; ``home``: MEMLOCKET_HOME or None."""

    daemon_id: str
    pid: int
    started_at: str
    version: str
    socket: Path
    url: str | None
    runtime_dir: Path
    home: Path | None

    def as_json(self) -> dict[str, object]:
        return {
            "schema": SCHEMA,
            "daemon_id": self.daemon_id,
            "pid": self.pid,
            "started_at": self.started_at,
            "version": self.version,
            "api": ["v1"],
            "socket": str(self.socket),
            "url": self.url,
            "runtime_dir": str(self.runtime_dir),
            "home": None if self.home is None else str(self.home),
        }


def publish(discovery: Discovery, directories: tuple[Path, ...]) -> None:
    """Write the file into each directory, the main one last.

    Each names its own folder: in a copied home it would lead to the vault it was copied from.
    """
    for directory in reversed(directories):
        document = {**discovery.as_json(), "folder": folder_identity(directory)}
        data = json.dumps(document, ensure_ascii=False).encode() + b"\n"
        write_private(directory / DISCOVERY_NAME, data, durable=False)


def withdraw(daemon_id: str, directories: tuple[Path, ...]) -> None:
    """Remove our own file from each directory; one that another daemon wrote stays."""
    for directory in directories:
        if _read(directory).get("daemon_id") == daemon_id:
            with contextlib.suppress(FileNotFoundError):
                (directory / DISCOVERY_NAME).unlink()


def describe_running(directory: Path) -> str | None:
    """Where the file says the daemon is, for a person to read; None if it says nothing."""
    found = _read(directory)
    socket, url = found.get("socket"), found.get("url")
    if not isinstance(socket, str):
        return None
    return f"{socket} and {url}" if isinstance(url, str) else socket


def left_behind_socket(directory: Path) -> Path | None:
    """The socket that the file of an earlier daemon names; only ask while the lock is held."""
    socket = _read(directory).get("socket")
    return Path(socket) if isinstance(socket, str) else None


def _read(directory: Path) -> dict[str, object]:
    try:
        loaded = json.loads(read_private(directory / DISCOVERY_NAME, _MAX_BYTES))
        here = folder_identity(directory)
    except (OSError, ValueError, RecursionError, UnsafeFile):
        return {}
    if not isinstance(loaded, dict) or loaded.get("folder", here) != here:
        return {}  # nothing of ours, or copied with its folder
    return loaded
