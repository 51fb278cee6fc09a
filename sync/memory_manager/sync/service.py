"""Sync as the daemon has it: opens with the vault, runs beside it, ends at lock.

The acts of membership (setup, join, revoke) stand on ``client``, ``secrets`` and ``connect`` of
this class; they know nothing of rounds. Contract: sync.md 4.3, 4.4, 9.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from memory_manager.base.errors import MemlocketError
from memory_manager.base.times import now_ms
from memory_manager.sync.engine import own_state
from memory_manager.sync.engine.advice import UNUSABLE, Finding, Reaction, reaction
from memory_manager.sync.engine.backoff import Backoff
from memory_manager.sync.engine.client import SyncClient, client_for
from memory_manager.sync.engine.connection import ServerConnection
from memory_manager.sync.engine.device_secrets import DeviceSecrets
from memory_manager.sync.engine.errors import NothingToConfirm, SyncOff
from memory_manager.sync.engine.loop import Pace, SyncLoop
from memory_manager.sync.engine.own_state import Options
from memory_manager.sync.engine.parts import Parts, Progress, RosterCache
from memory_manager.sync.engine.proofs import EVIDENCE
from memory_manager.sync.engine.report import Live, Snapshot, read_snapshot, status_json
from memory_manager.sync.engine.reseed_step import give_back
from memory_manager.sync.engine.transport import Limits
from memory_manager.sync.errors import SyncCode
from memory_manager.sync.ledger import alarms, founding, state
from memory_manager.sync.ledger.journal import SyncJournal
from memory_manager.sync.ledger.state import SyncState

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.memories import Memories
    from memory_manager.vault.store import Store
    from memory_manager.vault.transaction import Transaction

CLOSE_SECONDS: Final = 3.0
_CANCEL_SECONDS: Final = 0.5
_CONFIRMED: Final = frozenset({SyncCode.ROSTER_CHANGED, SyncCode.BREAKER, SyncCode.ROLLBACK})


class VaultAnchor(Protocol):
    """What is outside the database; ``VaultLifecycle`` is one. Writing blocks, on any thread."""

    def write_anchor(self) -> None:
        """It names what is committed, and is on the disk, when this returns: before every push."""

    def forget_sync(self) -> None:
        """Inside the unit of work that turns sync off."""

    def recovery_commitment(self) -> bytes | None:
        """Which recovery words open the vault; never waits."""


class SyncService:
    """One per daemon. Coroutines run on the daemon's loop; ``status`` and ``poke`` never wait."""

    def __init__(
        self,
        memories: Memories,
        journal: SyncJournal,
        *,
        pace: Pace | None = None,
        limits: Limits | None = None,
        backoff: Callable[[], Backoff] = Backoff,
    ) -> None:
        """``memories`` is the one write path, through which arriving rows are applied."""
        self._memories = memories
        self._journal = journal
        self._pace = pace or Pace()
        self._limits = limits
        self._backoff = backoff
        self._store: Store | None = None
        self._secrets: DeviceSecrets | None = None
        self._anchor: VaultAnchor | None = None
        self._roster = RosterCache()
        self._snapshot: Snapshot | None = None
        self._unusable = Live()
        self._client: SyncClient | None = None
        self._engine: SyncLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    # --- life ---------------------------------------------------------------------------------

    async def open(self, store: Store, secrets: DeviceSecrets | None, anchor: VaultAnchor) -> None:
        """The vault is open. Starts syncing if the vault has a server.

        ``secrets`` come from ``device_secrets(session)`` on the unlocking thread and are wiped by
        ``close``; ``anchor`` is the vault's lifecycle.
        """
        self._loop = asyncio.get_running_loop()
        self._store, self._secrets, self._anchor = store, secrets, anchor
        await self._start()

    async def close(self) -> None:
        """The vault is being locked: ends what runs within seconds, wipes the device's keys."""
        try:
            await self._end()
        finally:
            if self._secrets is not None:
                self._secrets.wipe()
            self._store = self._secrets = self._snapshot = self._anchor = None
            self._roster = RosterCache()

    # --- what the owner sees and does ---------------------------------------------------------

    def status(self) -> dict[str, object]:
        """State, server, verified position and its words, outbox, alarms; no row content.

        Members: state (off, ok, syncing, waiting, paused, stopped, offline), server, device,
        verified {n, g, words}, outbox, progress {phase, done, total}, alarms [{code, at, device, n,
        advice, evidence}], quarantined {code: count}, conflicts, last_contact_at, next_try_at,
        epoch, words_recover (of the vault's present recovery words; None: cannot be told), devices.
        As of the last change that the engine heard of; ``fresh_status`` looks.
        """
        live = self._unusable if self._engine is None else self._engine.live
        return status_json(self._snapshot, live)

    async def fresh_status(self) -> dict[str, object]:
        """``status`` after a look into the vault."""
        if self._store is not None:
            await self._refresh()
        return self.status()

    def poke(self) -> None:
        """Something was committed: a round follows if there is something to send. Any thread."""
        loop, engine = self._loop, self._engine
        if loop is not None and engine is not None:
            with contextlib.suppress(RuntimeError):  # of a loop that has ended
                loop.call_soon_threadsafe(engine.written)

    async def sync_now(self) -> dict[str, object]:
        """One round now, also while paused; none while stopped. The status afterwards; SyncOff."""
        engine = self._running()
        stopped = (await self._state()).stop_code is not None
        if not stopped and not await self.store.read(state.must_enrol_again):
            await engine.round()
        return await self.fresh_status()

    async def pause(self) -> None:
        """No round starts by itself until ``resume``; survives a restart."""
        engine = self._running()
        await self.store.write(lambda transaction: state.pause(transaction, True))
        engine.rest()
        await self._refresh()

    async def resume(self) -> None:
        engine = self._running()
        await self.store.write(lambda transaction: state.pause(transaction, False))
        await self._refresh()
        engine.go_on()

    async def confirm(self, code: str, typed: str) -> dict[str, object]:
        """The owner agrees to go on after ROSTER_CHANGED, BREAKER or ROLLBACK (which re-seeds).

        ``typed`` is the code as the owner typed it. An admin act: the caller asks for the
        passphrase. NothingToConfirm when that stop does not stand. The status after one round.
        """
        engine = self._running()
        stop = (await self._state()).stop_code
        if stop is None or stop.value != code or stop not in _CONFIRMED:
            raise NothingToConfirm
        if typed.strip().upper() != code:
            raise NothingToConfirm(f"To confirm, type the code of the stop: {code}.")
        if stop is SyncCode.ROSTER_CHANGED:
            engine.agreed_roster = await self.store.read(_roster_shown)
        if stop is SyncCode.ROLLBACK:
            await engine.round(give_back)
        else:
            await self.store.write(lambda transaction: _lift(transaction, stop))
            await engine.round()
        if stop is SyncCode.ROLLBACK and engine.live.finding is None:
            await self.store.write(lambda transaction: _lift(transaction, stop))
        engine.awake()
        return await self.fresh_status()

    async def retry(self) -> dict[str, object]:
        """Try again after a stop; NothingToConfirm after one that asks more, or for good."""
        engine = self._running()
        stop = (await self._state()).stop_code
        if stop is not None:
            if reaction(stop.value) is not Reaction.RETRY:
                raise NothingToConfirm("Asking again does not end this stop.")
            await self.store.write(lambda transaction: _lift(transaction, stop))
        await engine.round()
        engine.awake()
        return await self.fresh_status()

    async def evidence(self) -> list[dict[str, object]]:
        """Proofs of equivocation as JSON documents; ``verify_evidence`` checks one offline."""
        found = await self.store.read(alarms.listed)
        return [json.loads(str(a.detail[EVIDENCE])) for a in found if EVIDENCE in a.detail]

    # --- for the acts of membership -----------------------------------------------------------

    @property
    def store(self) -> Store:
        """The open store; SyncOff while the vault is locked."""
        if self._store is None:
            raise SyncOff
        return self._store

    @property
    def anchor(self) -> VaultAnchor:
        """What witnesses this vault's progress; SyncOff while it is locked."""
        if self._anchor is None:
            raise SyncOff
        return self._anchor

    @property
    def secrets(self) -> DeviceSecrets:
        """This device's keys; SyncOff while the vault is locked or has none."""
        if self._secrets is None:
            raise SyncOff
        return self._secrets

    @property
    def client(self) -> SyncClient:
        """The client of this vault's server, which logs in by itself; SyncOff without one."""
        if self._client is None:
            raise SyncOff
        return self._client

    async def new_client(
        self, url: str, *, ca_file: str | None = None, proxy: str | None = None
    ) -> SyncClient:
        """A client of a server that this vault does not have yet; the caller closes it."""

        def make() -> SyncClient:
            return SyncClient(url, ca_file=ca_file, proxy=proxy, limits=self._limits)

        return await asyncio.to_thread(make)  # reads the certificates

    async def connection(self) -> ServerConnection | None:
        """The server of this vault; None while sync is off."""
        return await self.store.read(_connection)

    async def connect(self, connection: ServerConnection) -> None:
        """Start syncing with this server; the ledger already holds vault id, key and roster."""
        await self.store.write(lambda transaction: own_state.reach_by(transaction, connection))
        await self._end()
        await self._start()

    async def disconnect(self) -> None:
        """Sync is off: the ledger is emptied, the memories stay."""
        await self._end()
        lower_anchor = self.anchor.forget_sync

        def work(transaction: Transaction) -> None:
            own_state.forget(transaction)
            founding.turn_off(transaction, self._journal, lower_anchor)

        await self.store.write(work)
        self._roster, self._snapshot = RosterCache(), None

    def hint(self) -> None:
        """This device changed the roster, which its log names: a round is due. On the loop."""
        if self._engine is not None:
            self._engine.hint()

    async def options(self) -> Options:
        """The owner's words about the connection; SyncOff."""
        await self._state()
        return await self.store.read(own_state.read_options)

    async def set_jitter(self, seconds: float) -> None:
        """Blur the time of writing by up to so many seconds, from the next write on; SyncOff."""
        await self._state()

        def work(transaction: Transaction) -> None:
            options = own_state.read_options(transaction.connection)
            own_state.write_options(
                transaction, dataclasses.replace(options, jitter_seconds=seconds)
            )

        await self.store.write(work)

    # --- inside -------------------------------------------------------------------------------

    async def _start(self) -> None:
        store, secrets = self.store, self._secrets
        connection = await store.read(_connection)
        self._unusable = Live()
        await self._refresh()
        if connection is None or secrets is None or store.read_only:
            return
        now = await self._state()
        try:
            self._client = await asyncio.to_thread(
                lambda: client_for(connection, now.vault, secrets, limits=self._limits)
            )
        except (OSError, MemlocketError):  # a file of certificates that is gone or is none
            self._unusable = Live(finding=Finding(UNUSABLE, Reaction.RETRY), found_at_ms=now_ms())
            return
        self._engine = SyncLoop(
            self._parts,
            pace=self._pace,
            backoff=self._backoff(),
            refreshed=self._refresh,
        )
        # This object owns the task: close() and connect() end it.
        self._task = asyncio.get_running_loop().create_task(self._engine.run())

    def _parts(self, tell: Callable[[Progress | None], None]) -> Parts:
        return Parts(
            store=self.store,
            client=self.client,
            secrets=self.secrets,
            memories=self._memories,
            journal=self._journal,
            flush_anchor=self.anchor.write_anchor,
            tell=tell,
            roster=self._roster,
        )

    async def _end(self) -> None:
        task, self._task = self._task, None
        deadline = asyncio.get_running_loop().time() + CLOSE_SECONDS
        while task is not None and not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_CANCEL_SECONDS)
            if asyncio.get_running_loop().time() > deadline:
                break
        client, self._client, self._engine = self._client, None, None
        if client is not None:
            await client.close()

    async def _refresh(self) -> None:
        slot = self.anchor.recovery_commitment()
        self._snapshot = await self.store.read(lambda c: read_snapshot(c, self._roster, slot))

    async def _state(self) -> SyncState:
        found = await self.store.read(state.read)
        if found is None:
            raise SyncOff
        return found

    def _running(self) -> SyncLoop:
        if self._engine is None:
            raise SyncOff
        return self._engine


def _connection(connection: Connection) -> ServerConnection | None:
    found = state.read(connection)
    if found is None:
        return None
    options = own_state.read_options(connection)
    return ServerConnection(found.server_url, found.server_key, options.ca_file, options.proxy)


def _lift(transaction: Transaction, stop: SyncCode) -> None:
    """The owner has seen this stop and goes on."""
    if stop is SyncCode.BREAKER:
        state.confirm_deletions(transaction)
    state.stop(transaction, None)
    alarms.clear(transaction, stop)


def _roster_shown(connection: Connection) -> bytes | None:
    """The newest roster entry that the stop told the owner of."""
    details: list[Any] = [
        alarm.detail for alarm in alarms.listed(connection) if alarm.code is SyncCode.ROSTER_CHANGED
    ]
    return bytes.fromhex(details[0]["head"]) if details and "head" in details[0] else None
