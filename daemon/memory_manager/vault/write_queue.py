"""The single writer: one thread, one connection, many units of work per commit.

While one commit waits for the disk, the next units queue up and share the following one (group
commit). Each unit has a savepoint of its own, so one that fails takes nothing with it; a commit
that fails takes all of them, and nothing of it is stored. Contract: vault.md 4.3 and 9.1.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from memory_manager.base.times import now_ms
from memory_manager.vault.connection import is_write_failure, pages_are_whole
from memory_manager.vault.database_errors import write_error
from memory_manager.vault.errors import LockReason, NeedsRepair, ReadOnly, VaultLocked
from memory_manager.vault.migrations import bump_generation
from memory_manager.vault.transaction import Transaction

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.anchor import SyncMark

_log = logging.getLogger(__name__)

MAX_UNITS_PER_COMMIT: Final = 256
MAX_BATCH_SECONDS: Final = 0.05
RETRY_SECONDS: Final = 30.0
_CHECKPOINT_RETRY_SECONDS: Final = 1.0
_CHECKPOINT_WAIT_MS: Final = 100


@dataclasses.dataclass(slots=True)
class Unit:
    """One unit of work and what became of it."""

    work: Callable[[Transaction], Any]
    future: concurrent.futures.Future[Any]
    transaction: Transaction | None = None
    result: Any = None
    error: BaseException | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class WriterEvents:
    """What the owner of the writer hears, always on the writer's thread; none of it may raise."""

    committed: Callable[[int, SyncMark | None], None]
    failed: Callable[[BaseException], None]
    recovered: Callable[[], None]
    damaged: Callable[[], None] = lambda: None


