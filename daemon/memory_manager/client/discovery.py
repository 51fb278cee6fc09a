"""Finding the running daemon by its discovery file.

The file is a hint: only an answer on the socket proves that somebody is there.
Contract: desktop.md 11.1, 11.2.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from memory_manager.base.directories import folder_identity, runtime_candidates
from memory_manager.base.errors import MemlocketError
from memory_manager.base.private_files import (
    UnsafeFile,
    check_private_directory,
    read_private,
)
from memory_manager.client.errors import ClientTooOld, DaemonNotRunning

DISCOVERY_FILE = "daemon.json"
TOKEN_FILE = "token"  # noqa: S105  the name of the file, not its content
KNOWN_SCHEMA = 1
MAX_DISCOVERY_BYTES = 65_536
MAX_TOKEN_BYTES = 256


@dataclasses.dataclass(frozen=True, slots=True)
class DaemonAddress:
    """What one discovery file says; ``runtime_dir`` is the folder that holds the owner token."""

    daemon_id: str
    pid: int
    version: str
    started_at: str
    socket: Path | None
    url: str | None
    runtime_dir: Path
    home: str | None


def find_daemon(environ: Mapping[str, str] = os.environ) -> DaemonAddress:
    """The first daemon that a discovery file names, in the order of desktop.md 11.1.

    Raises DaemonNotRunning when there is none, UnsafeFile when the only ones found are not
    private, and ClientTooOld for a schema of the future.
    """
    refused: MemlocketError | None = None
    for directory in runtime_candidates(environ):
        try:
            return read_discovery(directory)
        except FileNotFoundError:
            continue
        except UnsafeFile as error:
            refused = refused or error
    raise refused or DaemonNotRunning()


def read_discovery(runtime_dir: Path) -> DaemonAddress:
    """Parse ``<runtime_dir>/daemon.json``; FileNotFoundError when folder or file is absent, or the
    file was copied here with the folder of another daemon.
    """
    check_private_directory(runtime_dir)
    raw = read_private(runtime_dir / DISCOVERY_FILE, MAX_DISCOVERY_BYTES)
    try:
        loaded: object = json.loads(raw)
        if not isinstance(loaded, dict):
            raise ValueError
        document = cast("dict[str, object]", loaded)
        if document.get("schema") != KNOWN_SCHEMA:
            raise ClientTooOld()
        here = folder_identity(runtime_dir)
        if document.get("folder", here) != here:
            raise FileNotFoundError(runtime_dir / DISCOVERY_FILE)
        return _parse(document, runtime_dir)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UnsafeFile(f"{runtime_dir / DISCOVERY_FILE} is not a discovery file.") from None


def _parse(document: Mapping[str, object], found_in: Path) -> DaemonAddress:
    socket, url, home = document.get("socket"), document.get("url"), document.get("home")
    pid = document["pid"]
    if not isinstance(pid, int):
        raise ValueError
    return DaemonAddress(
        daemon_id=str(document["daemon_id"]),
        pid=pid,
        version=str(document.get("version", "")),
        started_at=str(document.get("started_at", "")),
        socket=Path(socket) if isinstance(socket, str) and socket else None,
        url=url if isinstance(url, str) and url else None,
        runtime_dir=Path(str(document.get("runtime_dir") or found_in)),
        home=home if isinstance(home, str) else None,
    )


def owner_token(address: DaemonAddress) -> str | None:
    """The owner token of this daemon start, or None when its file is absent."""
    with contextlib.suppress(FileNotFoundError):
        check_private_directory(address.runtime_dir)
        raw = read_private(address.runtime_dir / TOKEN_FILE, MAX_TOKEN_BYTES)
        return raw.decode("ascii", "replace").strip() or None
    return None
