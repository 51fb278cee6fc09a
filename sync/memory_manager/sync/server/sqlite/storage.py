"""The storage of one server process in a SQLite file (sync.md 10)."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from memory_manager.sync.server.batches import prepare
from memory_manager.sync.server.pokes import Pokes
from memory_manager.sync.server.refusals import VaultUnknown
from memory_manager.sync.server.sqlite import log, sessions, vaults
from memory_manager.sync.server.sqlite.database import Work, open_file, outside_errors
from memory_manager.sync.server.sqlite.readers import Readers
from memory_manager.sync.server.sqlite.writer import Writer
from memory_manager.sync.server.storage import (
    Appended,
    DeviceState,
    MailSide,
    OwnQuota,
    Quota,
    RosterPage,
    Session,
    StoredPage,
    Usage,
    VaultHead,
    VaultState,
    WrapPage,
    WrapRow,
)
from memory_manager.sync.wire.framing import LogRow, Signed
from memory_manager.sync.wire.log import Checkpoint
from memory_manager.sync.wire.roster import Member, SignedEntry

T = TypeVar("T")


@asynccontextmanager
async def sqlite_storage(folder: Path, quota: Quota) -> AsyncGenerator[SqliteStorage]:
    """The storage in ``folder`` for the length of the block; see ``open_storage``."""
    path = await asyncio.to_thread(open_file, folder)
    with outside_errors():
        storage = SqliteStorage(path, quota)
    try:
        yield storage
    finally:
        await asyncio.to_thread(storage.close)


class SqliteStorage:
    """A ``Storage``; used on the event loop it was made on."""

    def __init__(self, path: Path, quota: Quota) -> None:
        self._quota = quota
        self._loop = asyncio.get_running_loop()
        self._pokes = Pokes()
        self._writer = Writer(path)
        self._readers = Readers(path)

    def close(self) -> None:
        """Finish what was asked and close; blocks."""
        self._readers.close()
        self._writer.close()

    # -- the server

    async def owner(self) -> bytes | None:
        return await self._readers.read(vaults.owner)

    async def claim(self, public_key: bytes) -> bytes:
        return await self._write(lambda c: vaults.claim(c, public_key))

    # -- vaults and members

    async def add_registration(self, token_hash: bytes, expires_at_ms: int) -> None:
        await self._write(lambda c: vaults.add_registration(c, token_hash, expires_at_ms))

    async def create_vault(
        self,
        vault: bytes,
        genesis: SignedEntry,
        members: Sequence[Member],
        *,
        now_ms: int,
        registration: bytes | None,
    ) -> None:
        def work(connection: sqlite3.Connection) -> None:
            if registration is not None:
                vaults.use_registration(connection, registration, now_ms)
            vaults.create(connection, vault, genesis, members, self._quota)

        await self._write(work)

    async def delete_vault(self, vault: bytes) -> None:
        await self._write(lambda c: vaults.delete(c, vault), lambda _: self._poke(vault))

    async def vault(self, vault: bytes) -> VaultState:
        return await self._readers.read(lambda c: vaults.vault_state(c, vault, self._quota))

    async def set_quota(self, vault: bytes, quota: OwnQuota) -> None:
        await self._write(lambda c: vaults.set_quota(c, vault, quota))

    async def device(self, vault: bytes, device: bytes) -> DeviceState:
        return await self._readers.read(lambda c: vaults.device_state(c, vault, device))

    async def devices(self, vault: bytes) -> tuple[DeviceState, ...]:
        found = await self._readers.read(lambda c: vaults.device_states(c, vault))
        if not found:
            raise VaultUnknown
        return found

    # -- log

    async def append(
        self, vault: bytes, rows: Sequence[LogRow], checkpoint: Signed[Checkpoint]
    ) -> Appended:
        batch = await asyncio.to_thread(prepare, vault, rows, checkpoint)
        return await self._write(
            lambda c: log.append(c, vault, batch, self._quota), lambda _: self._poke(vault)
        )

    async def page(self, vault: bytes, after: int, limit: int, max_bytes: int) -> StoredPage:
        return await self._readers.read(lambda c: log.page(c, vault, after, limit, max_bytes))

    async def wait_beyond(self, vault: bytes, n: int, timeout_seconds: float) -> int:
        async def length() -> int:
            return (await self._readers.read(lambda c: log.tip_of(c, vault))).n

        return await self._pokes.wait_beyond(length, vault, n, timeout_seconds)

    # -- wraps and roster

    async def put_wraps(self, vault: bytes, wraps: Sequence[WrapRow]) -> int:
        return await self._write(lambda c: log.put_wraps(c, vault, wraps, self._quota))

    async def wraps(self, vault: bytes, after: int, limit: int) -> WrapPage:
        return await self._readers.read(lambda c: log.wraps_after(c, vault, after, limit))

    async def roster(self, vault: bytes, after: int) -> RosterPage:
        return await self._readers.read(lambda c: vaults.roster_page(c, vault, after))

    async def append_roster(
        self,
        vault: bytes,
        idx: int,
        prev: bytes,
        entry: SignedEntry,
        members: Sequence[Member],
    ) -> None:
        await self._write(
            lambda c: vaults.append_roster(c, vault, idx, prev, entry, members, self._quota)
        )

    # -- sessions and mailboxes

    async def open_session(
        self,
        vault: bytes,
        device: bytes,
        *,
        nonce: bytes,
        token_hash: bytes,
        expires_at_ms: int,
    ) -> int:
        return await self._write(
            lambda c: sessions.open_session(c, vault, device, nonce, token_hash, expires_at_ms)
        )

    async def session(self, token_hash: bytes, now_ms: int) -> Session:
        return await self._readers.read(lambda c: sessions.find_session(c, token_hash, now_ms))

    async def put_mail(
        self,
        mailbox: bytes,
        side: MailSide,
        payload: bytes,
        *,
        origin: bytes,
        max_per_origin: int,
        now_ms: int,
        expires_at_ms: int,
    ) -> None:
        await self._write(
            lambda c: sessions.put_mail(
                c, mailbox, side, payload, origin, max_per_origin, now_ms, expires_at_ms
            )
        )

    async def take_mail(self, mailbox: bytes, side: MailSide, now_ms: int) -> bytes:
        return await self._write(lambda c: sessions.take_mail(c, mailbox, side, now_ms))

    # -- upkeep

    async def expire(self, now_ms: int) -> None:
        await self._write(lambda c: sessions.expire(c, now_ms))

    async def usage(self, now_ms: int) -> Usage:
        return await self._readers.read(lambda c: sessions.usage(c, now_ms))

    async def heads(self) -> tuple[VaultHead, ...]:
        return await self._readers.read(vaults.heads)

    # -- inside

    async def _write(self, work: Work[T], committed: Callable[[T], object] | None = None) -> T:
        return await asyncio.wrap_future(self._writer.submit(work, committed))

    def _poke(self, vault: bytes) -> None:
        """From the writer's thread, whether or not the request still waits for its answer."""
        with contextlib.suppress(RuntimeError):  # the loop ended first: nobody waits any more
            self._loop.call_soon_threadsafe(self._pokes.advanced, vault)
