"""The open vault's database: one writer with group commit, a few readers, and their common end.

Synchronous inside, awaitable outside. It knows nothing of keys: ``connect`` hands out connections
that are keyed, configured and guarded. Contract: vault.md 5.3, 9.1.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar, cast

from memory_manager.vault.errors import LockReason, ReadOnly, VaultLocked
from memory_manager.vault.migrations import read_generation
from memory_manager.vault.reader_pool import ReaderPool
from memory_manager.vault.transaction import Transaction
from memory_manager.vault.write_queue import RETRY_SECONDS, WriteQueue, WriterEvents

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.anchor import SyncMark

T = TypeVar("T")

CLOSE_SECONDS: Final = 10.0


def _nothing(*_: object) -> None:
    return None


class Store:
    """Reads and writes of one open, migrated vault.

    ``connect`` is called from several threads and its connections may be used by any one thread at
    a time. ``on_commit`` gets the new generation, and how far sync is if it went on, on the
    writer's thread after COMMIT and before the callers hear of it; ``on_write_failure`` is called
    once when the disk refuses a write, ``on_write_recovered`` when a write works again (tried every
    ``retry_seconds``), ``on_damage``
    whenever a read or write met a page that is not authentic. ``read_only`` refuses every write
    without asking the disk.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        *,
        readers: int = 3,
        on_commit: Callable[[int, SyncMark | None], None] = _nothing,
        on_write_failure: Callable[[BaseException], None] = _nothing,
        on_write_recovered: Callable[[], None] = _nothing,
        on_damage: Callable[[], None] = _nothing,
        retry_seconds: float = RETRY_SECONDS,
        read_only: bool = False,
    ) -> None:
        self._frozen = read_only
        self._writer = WriteQueue(
            connect,
            WriterEvents(on_commit, on_write_failure, on_write_recovered, on_damage),
            retry_seconds=retry_seconds,
        )
        self._readers = ReaderPool(connect, readers, on_damage)
        self._executor = concurrent.futures.ThreadPoolExecutor(
            readers, thread_name_prefix="vault-reader"
        )

    @property
    def read_only(self) -> bool:
        """Whether writes are refused: for good in a store opened so, else for want of a disk."""
        return self._frozen or self._writer.read_only

    def submit(self, work: Callable[[Transaction], T]) -> concurrent.futures.Future[T]:
        """Queue one unit of work for the writer; the future resolves once it is durable.

        Errors of ``work`` come back unchanged and undo only that unit. ReadOnly, Busy and
        NeedsRepair say that the database refused; VaultLocked that the store is closed.
        """
        if self._frozen:
            refused: concurrent.futures.Future[T] = concurrent.futures.Future()
            refused.set_exception(ReadOnly())
            return refused
        return cast("concurrent.futures.Future[T]", self._writer.submit(work))

    async def write(self, work: Callable[[Transaction], T]) -> T:
        """``submit`` and wait. Cancelling does not undo a unit that has started."""
        return await asyncio.wrap_future(self.submit(work))

    async def read(self, work: Callable[[Connection], T]) -> T:
        """``read_now`` on a reader's thread."""
        loop = asyncio.get_running_loop()
        try:
            reading = loop.run_in_executor(self._executor, self._readers.run, work)
        except RuntimeError:  # of an executor that was shut down
            raise VaultLocked(LockReason.USER) from None
        return await reading

    def read_now(self, work: Callable[[Connection], T]) -> T:
        """``work`` on the calling thread with a pooled connection, inside one snapshot.

        Never from the writer's thread or from inside another read: both could wait for themselves.
        """
        return self._readers.run(work)

    def generation(self) -> int:
        """The number of committed write batches."""
        return self.read_now(read_generation)

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Finish queued writes, refuse new work, empty the write-ahead log, close everything.

        After ``timeout`` seconds what still runs is interrupted. A second call does nothing.
        """
        deadline = time.monotonic() + timeout
        self._writer.stop(timeout)
        self._readers.close(max(0.0, deadline - time.monotonic()))
        # what still waits for a thread finds the pool closed and says so; cancelled, it would say
        # nothing to its caller
        self._executor.shutdown(wait=False)
        self._writer.close_connection()
