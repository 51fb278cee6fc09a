"""Where Memlocket keeps its files, in plain Python so that the stdio shim starts fast.

Contract: desktop.md 2 and 11.1. ``MEMLOCKET_HOME`` overrides every directory at once. A test
compares the table with platformdirs.
"""

from __future__ import annotations

import dataclasses
import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

_NAME = "memlocket"


@dataclasses.dataclass(frozen=True, slots=True)
class Directories:
    """Absolute directories of one installation; ``home`` is MEMLOCKET_HOME or None."""

    data: Path
    config: Path
    log: Path
    cache: Path
    runtime: Path
    home: Path | None

    @property
    def vault(self) -> Path:
        return self.data / "vault"

    @property
    def models(self) -> Path:
        return self.data / "models"

    @property
    def clients(self) -> Path:
        return self.data / "clients"


def _user_home(environ: Mapping[str, str]) -> Path:
    if home := environ.get("HOME"):
        return Path(home)
    return Path.home()


def _usable_xdg_runtime(environ: Mapping[str, str]) -> Path | None:
    value = environ.get("XDG_RUNTIME_DIR")
    return Path(value) if value and _is_private(Path(value)) else None


def _is_private(path: Path) -> bool:
    try:
        info = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.getuid() and not info.st_mode & 0o077


def directories(
    environ: Mapping[str, str] = os.environ, platform: str = sys.platform
) -> Directories:
    """The directories for this environment; creates nothing."""
    if value := environ.get("MEMLOCKET_HOME"):
        home = Path(value).absolute()
        return Directories(home, home / "config", home / "log", home / "cache", home / "run", home)
    if platform == "darwin":
        library = _user_home(environ) / "Library"
        data = library / "Application Support" / _NAME
        return Directories(
            data, data, library / "Logs" / _NAME, library / "Caches" / _NAME, data / "run", None
        )
    if platform == "win32":
        data = Path(environ.get("LOCALAPPDATA") or _user_home(environ) / "AppData/Local") / _NAME
        return Directories(data, data, data / "Logs", data / "Cache", data / "run", None)
    user = _user_home(environ)
    data = Path(environ.get("XDG_DATA_HOME") or user / ".local/share") / _NAME
    runtime = _usable_xdg_runtime(environ)
    return Directories(
        data=data,
        config=Path(environ.get("XDG_CONFIG_HOME") or user / ".config") / _NAME,
        log=Path(environ.get("XDG_STATE_HOME") or user / ".local/state") / _NAME / "log",
        cache=Path(environ.get("XDG_CACHE_HOME") or user / ".cache") / _NAME,
        runtime=runtime / _NAME if runtime else data / "run",
        home=None,
    )


def folder_identity(folder: Path) -> str:
    """``device:inode``: a copy of a folder is another one, a link to it is not. OSError without it.

    A discovery file says by this for which folder it was written.
    """
    info = folder.stat()
    return f"{info.st_dev:x}:{info.st_ino:x}"


def runtime_candidates(
    environ: Mapping[str, str] = os.environ, platform: str = sys.platform
) -> tuple[Path, ...]:
    """Where a client looks for ``daemon.json``, in this order (desktop.md 11.1)."""
    own = directories(environ, platform)
    if own.home is not None:
        return (own.runtime,)
    found = [own.runtime]
    if platform not in ("darwin", "win32"):
        login = Path(f"/run/user/{os.getuid()}")
        if _is_private(login):
            found.append(login / _NAME)
    found.append(own.data / "run")
    return tuple(dict.fromkeys(found))
