"""Carries out at the server what was decided here: sends what was granted, removes what left.

Retried until done, with growing pauses; a row is sent only when the log that names it is verified.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from memory_manager.sync.engine.client import SyncClient
from memory_manager.sync.engine.errors import SyncOff, SyncServerRefused
from memory_manager.sync.errors import SyncCode
from memory_manager.sync.ledger import alarms, copies, roster_log, state
from memory_manager.sync.ledger.state import SyncState
from memory_manager.sync.optin import comparison, egress, table, upkeep
from memory_manager.sync.optin.errors import GrantBroken, OptInBlocked
from memory_manager.sync.optin.table import OptedIn, OptInState
from memory_manager.sync.optin.verified import VerifiedGrant, verify_grant
from memory_manager.sync.wire.roster import Member
from memory_manager.vault import audit

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.sync.service import SyncService
    from memory_manager.vault.transaction import Transaction

FIRST_PAUSE_SECONDS: Final = 2.0
MAX_PAUSE_SECONDS: Final = 900.0
SETTLE_SECONDS: Final = 0.5
COMPARE_SECONDS: Final = 6 * 3600.0
_DUE: Final = (OptInState.WAITING, OptInState.LEAVING)

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class _Standing:
    """What is due, and by what it is judged."""

    state: SyncState
    members: Mapping[bytes, Member]  # none while nothing is due
    due: tuple[OptedIn, ...]
    ready: frozenset[bytes]  # records whose revision is in the verified log


class Delivery:
    """``run`` is one task for the life of the open vault; ``poke`` may be called on any thread."""

    def __init__(self, sync: SyncService, *, first_pause: float = FIRST_PAUSE_SECONDS) -> None:
        self._sync = sync
        self._first_pause = first_pause
        self._woken = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._at_work = asyncio.Lock()
        self._compare_at = 0.0  # monotonic

    def poke(self) -> None:
        """Something was committed or decided: look soon whether anything is due."""
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):  # of a loop that has ended
                loop.call_soon_threadsafe(self._woken.set)

    async def run(self) -> None:
        """Until cancelled. What fails is tried again; its error's class alone is logged."""
        self._loop = asyncio.get_running_loop()
        pause: float | None = 0.0
        step = self._first_pause
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._woken.wait()
                    step = self._first_pause
                    await asyncio.sleep(min(SETTLE_SECONDS, step))
            self._woken.clear()
            pause = None
            try:
                if await self.round():
                    pause, step = step, min(step * 2, MAX_PAUSE_SECONDS)
            except SyncOff:
                continue
            except Exception as error:
                _log.warning("opt_in_delivery_failed", extra={"error_type": type(error).__name__})
                pause, step = step, min(step * 2, MAX_PAUSE_SECONDS)

    async def round(self) -> bool:
        """Everything that is due and can be done now; whether anything is left. SyncOff, and the
        errors of the client.
        """
        async with self._at_work:
            client, store = self._sync.client, self._sync.store
            if await store.read(_needs_reconciling):
                await store.write(upkeep.reconcile)
            standing = await store.read(_standing)
            if standing is None:
                raise SyncOff
            if self._compare_at <= time.monotonic():
                await self._compare(client)
                self._compare_at = time.monotonic() + COMPARE_SECONDS
            left = 0
            for row in standing.due:
                if row.state is OptInState.LEAVING:
                    await self._take_back(client, row)
                elif row.record in standing.ready and _may_send(standing.state):
                    await self._send(client, row, standing)
                else:
                    left += 1
            return left > 0

    async def _compare(self, client: SyncClient) -> None:
        """Once in a while, where anything was ever opted in: does the server hold just that?"""
        store = self._sync.store
        if not await store.read(comparison.was_ever_used):
            return
        try:
            said = await egress.list_records(client)
        except SyncServerRefused as error:
            if error.status in (401, 403):
                raise
            return  # sending and taking back do not depend on it
        found = await store.read(lambda connection: comparison.compare(connection, said))
        if found is None:
            return
        for record in found.returned:
            await egress.take_back(client, record)
        if found.lost:

            def settle(transaction: Transaction) -> None:
                for row in found.lost:
                    upkeep.let_go(transaction, row, "lost")

            await store.write(settle)

    async def _send(self, client: SyncClient, row: OptedIn, standing: _Standing) -> None:
        store = self._sync.store
        try:
            await egress.send_row(
                store,
                client,
                _verified(row, standing),
                row.memory_id,
                lambda: int(time.time()),
            )
        except GrantBroken:
            await store.write(lambda transaction: upkeep.let_go(transaction, row, "grant"))
        except OptInBlocked:
            await store.write(lambda transaction: _block(transaction, row, "credential"))
        except SyncServerRefused as error:
            if error.status not in (413, 422, 507):
                raise
            code = str(error.details.get("reason") or error.reason).lower()
            policy = error.reason == SyncCode.CLASS_POLICY
            await store.write(lambda transaction: _block(transaction, row, code, alarm=policy))
        else:
            await store.write(lambda transaction: table.was_sent(transaction, row.record))

    async def _take_back(self, client: SyncClient, row: OptedIn) -> None:
        await egress.take_back(client, row.record)

        def done(transaction: Transaction) -> None:
            table.remove(transaction, row.record)
            detail = {"record": row.record.hex()}
            audit.record(transaction, "opt_in.removed", row.memory_id, None, detail)

        await self._sync.store.write(done)


def _needs_reconciling(connection: Connection) -> bool:
    active = state.read_active(connection) is not None
    return active and upkeep.needs_reconciling(connection)


def _standing(connection: Connection) -> _Standing | None:
    due = tuple(table.listed(connection, _DUE))
    found = state.read_active(connection)
    roster = roster_log.load(connection) if due else None
    if found is None or (due and roster is None):
        return None
    ready = frozenset(
        row.record for row in due if row.dot is not None and table.is_in_log(connection, row.dot)
    )
    return _Standing(found, {} if roster is None else roster.members, due, ready)


def _may_send(found: SyncState) -> bool:
    return found.stop_code is None and not found.paused


def _verified(row: OptedIn, standing: _Standing) -> VerifiedGrant:
    if row.signed is None or row.document is None or row.dot is None:
        raise GrantBroken
    return verify_grant(
        row.signed,
        row.document,
        vault=standing.state.vault,
        member=standing.members.get(row.dot.device),
        server_key=standing.state.server_key,
        record=row.record,
        dot=row.dot,
        now=int(time.time()),
    )


def _block(transaction: Transaction, row: OptedIn, code: str, *, alarm: bool = False) -> None:
    """The row stays here; its copy is tombstoned and the owner sees why."""
    held = table.of_record(transaction.connection, row.record)
    if held is None or held.state is not OptInState.WAITING:
        return
    copies.retract_copy(transaction, row.record)
    blocked = dataclasses.replace(
        row, document=None, signed=None, dot=None, state=OptInState.BLOCKED, code=code
    )
    table.put(transaction, blocked)
    audit.record(transaction, "opt_in.refused", row.memory_id, None, {"code": code})
    if alarm:
        alarms.record(transaction, SyncCode.CLASS_POLICY, detail={"what": "index"})
