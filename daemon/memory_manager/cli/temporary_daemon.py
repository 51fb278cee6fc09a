"""A real daemon on a vault that lives only as long as a ``with`` block: self-test and bench.

The vault is encrypted as always; its key file lies beside it and goes with it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from memory_manager.base.errors import MemlocketError
from memory_manager.cli import service_process

ABANDONED_SECONDS = 600.0
_KEYRING_OFF = "keyring.backends.null.Keyring"


@dataclasses.dataclass(slots=True)
class TemporaryDaemon:
    """``environ`` leads a client to it; ``home`` holds every file of it."""

    home: Path
    environ: Mapping[str, str]
    options: Sequence[str]
    _stopped: bool = True

    def start(self) -> None:
        """Also again after ``stop``, on the same vault. Raises StartFailed."""
        self._stopped = False  # also one that did not answer in time is to end
        service_process.start_daemon(self.environ, self.home / "log", self.options)

    def stop(self) -> None:
        """End it before its files go; a second call does nothing."""
        if not self._stopped:
            self._stopped = True
            service_process.stop_daemon(self.environ)


@contextlib.contextmanager
def _held(home: Path) -> Generator[None]:
    """Lock the folder while this process lives; BlockingIOError if another one holds it."""
    descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _remove_abandoned(environ: Mapping[str, str], prefix: str) -> None:
    """What a killed run left behind, its daemon too: ours, old, and held by nobody."""
    for home in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError, MemlocketError):
            info = home.lstat()
            is_ours = stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid()
            if not is_ours or time.time() - info.st_mtime < ABANDONED_SECONDS:
                continue
            with _held(home):
                service_process.stop_daemon({**environ, "MEMLOCKET_HOME": os.fspath(home)})
                shutil.rmtree(home)


@contextlib.contextmanager
def temporary_daemon(
    environ: Mapping[str, str],
    purpose: str,
    *,
    models: Path | None = None,
    options: Sequence[str] = (),
) -> Generator[TemporaryDaemon]:
    """Make a home, start a daemon on it, take both away at the end, also after Ctrl-C.

    ``models`` is a folder of prepared models to use; without one there are only words. Raises
    StartFailed and what making a vault raises.
    """
    from memory_manager.vault.key_file import create_key_file
    from memory_manager.vault.setup import create_vault

    prefix = f"memlocket-{purpose}-"
    _remove_abandoned(environ, prefix)
    with tempfile.TemporaryDirectory(prefix=prefix) as folder, _held(Path(folder)):
        home = Path(folder)
        key_file = home / "vault.key"
        daemon = TemporaryDaemon(
            home,
            {**environ, "MEMLOCKET_HOME": folder, "PYTHON_KEYRING_BACKEND": _KEYRING_OFF},
            ("--insecure-key-file", os.fspath(key_file), *options),
        )
        if models is not None and models.is_dir():
            (home / "models").symlink_to(models.absolute(), target_is_directory=True)
        create_key_file(key_file)
        create_vault(
            home / "vault", passphrase=None, insecure_key_file=key_file, with_recovery=False
        )
        try:
            daemon.start()
            yield daemon
        finally:
            daemon.stop()
