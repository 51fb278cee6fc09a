"""The storage of several server processes in one PostgreSQL database (sync.md 10)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from memory_manager.sync.server.batches import prepare
from memory_manager.sync.server.pokes import Pokes
from memory_manager.sync.server.postgres import log, sessions, vaults
from memory_manager.sync.server.postgres.database import Database, open_database
from memory_manager.sync.server.postgres.poke_line import PokeLine
from memory_manager.sync.server.refusals import VaultUnknown
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


@asynccontextmanager
async def postgres_storage(url: str, quota: Quota) -> AsyncGenerator[PostgresStorage]:
    """The storage at ``url`` for the length of the block; see ``open_storage``."""
    async with open_database(url) as database:
        pokes = Pokes()
        poke_line = PokeLine(url, pokes)
        await poke_line.start()
        try:
            yield PostgresStorage(database, quota, pokes, poke_line)
        finally:
            await poke_line.stop()


class PostgresStorage:
    """A ``Storage``; used on the event loop it was made on."""

    def __init__(self, database: Database, quota: Quota, pokes: Pokes, poke_line: PokeLine) -> None:
        self._database = database
        self._quota = quota
        self._pokes = pokes
        self._poke_line = poke_line

    # -- the server

    async def owner(self) -> bytes | None:
        async with self._database.of_server() as line:
            return await vaults.owner(line)

    async def claim(self, public_key: bytes) -> bytes:
        async with self._database.of_server() as line:
            return await vaults.claim(line, public_key)

    # -- vaults and members

    async def add_registration(self, token_hash: bytes, expires_at_ms: int) -> None:
        async with self._database.of_server() as line:
            await vaults.add_registration(line, token_hash, expires_at_ms)

    async def create_vault(
        self,
        vault: bytes,
        genesis: SignedEntry,
        members: Sequence[Member],
        *,
        now_ms: int,
        registration: bytes | None,
    ) -> None:
        async with self._database.of_vault(vault) as line:
            if registration is not None:
                await vaults.use_registration(line, registration, now_ms)
            await vaults.create(line, vault, genesis, members, self._quota)

    async def delete_vault(self, vault: bytes) -> None:
        async with self._database.of_vault(vault) as line:
            await vaults.delete(line, vault)
        self._poke_line.announce(vault)

    async def vault(self, vault: bytes) -> VaultState:
        async with self._database.of_vault(vault) as line:
            return await vaults.vault_state(line, vault, self._quota)

    async def set_quota(self, vault: bytes, quota: OwnQuota) -> None:
        async with self._database.of_vault(vault) as line:
            await vaults.set_quota(line, vault, quota)

    async def device(self, vault: bytes, device: bytes) -> DeviceState:
        async with self._database.of_vault(vault) as line:
            return await vaults.device_state(line, vault, device)

    async def devices(self, vault: bytes) -> tuple[DeviceState, ...]:
        async with self._database.of_vault(vault) as line:
            found = await vaults.device_states(line, vault)
        if not found:
            raise VaultUnknown
        return found

    # -- log

    async def append(
        self, vault: bytes, rows: Sequence[LogRow], checkpoint: Signed[Checkpoint]
    ) -> Appended:
        batch = await asyncio.to_thread(prepare, vault, rows, checkpoint)
        try:
            async with self._database.of_vault(vault) as line:
                return await log.append(line, vault, batch, self._quota)
        finally:  # also when nobody waits for the answer any more, but it was stored
            self._poke_line.announce(vault)

    async def page(self, vault: bytes, after: int, limit: int, max_bytes: int) -> StoredPage:
        async with self._database.snapshot(vault) as line:
            return await log.page(line, vault, after, limit, max_bytes)

    async def wait_beyond(self, vault: bytes, n: int, timeout_seconds: float) -> int:
        async def length() -> int:
            async with self._database.of_vault(vault) as line:
                return (await log.tip_of(line, vault)).n

        return await self._pokes.wait_beyond(length, vault, n, timeout_seconds)

    # -- wraps and roster

    async def put_wraps(self, vault: bytes, wraps: Sequence[WrapRow]) -> int:
        async with self._database.of_vault(vault) as line:
            return await log.put_wraps(line, vault, wraps, self._quota)

    async def wraps(self, vault: bytes, after: int, limit: int) -> WrapPage:
        async with self._database.of_vault(vault) as line:
            return await log.wraps_after(line, vault, after, limit)

    async def roster(self, vault: bytes, after: int) -> RosterPage:
        async with self._database.snapshot(vault) as line:
            return await vaults.roster_page(line, vault, after)

    async def append_roster(
        self,
        vault: bytes,
        idx: int,
        prev: bytes,
        entry: SignedEntry,
        members: Sequence[Member],
    ) -> None:
        async with self._database.of_vault(vault) as line:
            await vaults.append_roster(line, vault, idx, prev, entry, members, self._quota)

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
        async with self._database.of_vault(vault) as line:
            return await sessions.open_session(
                line, vault, device, nonce, token_hash, expires_at_ms
            )

    async def session(self, token_hash: bytes, now_ms: int) -> Session:
        async with self._database.of_server() as line:
            return await sessions.find_session(line, token_hash, now_ms)

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
        async with self._database.of_server() as line:
            await sessions.put_mail(
                line, mailbox, side, payload, origin, max_per_origin, now_ms, expires_at_ms
            )

    async def take_mail(self, mailbox: bytes, side: MailSide, now_ms: int) -> bytes:
        async with self._database.of_server() as line:
            return await sessions.take_mail(line, mailbox, side, now_ms)

    # -- upkeep

    async def expire(self, now_ms: int) -> None:
        async with self._database.of_server() as line:
            await sessions.expire(line, now_ms)

    async def usage(self, now_ms: int) -> Usage:
        async with self._database.of_server() as line:
            return await sessions.usage(line, now_ms)

    async def heads(self) -> tuple[VaultHead, ...]:
        async with self._database.of_server() as line:
            return await vaults.heads(line)
