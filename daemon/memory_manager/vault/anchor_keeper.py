"""Keeps ``anchor.bin`` and its keyring copy close behind the database, never ahead of it.

Contract: vault.md 9.2. ``committed`` is called after a FULL commit; a thread of its own then writes
the file at most once per second and the keyring copy at most once per minute.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable
from pathlib import Path

from memory_manager.base.private_files import write_private
from memory_manager.vault import kdf
from memory_manager.vault.anchor import NO_SYNC, Anchor, SyncMark
from memory_manager.vault.os_keyring import KeyringUnavailable, OsKeyring

FILE_PERIOD_SECONDS = 1.0
COPY_PERIOD_SECONDS = 60.0


def copy_name(install: bytes) -> str:
    """Name of the keyring item that holds the copy."""
    return f"anchor-{install.hex()}"


class AnchorKeeper:
    """Owner of the anchor while a vault is open for writing; ``mac_key`` is wiped by ``close``."""

    def __init__(
        self,
        path: Path,
        anchor: Anchor,
        mac_key: bytearray,
        keyring: OsKeyring | None,
        *,
        on_failure: Callable[[OSError], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._anchor = anchor
        self._written: Anchor | None = None
        self._copied: Anchor | None = None
        self._mac_key = mac_key
        self._keyring = keyring
        self._on_failure = on_failure
        self._clock = clock
        self._file_due = clock()
        self._copy_due = clock() + COPY_PERIOD_SECONDS
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="anchor", daemon=True)

    def start(self) -> None:
        """Write the anchor now, then follow the database in the background."""
        self.flush(copy=True)
        self._thread.start()

    @property
    def anchor(self) -> Anchor:
        """The newest record, written or about to be."""
        return self._anchor

    @property
    def copy_is_current(self) -> bool | None:
        """Whether the last attempt to copy worked; None without a keyring."""
        return None if self._keyring is None else self._copied is not None

    def committed(self, generation: int, mark: SyncMark | None = None) -> None:
        """The database has durably reached ``generation``, and ``mark`` if sync went on with it.
        Cheap; called by the writer thread.
        """
        with self._changed:
            before = self._anchor
            if mark is None:
                progress = dataclasses.replace(before.progress, generation=generation)
                after = dataclasses.replace(before, progress=progress)
            else:
                after = before.at(generation, mark)
            if before.progress.not_after(after.progress):
                self._anchor = after
                self._changed.notify()

    def forget_sync(self) -> None:
        """Lower the sync numbers to zero, on disk before this returns: the owner turns sync off.

        To be called before the database forgets them, on the writer's thread. The keyring's copy
        goes first, so that it is never ahead. KeyringUnavailable or OSError: nothing may change.
        """
        with self._writing, self._changed:
            lower = self._anchor.at(self._anchor.progress.generation, NO_SYNC)
            if self._keyring is not None:
                self._keyring.write(copy_name(lower.identity.install), lower.keyring_copy())
                self._copied = lower
            write_private(self._path, lower.encode(self._mac_key))
            self._anchor = self._written = lower

    def authenticated(self, unix_seconds: int) -> None:
        """A passphrase was entered: on disk before this returns, if the disk allows."""
        with self._changed:
            self._anchor = dataclasses.replace(self._anchor, last_auth=unix_seconds)
        self.flush()

    def flush(self, *, copy: bool = False) -> None:
        """Write what is pending now; with ``copy`` also to the keyring."""
        with self._writing:
            anchor = self._anchor
            if anchor != self._written:
                try:
                    write_private(self._path, anchor.encode(self._mac_key))
                except OSError as error:
                    self._on_failure(error)
                    return
                self._written = anchor
            if copy and self._keyring is not None and anchor != self._copied:
                self._copied = None
                with contextlib.suppress(KeyringUnavailable):
                    name = copy_name(anchor.identity.install)
                    self._keyring.write(name, anchor.keyring_copy())
                    self._copied = anchor

    def close(self) -> None:
        """Stop the thread, write file and copy a last time, wipe the MAC key."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()
        self.flush(copy=True)
        kdf.wipe(self._mac_key)

    def _run(self) -> None:
        while self._wait_until_due():
            now = self._clock()
            copy = now >= self._copy_due
            self.flush(copy=copy)
            self._file_due = now + FILE_PERIOD_SECONDS
            if copy:
                self._copy_due = now + COPY_PERIOD_SECONDS

    def _wait_until_due(self) -> bool:
        """Sleep until something may be written; False when closing."""
        with self._changed:
            while not self._closed:
                now = self._clock()
                file_wait = self._file_due - now
                copy_wait = self._copy_due - now
                if self._anchor != self._written:
                    if file_wait <= 0:
                        return True
                    self._changed.wait(file_wait)
                elif self._keyring is not None and self._anchor != self._copied:
                    if copy_wait <= 0:
                        return True
                    self._changed.wait(copy_wait)
                else:
                    self._changed.wait()
            return False
