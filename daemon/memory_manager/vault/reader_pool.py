"""A few reading connections, opened when first needed and handed out last-used-first.

Last-used-first keeps one warm page cache in front instead of several lukewarm ones. Every read sees
one snapshot and ends in a rollback, so nothing read here can write.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from memory_manager.vault.database_errors import read_error
from memory_manager.vault.errors import LockReason, VaultLocked

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

T = TypeVar("T")


class ReaderPool:
    """At most ``size`` connections; a caller beyond that waits for one to come back."""

    def __init__(self, connect: Callable[[], Connection], size: int) -> None:
        self._connect = connect
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
        try:
            connection.execute("BEGIN")
            try:
                return work(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        except Exception as error:
            known = read_error(error)
            if known is None:
                raise
            raise known from None
        finally:
            self._release(connection)

    def close(self, timeout_seconds: float) -> None:
        """Refuse new reads, wait for the running ones, then interrupt them; close everything."""
        deadline = time.monotonic() + timeout_seconds
        with self._condition:
            self._closed = True
            self._condition.notify_all()
            self._condition.wait_for(lambda: not self._busy(), max(0.0, timeout_seconds))
            if self._busy():
                for connection in self._lent:
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

    def _release(self, connection: Connection) -> None:
        with self._condition:
            self._lent.discard(connection)
            keep = not self._closed
            if keep:
                self._idle.append(connection)
            self._condition.notify_all()
        if not keep:
            connection.close()
