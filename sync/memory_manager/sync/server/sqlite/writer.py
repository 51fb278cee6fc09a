"""The single writer: one thread, one connection, the pushes of many requests per commit.

While one commit waits for the disk, further units queue up and share the next one. Each has a
savepoint of its own, so a refused one takes nothing with it; a commit that fails takes all.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from memory_manager.sync.server.refusals import StorageUnavailable
from memory_manager.sync.server.sqlite.database import Work, connect, is_outside_error

T = TypeVar("T")

MAX_UNITS_PER_COMMIT: Final = 256
MAX_BATCH_SECONDS: Final = 0.1
CACHE_KIB: Final = 65_536  # the indexes by hash are written at random places

_log = logging.getLogger(__name__)


@dataclasses.dataclass(slots=True)
class _Unit:
    work: Work[Any]
    committed: Callable[[Any], object] | None
    future: concurrent.futures.Future[Any]
    result: Any = None
    error: BaseException | None = None


class Writer:
    """Owns the writing connection from construction until ``close`` returns."""

    def __init__(self, path: Path) -> None:
        self._connection = connect(path)
        self._connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        self._queue: queue.SimpleQueue[_Unit | None] = queue.SimpleQueue()
        self._guard = threading.Lock()  # orders submit against close
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="sync-storage-writer", daemon=True)
        self._thread.start()

    def submit(
        self, work: Work[T], committed: Callable[[T], object] | None = None
    ) -> concurrent.futures.Future[T]:
        """Queue one unit; the future resolves after COMMIT, and after ``committed``, which gets
        the result on the writer's thread whether or not anybody still waits.
        """
        unit = _Unit(work, committed, concurrent.futures.Future())
        with self._guard:
            if self._closed:
                raise StorageUnavailable
            self._queue.put(unit)
        return unit.future

    def close(self) -> None:
        """Finish what was queued, empty the write-ahead log, close."""
        with self._guard:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join()
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            _log.warning("server_storage_checkpoint", extra={"error_type": type(error).__name__})
        self._connection.close()

    def _run(self) -> None:
        while (unit := self._queue.get()) is not None:
            units, stop = self._collect(unit)
            units = [unit for unit in units if unit.future.set_running_or_notify_cancel()]
            while units:
                # a slow batch is cut, so that nobody waits for 255 strangers' work
                done, units = self._commit(units)
                for unit in done:
                    _resolve(unit)
            if stop:
                return

    def _collect(self, first: _Unit) -> tuple[list[_Unit], bool]:
        units = [first]
        while len(units) < MAX_UNITS_PER_COMMIT:
            try:
                unit = self._queue.get_nowait()
            except queue.Empty:
                break
            if unit is None:
                return units, True
            units.append(unit)
        return units, False

    def _commit(self, units: list[_Unit]) -> tuple[list[_Unit], list[_Unit]]:
        """Run and commit the first of ``units``; who is done, and who is still to come."""
        connection = self._connection
        started = time.monotonic()
        taken = 0
        try:
            connection.execute("BEGIN IMMEDIATE")
            for unit in units:
                taken += 1
                self._run_unit(unit)
                if time.monotonic() - started > MAX_BATCH_SECONDS:
                    break
            connection.execute("COMMIT")
        except BaseException as error:
            taken = taken or len(units)  # not even BEGIN worked: a retry could go on for ever
            self._roll_back()
            known: BaseException = error
            if is_outside_error(error):
                _log.error("server_storage_write", extra={"error_type": type(error).__name__})
                known = StorageUnavailable()
            for unit in units[:taken]:
                unit.error = unit.error or known
        return units[:taken], units[taken:]

    def _run_unit(self, unit: _Unit) -> None:
        """One unit in its savepoint; raises only what ends the whole transaction."""
        connection = self._connection
        connection.execute("SAVEPOINT unit")
        try:
            unit.result = unit.work(connection)
        except BaseException as error:
            # a full disk ends SQLite's transaction, or will at COMMIT: nobody's work is safe then
            if is_outside_error(error) or not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO unit")
            unit.error = error
        connection.execute("RELEASE unit")

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            _log.error("server_storage_rollback", extra={"error_type": type(error).__name__})


def _resolve(unit: _Unit) -> None:
    if unit.error is not None:
        unit.future.set_exception(unit.error)
        return
    if unit.committed is not None:
        unit.committed(unit.result)
    unit.future.set_result(unit.result)
