"""Sync as the daemon has it: opens with the vault, runs beside it, ends at lock.

The acts of membership (setup, join, revoke) stand on ``client``, ``secrets`` and ``connect`` of
this class; they know nothing of rounds. Contract: sync.md 4.3, 4.4, 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from memory_manager.sync.engine.client import SyncClient
from memory_manager.sync.engine.connection import ServerConnection
from memory_manager.sync.engine.device_secrets import DeviceSecrets
from memory_manager.sync.engine.errors import SyncOff

if TYPE_CHECKING:
    from memory_manager.vault.memories import Memories
    from memory_manager.vault.store import Store


class SyncService:
    """One per daemon. Coroutines run on the daemon's loop; ``status`` and ``poke`` never wait."""

    def __init__(self, memories: Memories) -> None:
        """``memories`` is the one write path, through which arriving rows are applied."""
        self._memories = memories
        self._store: Store | None = None
        self._secrets: DeviceSecrets | None = None

    # --- life ---------------------------------------------------------------------------------

    async def open(
        self, store: Store, secrets: DeviceSecrets | None, flush_anchor: Callable[[], None]
    ) -> None:
        """The vault is open. Starts syncing if the vault has a server.

        ``secrets`` come from ``device_secrets(session)`` on the unlocking thread and are wiped by
        ``close``; ``flush_anchor`` writes and fsyncs the anchor, on a thread, before each push.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """The vault is being locked: ends what runs within seconds, wipes the device's keys."""
        raise NotImplementedError

    # --- what the owner sees and does ---------------------------------------------------------

    def status(self) -> dict[str, object]:
        """State, server, verified position and its words, outbox, alarms; no row content.

        Members: state (off, ok, syncing, waiting, paused, stopped, offline), server, device,
        verified {n, g, words}, outbox, progress, alarms [{code, at, device, n, advice}],
        quarantined, conflicts, last_contact_at, epoch, devices.
        """
        raise NotImplementedError

    def poke(self) -> None:
        """Something local changed, or may have: the next round starts soon. Cheap, any thread."""
        raise NotImplementedError

    async def sync_now(self) -> dict[str, object]:
        """One round now, also while paused; the status afterwards. SyncOff, or what stopped it."""
        raise NotImplementedError

    async def pause(self) -> None:
        """No round starts by itself until ``resume``; survives a restart."""
        raise NotImplementedError

    async def resume(self) -> None:
        raise NotImplementedError

    async def confirm(self, code: str, typed: str) -> dict[str, object]:
        """The owner agrees to go on after ROSTER_CHANGED, BREAKER or ROLLBACK (which re-seeds).

        ``typed`` is the code as the owner typed it. An admin act: the caller asks for the
        passphrase. NothingToConfirm when that stop does not stand.
        """
        raise NotImplementedError

    async def retry(self) -> dict[str, object]:
        """Try again after a stop that only the owner ends; not after EQUIVOCATION or ROLLBACK."""
        raise NotImplementedError

    async def evidence(self) -> list[dict[str, object]]:
        """Proofs of equivocation as JSON documents; ``verify_evidence`` checks one offline."""
        raise NotImplementedError

    # --- for the acts of membership -----------------------------------------------------------

    @property
    def store(self) -> Store:
        """The open store; SyncOff while the vault is locked."""
        if self._store is None:
            raise SyncOff
        return self._store

    @property
    def secrets(self) -> DeviceSecrets:
        """This device's keys; SyncOff while the vault is locked or has none."""
        if self._secrets is None:
            raise SyncOff
        return self._secrets

    @property
    def client(self) -> SyncClient:
        """The logged-in client of this vault's server; SyncOff without one."""
        raise NotImplementedError

    async def new_client(
        self, url: str, *, ca_file: str | None = None, proxy: str | None = None
    ) -> SyncClient:
        """A client of a server that this vault does not have yet; the caller closes it."""
        raise NotImplementedError

    async def connection(self) -> ServerConnection | None:
        """The server of this vault."""
        raise NotImplementedError

    async def connect(self, connection: ServerConnection) -> None:
        """Remember the server and start syncing; the ledger already holds vault id and roster."""
        raise NotImplementedError

    async def disconnect(self) -> None:
        """Forget the server: sync is off. Local rows and the ledger stay."""
        raise NotImplementedError

    async def roster_changed_here(self) -> None:
        """This device amended the roster (already in the ledger): mark it in the log at once."""
        raise NotImplementedError
