"""The daemon without its doors: vault, recall and the one write path, started and stopped in order.

It knows nothing of HTTP. Contract: architecture.md 2, 5; vault.md 4.3; desktop.md 9.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import threading
import time
from collections.abc import Coroutine
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any, Final

from memory_manager.base.directories import Directories
from memory_manager.base.errors import MemlocketError
from memory_manager.base.identifiers import new_uuid7
from memory_manager.base.private_files import ensure_private_directory
from memory_manager.base.times import now_ms
from memory_manager.recall.models.prepare import tidy_models
from memory_manager.recall.service import RecallService
from memory_manager.security.event_log import level_of, log_event
from memory_manager.service.cleaning_job import CleaningJob
from memory_manager.service.crash import NO_CRASHES, CrashHistory, mark_read
from memory_manager.service.discovery import Discovery
from memory_manager.service.embedders import EmbeddingsMode, choose_embedder
from memory_manager.service.events import (
    CredentialsChanged,
    Event,
    EventBus,
    StopRequested,
    VaultClosing,
    VaultUnlocked,
)
from memory_manager.service.logins import Logins
from memory_manager.service.rule_database import use_native_rules
from memory_manager.service.start_times import StartTimes
from memory_manager.sync.engine.device_secrets import DeviceSecrets, device_secrets
from memory_manager.sync.ledger.journal import SyncJournal
from memory_manager.sync.optin.service import OptIns
from memory_manager.sync.service import SyncService
from memory_manager.vault.anchor import SyncMark
from memory_manager.vault.housekeeping import tidy
from memory_manager.vault.lifecycle import VaultLifecycle
from memory_manager.vault.memories import Memories
from memory_manager.vault.os_keyring import find_keyring
from memory_manager.vault.session import ConnectionFactory, OpenContext
from memory_manager.vault.status import VaultState
from memory_manager.vault.store import Store

DISTRIBUTION: Final = "memlocket"
OPEN_SECONDS: Final = 30.0
CLOSE_SECONDS: Final = 8.0
FIRST_TIDY_SECONDS: Final = 600.0
TIDY_SECONDS: Final = 86_400.0

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class DaemonSettings:
    """What one start of the daemon was asked for."""

    insecure_key_file: Path | None = None
    embeddings: EmbeddingsMode = EmbeddingsMode.AUTO
    has_terminal: bool = False
    safe_mode: bool = False  # several crashes in a row: no embeddings
    auto_approve: bool = False  # every login is approved by itself; never from a file


class Daemon:
    """Composition and life of the parts below the doors. Coroutines run on the one loop."""

    def __init__(
        self,
        directories: Directories,
        settings: DaemonSettings,
        crashes: CrashHistory = NO_CRASHES,
    ) -> None:
        self.directories = directories
        self.crashes = crashes  # of earlier runs
        self.settings = settings
        self.daemon_id = str(new_uuid7())
        self.version = installed_version(DISTRIBUTION)
        self.started_at_ms = now_ms()
        self.start_times = StartTimes()
        self.pid = os.getpid()
        self.events = EventBus()
        mode = EmbeddingsMode.OFF if settings.safe_mode else settings.embeddings
        self.recall = RecallService(choose_embedder(mode, directories))
        self.journal = SyncJournal()
        self.memories = Memories(self.recall.indexers, journal=self.journal)
        self.cleaning = CleaningJob(self.memories)
        self.sync = SyncService(self.memories, self.journal)
        self.lifecycle = VaultLifecycle(
            directories.vault,
            open_store=self._open_store,
            listeners=[_FollowsVault(self)],
        )
        self.opt_ins = OptIns(self.sync, self.lifecycle)
        self.logins = Logins(
            auto_approve=settings.auto_approve,
            writable_store=self.writable_store,
            peek=self.lifecycle.peek,
            changed=self.credentials_changed,
        )
        self.addresses: Discovery | None = None  # once the doors are open
        self._tidy_after = time.monotonic() + FIRST_TIDY_SECONDS
        self._rules_tried = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self.events.subscribe(_log_listener)

    async def start(self) -> None:
        """Open the vault if it can be opened without a person; a locked vault is a good start."""
        self._loop = asyncio.get_running_loop()
        ensure_private_directory(self.directories.data)
        try:
            await asyncio.to_thread(self._open_vault)
        except MemlocketError as error:
            # the reason stands in status; the daemon stays up to say so
            log_event(_log, "vault_not_open", level=level_of(error), error=error)
        if self.lifecycle.peek() is not None:
            self.start_times.vault_is_open()

    def _open_vault(self) -> None:
        with contextlib.suppress(OSError):  # what a broken off preparation left is only in the way
            tidy_models(self.directories.models)
        key_file = self.settings.insecure_key_file
        if key_file is None:
            self.lifecycle.keyring = find_keyring()  # may take seconds where a keyring hangs
        self.lifecycle.start(key_file, self.settings.has_terminal)

    async def stop(self) -> None:
        """Close the vault: drain writes, checkpoint, wipe keys and vectors."""
        await asyncio.to_thread(self.lifecycle.close)

    async def do_chores(self) -> None:
        """Called every minute: after an unlock stored text comes under the present rules; once a
        day the trash is emptied and old answers are forgotten, one bounded piece a minute.
        """
        if not self._rules_tried:  # not at the start: building them takes seconds, once
            self._rules_tried = True
            await use_native_rules(self.directories.cache)
        store, now = self.lifecycle.peek(), time.monotonic()
        if store is None or store.read_only or self.lifecycle.state is not VaultState.UNLOCKED:
            return
        try:
            await self.cleaning.begin_if_due(store)
        except Exception as error:  # next minute
            log_event(_log, "cleaning_failed", level=level_of(error), error=error)
        if now < self._tidy_after:
            return
        more = False
        try:
            more = (await store.write(tidy)).more
        except Exception as error:  # tomorrow is another day; a bad row must not end the daemon
            log_event(_log, "tidy_failed", level=level_of(error), error=error)
        if not more:
            self._tidy_after = now + TIDY_SECONDS

    def vault_json(self) -> dict[str, object]:
        """The vault's part of a status answer."""
        return self.lifecycle.status().as_json()

    def vault_state(self) -> str:
        return self.lifecycle.state.value

    def store(self) -> Store:
        """The open store; VaultLocked, NoVault or another typed refusal otherwise."""
        return self.lifecycle.store

    def writable_store(self) -> Store:
        """The open store; also refuses, before any work, a vault that must not be written."""
        self.lifecycle.require_writable()
        return self.lifecycle.store

    def owner_is_present(self) -> bool:
        """Whether a passphrase was entered within the last five minutes."""
        try:
            self.lifecycle.require_admin()
        except MemlocketError:
            return False
        return True

    async def require_present_owner(self) -> None:
        """Giving and taking access is an admin act (vault.md 4.2): PassphraseRequired without a
        fresh passphrase, except where a key file opened the vault.
        """
        if not self.lifecycle.status().insecure:
            await asyncio.to_thread(self.lifecycle.require_admin)

    async def crashes_were_shown(self) -> None:
        """The owner has seen what ``status`` says of them: not news any more."""
        if self.crashes.unread:
            self.crashes = dataclasses.replace(self.crashes, unread=False)
            await asyncio.to_thread(mark_read, self.directories.log)

    def credentials_changed(self) -> None:
        self.events.publish(CredentialsChanged())

    def request_stop(self, reason: str) -> None:
        self.events.publish(StopRequested(reason))

    def _open_store(self, connect: ConnectionFactory, context: OpenContext) -> Store:
        def committed(generation: int, mark: SyncMark | None) -> None:
            context.on_commit(generation, mark)
            self.sync.poke()
            self.opt_ins.poke()

        return Store(
            connect,
            on_commit=committed,
            on_write_failure=context.on_write_failure,
            on_write_recovered=context.on_write_recovered,
            on_damage=context.on_damage,
            read_only=context.read_only,
        )

    def run_on_loop(self, work: Coroutine[Any, Any, None], seconds: float) -> None:
        """Called on another thread: run ``work`` on the loop and wait for its end."""
        if self._loop is None or threading.current_thread() is threading.main_thread():
            raise RuntimeError("vault transitions run on a thread of their own")
        asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)


