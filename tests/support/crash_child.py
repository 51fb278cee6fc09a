"""Runs one act on a vault and kills itself: ``crash_child.py ACT ROOT KILL_AT``.

``KILL_AT`` is the number of the change to a file below ROOT before which the process dies (counted
with Python's audit events), or ``t`` and a number of milliseconds. It prints ``begin`` when the act
starts and exits 0 when the act ended first.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vault_harness import OTHER_PASSPHRASE, PASSPHRASE, VaultHome

from memory_manager.vault.restore import restore_backup

_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_change(root: str, number: int) -> None:
    seen = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event == "open":
            path, _, flags = arguments
            if not isinstance(flags, int) or not flags & _WRITING:
                return
        elif event in _CHANGES:
            path = arguments[0]
        else:
            return
        if isinstance(path, str | os.PathLike) and os.fspath(path).startswith(root):
            seen += 1
            if seen == number:
                die()

    sys.addaudithook(hook)


def change_passphrase(home: VaultHome, armed: Callable[[], None]) -> None:
    lifecycle = home.lifecycle()
    armed()
    lifecycle.change_passphrase(PASSPHRASE, OTHER_PASSPHRASE)


def rekey(home: VaultHome, armed: Callable[[], None]) -> None:
    lifecycle = home.lifecycle()
    lifecycle.unlock_with_passphrase(PASSPHRASE)
    armed()
    lifecycle.rekey(PASSPHRASE)
    lifecycle.close()


def accept_rollback(home: VaultHome, armed: Callable[[], None]) -> None:
    lifecycle = home.lifecycle()
    lifecycle.unlock_with_passphrase(PASSPHRASE)
    armed()
    lifecycle.accept_rollback()
    lifecycle.close()


def setup(home: VaultHome, armed: Callable[[], None]) -> None:
    armed()
    home.create()


def restore(home: VaultHome, armed: Callable[[], None]) -> None:
    from memory_manager.vault import argon

    armed()
    restore_backup(
        home.root / "backup.tar",
        home.directory,
        passphrase=PASSPHRASE,
        parameters=argon.FLOOR,
    )


ACTS = {
    "passphrase": change_passphrase,
    "rekey": rekey,
    "accept": accept_rollback,
    "setup": setup,
    "restore": restore,
}


def main() -> None:
    act, root, kill_at = sys.argv[1:]

    def armed() -> None:
        print("begin", flush=True)
        if kill_at.startswith("t"):
            timer = threading.Timer(int(kill_at[1:]) / 1000, die)
            timer.daemon = True
            timer.start()
        else:
            die_at_change(root, int(kill_at))

    ACTS[act](VaultHome(Path(root)), armed)


if __name__ == "__main__":
    main()
