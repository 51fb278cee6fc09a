"""What every command gets, and the two ways it talks to the daemon as the owner."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from typing import TypeVar

from memory_manager.base.directories import Directories, directories
from memory_manager.base.errors import MemlocketError
from memory_manager.cli import prompts
from memory_manager.cli.errors import code_of
from memory_manager.cli.output import Console, section
from memory_manager.client.errors import DaemonNotRunning
from memory_manager.client.instance import own_labels
from memory_manager.client.memory_client import MemoryClient, connect_as_owner

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """The console and the environment of one command run."""

    console: Console
    environ: Mapping[str, str] = dataclasses.field(default_factory=lambda: os.environ)

    @property
    def directories(self) -> Directories:
        return directories(self.environ)

    def client(self) -> MemoryClient:
        """A client with the owner's token; raises DaemonNotRunning, which names the way out."""
        try:
            return connect_as_owner(self.environ, headers=own_labels(self.environ))
        except DaemonNotRunning as error:
            from memory_manager.vault.setup import vault_exists

            if vault_exists(self.directories.vault):
                raise
            hint = "There is no vault yet. Make one: memlocket init, then: memlocket up"
            raise DaemonNotRunning(error.message, hint=hint) from None

    def refuse_without_vault(self, client: MemoryClient) -> None:
        """Raise NoVault now, before somebody is asked for a passphrase that opens nothing."""
        if section(client.status(), "vault").get("state") == "absent":
            from memory_manager.vault.errors import NoVault

            raise NoVault

    def as_admin(
        self, client: MemoryClient, act: Callable[[], T], passphrase_fd: int | None = None
    ) -> T:
        """Do an admin act; if the daemon wants a fresh passphrase, ask once and do it again."""
        try:
            return act()
        except MemlocketError as error:
            if code_of(error) != "passphrase_required":
                raise
            if not self.confirm_owner(client, passphrase_fd):
                raise
            return act()

    def confirm_owner(self, client: MemoryClient, passphrase_fd: int | None = None) -> bool:
        """Enter the passphrase, which counts for five minutes; False with nobody to ask."""
        if passphrase_fd is None and not prompts.has_terminal():
            return False
        self.console.note("This needs your passphrase.")
        client.unlock(prompts.ask_secret("Passphrase", passphrase_fd))
        return True