class _FollowsVault:
    """A VaultListener: recall and sync open with the vault and are wiped before it closes."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def unlocked(self, store: Store) -> None:
        with self._daemon.lifecycle.transition() as session:
            secrets = None if session is None else device_secrets(session)
        self._daemon.run_on_loop(self._open(store, secrets), OPEN_SECONDS)

    def locking(self, store: Store) -> None:
        self._daemon.run_on_loop(self._close(), CLOSE_SECONDS)

    async def _open(self, store: Store, secrets: DeviceSecrets | None) -> None:
        daemon = self._daemon
        await daemon.recall.open(store)
        try:
            await daemon.sync.open(store, secrets, daemon.lifecycle)
        except Exception as error:  # memories are there all the same; status says sync is off
            log_event(_log, "sync_not_open", level=level_of(error), error=error)
        daemon.opt_ins.open()
        daemon.events.publish(VaultUnlocked(None))

    async def _close(self) -> None:
        daemon = self._daemon
        daemon.events.publish(VaultClosing())
        async with contextlib.AsyncExitStack() as closing:  # each, whatever the one before met
            closing.push_async_callback(daemon.recall.close)
            closing.push_async_callback(daemon.sync.close)
            closing.push_async_callback(daemon.opt_ins.close)
            closing.push_async_callback(daemon.cleaning.close)


def _log_listener(event: Event) -> None:
    if isinstance(event, VaultUnlocked):
        log_event(_log, "vault_unlocked", unlock_source=event.unlock_source)
    elif isinstance(event, VaultClosing):
        log_event(_log, "vault_closing")
    elif isinstance(event, StopRequested):
        log_event(_log, "stop_requested", reason=event.reason)