class WriteQueue:
    """Owns the writing connection from construction until ``close`` returns."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        events: WriterEvents,
        *,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._connect = connect
        self._connection = connection = self._open_connection()
        self._events = events
        self._retry_seconds = retry_seconds
        self._queue: queue.SimpleQueue[Unit | None] = queue.SimpleQueue()
        self._guard = threading.Lock()  # orders submit against close
        self._closed = False
        self._retry_at: float | None = None  # monotonic; None while writes work
        self._checkpoint_due = False
        (self._busy_timeout_ms,) = connection.execute("PRAGMA busy_timeout").fetchone()
        self._thread = threading.Thread(target=self._run, name="vault-writer", daemon=True)
        self._thread.start()

    @property
    def read_only(self) -> bool:
        """Whether the last write failed for want of a writable disk and none succeeded since."""
        return self._retry_at is not None

    def submit(self, work: Callable[[Transaction], Any]) -> concurrent.futures.Future[Any]:
        """Queue one unit; VaultLocked when closed. The future resolves after COMMIT."""
        unit = Unit(work, concurrent.futures.Future())
        with self._guard:
            if self._closed:
                raise VaultLocked(LockReason.USER)
            self._queue.put(unit)
        return unit.future

    def stop(self, timeout_seconds: float) -> None:
        """Finish what was queued, then end the thread; a unit that hangs is interrupted."""
        with self._guard:
            if not self._closed:
                self._closed = True
                self._queue.put(None)
        self._thread.join(timeout_seconds)
        if self._thread.is_alive():
            self._connection.interrupt()
            self._thread.join(timeout_seconds)

    def close_connection(self) -> None:
        """Empty the write-ahead log and close; after ``stop`` and after the readers are closed."""
        if self._thread.is_alive():
            _log.error("vault_writer_hangs")
            return
        self._checkpoint()
        self._connection.close()

    def _run(self) -> None:
        while True:
            try:
                unit = self._queue.get(timeout=self._wait_seconds())
            except queue.Empty:
                self._idle_work()
                continue
            if unit is None:
                return
            if self._retry_at is not None and not self._try_to_recover():
                self._refuse([unit], ReadOnly())
                continue
            batch, stop = self._collect(unit)
            self._commit(batch)
            if stop:
                return

    def _wait_seconds(self) -> float | None:
        if self._retry_at is not None:
            return max(0.0, self._retry_at - time.monotonic())
        return _CHECKPOINT_RETRY_SECONDS if self._checkpoint_due else None

    def _idle_work(self) -> None:
        if self._retry_at is not None:
            self._try_to_recover()
        elif self._checkpoint_due:
            self._checkpoint()

    def _collect(self, first: Unit) -> tuple[list[Unit], bool]:
        batch = [first]
        while len(batch) < MAX_UNITS_PER_COMMIT:
            try:
                unit = self._queue.get_nowait()
            except queue.Empty:
                break
            if unit is None:
                return batch, True
            batch.append(unit)
        return batch, False

    def _commit(self, batch: list[Unit]) -> None:
        units = [unit for unit in batch if unit.future.set_running_or_notify_cancel()]
        while units:
            # A slow batch is cut, so that nobody waits for 255 strangers' work.
            part, units = self._commit_part(units)
            self._resolve(part)

    def _commit_part(self, units: list[Unit]) -> tuple[list[Unit], list[Unit]]:
        connection = self._connection
        started = time.monotonic()
        taken = 0
        generation: int | None = None
        try:
            connection.execute("BEGIN IMMEDIATE")
            for unit in units:
                taken += 1
                self._run_unit(unit)
                if time.monotonic() - started > MAX_BATCH_SECONDS:
                    break
            if any(unit.error is None for unit in units[:taken]):
                generation = bump_generation(connection)
                if not pages_are_whole(connection):
                    # units may have read zeros in place of a damaged page; nothing of it is kept
                    raise NeedsRepair
                connection.execute("COMMIT")
            else:
                connection.execute("ROLLBACK")
        except BaseException as error:
            self._roll_back()
            self._replace_if_damaged()
            if is_write_failure(error):
                taken = len(units)
                self._enter_read_only(error)
            elif not taken:
                taken = len(units)  # not even BEGIN worked: another try would go on for ever
            known = write_error(error) or error
            for unit in units[:taken]:
                unit.error = unit.error or known
            return units[:taken], units[taken:]
        if generation is not None:
            self._after_commit(units[:taken], generation)
        else:
            self._replace_if_damaged()
        return units[:taken], units[taken:]

    def _open_connection(self) -> Connection:
        connection = self._connect()
        # NORMAL can forget in a power cut what was acknowledged; only outside a transaction.
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _replace_if_damaged(self) -> None:
        """A connection that met a damaged page can hardly read the good ones: take a new one."""
        if pages_are_whole(self._connection):
            return
        self._guarded(self._events.damaged)
        try:
            fresh = self._open_connection()
        except Exception as error:  # the old one stays: writes are refused until the next try
            _log.error("vault_writer_not_reopened", extra={"error_type": type(error).__name__})
            return
        self._connection.close()
        self._connection = fresh

    def _run_unit(self, unit: Unit) -> None:
        """One unit in its savepoint; raises only what ends the whole transaction."""
        connection = self._connection
        unit.transaction = Transaction(connection, now_ms())
        connection.execute("SAVEPOINT unit")
        try:
            unit.result = unit.work(unit.transaction)
            connection.execute("RELEASE unit")
        except BaseException as error:
            # A full disk ends SQLite's transaction, or will at COMMIT: nobody's work is safe then.
            if is_write_failure(error) or not connection.in_transaction:
                raise
            connection.execute("ROLLBACK TO unit")
            connection.execute("RELEASE unit")
            unit.error = write_error(error) or error

    def _after_commit(self, units: list[Unit], generation: int) -> None:
        marks = [u.transaction.mark for u in units if u.error is None and u.transaction is not None]
        mark = next((mark for mark in reversed(marks) if mark is not None), None)
        self._guarded(lambda: self._events.committed(generation, mark))
        for unit in units:
            if unit.error is None and unit.transaction is not None:
                for callback in unit.transaction.callbacks:
                    self._guarded(callback)
                self._checkpoint_due |= unit.transaction.checkpoint_requested
        if self._checkpoint_due:
            self._checkpoint()

    def _resolve(self, units: list[Unit]) -> None:
        for unit in units:
            if unit.error is None:
                unit.future.set_result(unit.result)
            else:
                unit.future.set_exception(unit.error)
            unit.transaction = None

    def _refuse(self, units: list[Unit], error: BaseException) -> None:
        for unit in units:
            if unit.future.set_running_or_notify_cancel():
                unit.future.set_exception(error)

    def _enter_read_only(self, error: BaseException) -> None:
        first = self._retry_at is None
        self._retry_at = time.monotonic() + self._retry_seconds
        if first:
            _log.error("vault_read_only", extra={"error_type": type(error).__name__})
            self._guarded(lambda: self._events.failed(error))

    def _try_to_recover(self) -> bool:
        """When the wait is over, prove with a real commit that writing works again."""
        if self._retry_at is None:
            return True
        if time.monotonic() < self._retry_at:
            return False
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            generation = bump_generation(self._connection)
            self._connection.execute("COMMIT")
        except Exception as error:
            self._roll_back()
            self._enter_read_only(error)
            return False
        self._retry_at = None
        self._guarded(lambda: self._events.committed(generation, None))
        self._guarded(self._events.recovered)
        return True

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except Exception as error:
            _log.error("vault_rollback_failed", extra={"error_type": type(error).__name__})

    def _checkpoint(self) -> None:
        """Move everything out of the write-ahead log and cut it to nothing; again later if a
        reader still needs it.
        """
        connection = self._connection
        try:
            connection.execute(f"PRAGMA busy_timeout = {_CHECKPOINT_WAIT_MS}")
            (busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            self._checkpoint_due = bool(busy)
            connection.execute(f"PRAGMA busy_timeout = {self._busy_timeout_ms}")
        except Exception as error:
            self._checkpoint_due = True
            _log.warning("vault_checkpoint_failed", extra={"error_type": type(error).__name__})

    def _guarded(self, callback: Callable[[], object]) -> None:
        """A listener's mistake must not turn a durable write into a reported failure."""
        try:
            callback()
        except Exception as error:
            _log.error("vault_listener_failed", extra={"error_type": type(error).__name__})
