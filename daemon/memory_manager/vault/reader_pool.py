"""A few reading connections, opened when first needed and handed out last-used-first.

Last-used-first keeps one warm page cache in front instead of several lukewarm ones. Every read sees
one snapshot and ends in a rollback, so nothing read here can write.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from memory_manager.vault.connection import pages_are_whole
from memory_manager.vault.database_errors import read_error
from memory_manager.vault.errors import LockReason, NeedsRepair, VaultLocked

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

T = TypeVar("T")


class ReaderPool:
    """At most ``size`` connections; a caller beyond that waits for one to come back."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        size: int,
        on_damage: Callable[[], None] = lambda: None,
    ) -> None:
        self._connect = connect
        self._on_damage = on_damage
        self._size = size
        self._condition = threading.Condition()
        self._idle: list[Connection] = []
        self._lent: set[Connection] = set()
        self._opening = 0
        self._closed = False

    def run(self, work: Callable[[Connection], T]) -> T:
        """``work`` on the calling thread inside one read transaction.

        Raises VaultLocked once the pool is closing, NeedsRepair for a damaged page.
        """
        connection = self._acquire()
        whole = True
        try:
            connection.execute("BEGIN")
            try:
                result = work(connection)
            finally:
                whole = pages_are_whole(connection)
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        except Exception as error:
            known = read_error(error)
            if known is None and whole:
                raise
            raise known or NeedsRepair() from None
        finally:
            if not whole:
                self._on_damage()
            self._release(connection, keep=whole)
        if not whole:
            # no error was raised, but what was read may hold zeros in place of a damaged page
            raise NeedsRepair
        return result

    def close(self, timeout_seconds: float) -> None:
        """Refuse new reads, wait for the running ones, then interrupt them; close everything."""
        deadline = time.monotonic() + timeout_seconds
        with self._condition:
            self._closed = True
            self._condition.notify_all()
            self._condition.wait_for(lambda: not self._busy(), max(0.0, timeout_seconds))
            if self._busy():
                for connection in self._lent:
                    with contextlib.suppress(Exception):  # it may close at this very moment
                        connection.interrupt()
                self._condition.wait_for(
                    lambda: not self._busy(), max(1.0, deadline - time.monotonic())
                )
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _busy(self) -> bool:
        return bool(self._lent) or self._opening > 0

    def _acquire(self) -> Connection:
        with self._condition:
            self._condition.wait_for(
                lambda: (
                    self._closed or bool(self._idle) or len(self._lent) + self._opening < self._size
                )
            )
            if self._closed:
                raise VaultLocked(LockReason.USER)
            if self._idle:
                connection = self._idle.pop()
                self._lent.add(connection)
                return connection
            self._opening += 1
        try:
            connection = self._connect()
        except BaseException:
            with self._condition:
                self._opening -= 1
                self._condition.notify_all()
            raise
        with self._condition:
            self._opening -= 1
            self._lent.add(connection)
        return connection

    def _release(self, connection: Connection, *, keep: bool) -> None:
        with self._condition:
            if keep and not self._closed:
                self._lent.discard(connection)
                self._idle.append(connection)
                self._condition.notify_all()
                return
        try:
            connection.close()
        finally:
            # only now: when ``close`` returns, no connection of the pool is open any more
            with self._condition:
                self._lent.discard(connection)
                self._condition.notify_all()
