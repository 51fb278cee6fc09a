"""A settings file of another program: read as it is, backed up once, replaced in one step.

Its mode, byte order mark and line ends stay; a link is followed to what it names. Contract:
desktop.md 12.4, rules 3 and 7.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import secrets
import stat
from pathlib import Path
from typing import Final

from memory_manager.base.private_files import sync_directory
from memory_manager.cli.errors import SettingsRefused

MAX_BYTES: Final = 32 * 1024 * 1024
BACKUP_SUFFIX: Final = ".before-memlocket"
_NEW_FILE_MODE: Final = 0o600  # some of these files hold secrets of others
_TEMPORARY: Final = ".memlocket-"


@dataclasses.dataclass(frozen=True, slots=True)
class SettingsFile:
    """What ``path`` held when it was read; ``target`` is where its link leads, ``text`` None
    where no file is.
    """

    path: Path
    target: Path
    text: str | None
    mode: int = _NEW_FILE_MODE

    @property
    def newline(self) -> str:
        first = (self.text or "").partition("\n")[0]
        return "\r\n" if first.endswith("\r") and "\n" in (self.text or "") else "\n"

    @property
    def digest(self) -> str | None:
        """SHA-256 of the content, None where no file is."""
        return None if self.text is None else hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def backup(self) -> Path:
        return self.target.with_name(self.target.name + BACKUP_SUFFIX)


def read_settings(path: Path) -> SettingsFile:
    """Raises SettingsRefused for what is no ordinary UTF-8 file of ours."""
    target = Path(os.path.realpath(path))
    try:
        info = target.stat()
    except FileNotFoundError:
        if path.is_symlink() and not target.parent.is_dir():
            raise SettingsRefused(f"{path} is a link to nowhere.") from None
        return SettingsFile(path, target, None)
    except OSError as error:
        raise SettingsRefused(f"{path} cannot be read: {error.strerror}.") from None
    if not stat.S_ISREG(info.st_mode):
        raise SettingsRefused(f"{path} is not a file.")
    if hasattr(os, "getuid") and info.st_uid != os.getuid():
        raise SettingsRefused(f"{path} belongs to another user.")
    if info.st_size > MAX_BYTES:
        raise SettingsRefused(f"{path} is larger than a settings file can be.")
    try:
        text = target.read_bytes().decode("utf-8")
    except OSError as error:
        raise SettingsRefused(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SettingsRefused(f"{path} is not UTF-8 text.") from None
    return SettingsFile(path, target, text, stat.S_IMODE(info.st_mode))


def write_settings(before: SettingsFile, text: str | None, *, back_up: bool = True) -> None:
    """Replace what ``before`` read, atomically; ``text`` None removes the file.

    Raises SettingsRefused if the file changed since it was read, or cannot be written.
    """
    target = before.target
    try:
        if read_settings(before.path).text != before.text:
            raise SettingsRefused(f"{before.path} was changed by another program; try again.")
        if text is None:
            target.unlink()
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        if back_up:
            keep_backup(before)
        temporary = target.with_name(f".{target.name}{_TEMPORARY}{secrets.token_hex(6)}")
        _write_new(temporary, text, before.mode)
        try:
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
        sync_directory(target.parent)
    except OSError as error:
        raise SettingsRefused(f"{before.path} cannot be written: {error.strerror}.") from None


def keep_backup(settings: SettingsFile) -> None:
    """Copy the file beside itself, once: an older copy is never replaced."""
    if settings.text is None or settings.backup.exists():
        return
    try:
        _write_new(settings.backup, settings.text, settings.mode)
    except OSError as error:
        raise SettingsRefused(f"{settings.backup} cannot be written: {error.strerror}.") from None


def drop_backup(settings: SettingsFile, text: str | None) -> None:
    """Remove our backup if the file is again what it was, so that nothing of ours stays."""
    with contextlib.suppress(OSError):
        kept = settings.backup.read_bytes()
        if text is not None and kept == text.encode():
            settings.backup.unlink()


def _write_new(path: Path, text: str, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(path, flags, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(text.encode())
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
    except BaseException:
        path.unlink()  # half a backup would pass for the backup from then on
        raise


def _sweep(target: Path) -> None:
    """Temporary files that a killed run of ours left beside the file."""
    for left in target.parent.glob(f".{_escaped(target.name)}{_TEMPORARY}*"):
        with contextlib.suppress(OSError):
            left.unlink()


def _escaped(name: str) -> str:
    return "".join(f"[{c}]" if c in "*?[" else c for c in name)
