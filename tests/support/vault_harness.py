"""A whole vault in a temporary folder for tests: real SQLCipher, real Argon2id at its floor.

Also clocks that tests move by hand and a keyring backend that lives in this process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keyring as keyring_library
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked, PasswordDeleteError

from memory_manager.vault import argon
from memory_manager.vault.credential_slots import Passphrase
from memory_manager.vault.lifecycle import OpenContext, VaultLifecycle
from memory_manager.vault.opening import VaultKeys, unwrap_keys
from memory_manager.vault.os_keyring import OsKeyring, find_keyring
from memory_manager.vault.paths import VaultPaths
from memory_manager.vault.setup import SetupResult, create_vault
from memory_manager.vault.status import VaultState
from memory_manager.vault.store import Store

PASSPHRASE = "cobalt heron violin ledger"
OTHER_PASSPHRASE = "violet tundra kettle orbit"
DEADLINE_SECONDS = 20.0


class ProcessKeyring(KeyringBackend):
    """A real backend whose items live in this process; may be told to refuse or to hang."""

    priority = 0.5  # type: ignore[assignment]  # keyring reads a plain number

    def __init__(self) -> None:
        super().__init__()
        self.items: dict[tuple[str, str], str] = {}
        self.locked = False
        self.release = threading.Event()
        self.release.set()

    def _answer(self) -> None:
        self.release.wait()
        if self.locked:
            raise KeyringLocked("locked")

    def get_password(self, service: str, username: str) -> str | None:
        self._answer()
        return self.items.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._answer()
        self.items[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._answer()
        try:
            del self.items[service, username]
        except KeyError:
            raise PasswordDeleteError("no such item") from None

    def item(self, prefix: str) -> str:
        """The name of the one item whose name starts with ``prefix``."""
        (name,) = [name for _, name in self.items if name.startswith(prefix)]
        return name


@contextlib.contextmanager
def current_keyring(backend: KeyringBackend) -> Iterator[None]:
    """Make ``backend`` the one that the keyring library gives out."""
    before = keyring_library.get_keyring()
    keyring_library.set_keyring(backend)
    try:
        yield
    finally:
        keyring_library.set_keyring(before)


def accepted(backend: KeyringBackend, timeout_seconds: float = 10.0) -> OsKeyring:
    """``backend`` as the vault sees it, accepted by name."""
    with current_keyring(backend):
        found = find_keyring(also_accept=[type(backend)], timeout_seconds=timeout_seconds)
    assert found is not None
    return found


class FakeClocks:
    """Wall clock and monotonic clock that only move when told."""

    def __init__(self) -> None:
        self.wall_now = 1_800_000_000.0
        self.now = 1_000.0

    def wall(self) -> float:
        return self.wall_now

    def monotonic(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.wall_now += seconds
        self.now += seconds


def open_store(connect: Callable[[], Any], context: OpenContext) -> Store:
    """What the service does, with a retry short enough for a test."""
    return Store(
        connect,
        on_commit=context.on_commit,
        on_write_failure=context.on_write_failure,
        on_write_recovered=context.on_write_recovered,
        on_damage=context.on_damage,
        retry_seconds=0.2,
        read_only=context.read_only,
    )


@dataclasses.dataclass(slots=True)
class VaultHome:
    """A data directory with a vault, and the means to open, copy and inspect it."""

    root: Path
    keyring: OsKeyring | None = None
    result: SetupResult | None = None

    @property
    def directory(self) -> Path:
        return self.root / "vault"

    @property
    def paths(self) -> VaultPaths:
        return VaultPaths(self.directory)

    def create(self, **options: Any) -> VaultHome:
        given: dict[str, Any] = {
            "passphrase": PASSPHRASE,
            "keyring": self.keyring,
            "parameters": argon.FLOOR,
        }
        self.result = create_vault(self.directory, **(given | options))
        return self

    def lifecycle(self, **options: Any) -> VaultLifecycle:
        given: dict[str, Any] = {
            "open_store": open_store,
            "keyring": self.keyring,
            "tick_seconds": None,
        }
        return VaultLifecycle(self.directory, **(given | options))

    @contextlib.contextmanager
    def opened(self, **options: Any) -> Iterator[VaultLifecycle]:
        """Unlocked with the passphrase; closed afterwards."""
        lifecycle = self.lifecycle(**options)
        try:
            lifecycle.unlock_with_passphrase(PASSPHRASE)
            yield lifecycle
        finally:
            lifecycle.close()

    def keys(self, passphrase: str = PASSPHRASE) -> VaultKeys:
        return unwrap_keys(self.paths, Passphrase(passphrase))

    def save(self, name: str) -> Path:
        """Copy the whole vault aside."""
        copy = self.root.parent / f"{self.root.name}-{name}"
        ignore = shutil.ignore_patterns(".*.tmp")  # the anchor is being written meanwhile
        shutil.copytree(self.directory, copy, ignore=ignore)
        return copy

    def put_back(self, copy: Path, *names: str) -> None:
        """Replace the vault, or the named files of it, by a copy made before."""
        if not names:
            shutil.rmtree(self.directory)
            shutil.copytree(copy, self.directory)
            return
        for name in names:
            (self.directory / name).unlink(missing_ok=True)
            shutil.copy2(copy / name, self.directory / name)


def write_note(lifecycle: VaultLifecycle, text: str) -> None:
    """One durable write of ``text``, acknowledged when this returns."""
    lifecycle.store.submit(
        lambda transaction: transaction.connection.execute(
            "INSERT INTO vault_state(key, value) VALUES(?, ?)", (f"note-{text}", text)
        )
    ).result()


def notes(lifecycle: VaultLifecycle) -> list[str]:
    """What ``write_note`` stored, in key order."""

    def read(connection: Any) -> list[str]:
        rows = connection.execute(
            "SELECT value FROM vault_state WHERE key LIKE 'note-%' ORDER BY key"
        ).fetchall()
        return [row[0] for row in rows]

    return lifecycle.store.read_now(read)


def wait_for(condition: Callable[[], bool], seconds: float = DEADLINE_SECONDS) -> None:
    """Poll until ``condition`` holds; AssertionError at the deadline."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.01)


def run_and_kill(act: str, root: Path, kill_at: str) -> bool:
    """Run an act of ``crash_child`` in a process of its own; whether it was killed."""
    support = Path(__file__).parent
    ended = subprocess.run(
        [sys.executable, str(support / "crash_child.py"), act, str(root), kill_at],
        env=os.environ | {"PYTHONPATH": str(support)},
        capture_output=True,
        timeout=120,
    )
    assert ended.stdout.startswith(b"begin"), ended.stderr.decode()[-2000:]
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr.decode()[-2000:]
    return ended.returncode != 0


def fill(disk: Path, leave_bytes: int) -> None:
    """Fill the file system of ``disk`` with one file, ``filler``, up to ``leave_bytes``."""
    space = os.statvfs(disk)
    (disk / "filler").write_bytes(bytes(space.f_bavail * space.f_frsize - leave_bytes))


def timed(home: VaultHome, clocks: FakeClocks, **options: Any) -> VaultLifecycle:
    return home.lifecycle(wall_clock=clocks.wall, clock=clocks.monotonic, **options)


def reason_of(lifecycle: VaultLifecycle) -> tuple[VaultState, str | None]:
    status = lifecycle.status()
    return status.state, status.reason


def stand_at_now(clocks: FakeClocks) -> None:
    """Setup stamps the real time into the anchor; the fake clocks start there."""
    clocks.wall_now = time.time()
