"""A client's own credential: made once, kept here, taken back. Each is an act of the owner."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final, cast

from memory_manager.cli import prompts
from memory_manager.cli.connect.journal import Journal, read_journal, write_journal
from memory_manager.cli.context import Context
from memory_manager.cli.errors import CredentialTaken
from memory_manager.client.instance import (
    Installation,
    ensure_installation,
    find_installation,
    write_installation,
)
from memory_manager.client.memory_client import JsonObject, MemoryClient

READ_ONLY: Final = ("memory:read",)


@dataclasses.dataclass(frozen=True, slots=True)
class Registered:
    """``fresh``: the credential was made by this run and goes again if the run fails."""

    installation: Installation
    fresh: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Owner:
    """The owner's side of one run: a connected client and how to ask for the passphrase."""

    context: Context
    client: MemoryClient
    passphrase_fd: int | None = None

    def credentials(self) -> list[JsonObject]:
        return credentials_of(self.client)

    def issue(self, name: str, scopes: Sequence[str] | None, agent_id: str) -> JsonObject:
        return self.context.as_admin(
            self.client,
            lambda: self.client.add_agent(name, scopes, agent_id=agent_id),
            self.passphrase_fd,
        )

    def revoke(self, credential_id: str) -> None:
        self.context.as_admin(
            self.client, lambda: self.client.revoke_agent(credential_id), self.passphrase_fd
        )


def credentials_of(client: MemoryClient) -> list[JsonObject]:
    """Every credential there ever was, with ``revoked_at`` of those that ended."""
    found = client.agents().get("agents")
    return cast("list[JsonObject]", found) if isinstance(found, list) else []


def live_credential(credentials: Sequence[JsonObject], key: str, value: str) -> JsonObject | None:
    for credential in credentials:
        if credential.get(key) == value and not credential.get("revoked_at"):
            return credential
    return None


def register(
    owner: Owner, name: str, *, read_only: bool, replace: bool, note: Journal
) -> Registered:
    """The kept credential if it is still valid, else a new one; CredentialTaken if it cannot be.

    ``note`` is written before a credential is asked for. By such a note of an interrupted run the
    credential it left behind is known; it is ended, and said so.
    """
    environ = owner.context.environ
    kept = ensure_installation(name, name, environ)
    credentials = owner.credentials()
    if kept.credential is not None and kept.credential_id is not None:
        if live_credential(credentials, "id", kept.credential_id) is not None:
            return Registered(kept, fresh=False)
    other = live_credential(credentials, "name", name)
    if other is not None:
        journal = read_journal(name, environ)
        if journal is not None and journal.registering:
            owner.context.console.note(
                f"An interrupted run left a credential of '{name}'; it is revoked."
            )
        else:
            _agree_to_end(owner.context, name, replace=replace)
        owner.revoke(str(other["id"]))
    write_journal(name, dataclasses.replace(note, registering=True), environ)
    made = owner.issue(name, READ_ONLY if read_only else None, kept.agent_id)
    fresh = dataclasses.replace(kept, credential=str(made["token"]), credential_id=str(made["id"]))
    try:
        write_installation(fresh, environ)
    except BaseException:
        owner.revoke(str(made["id"]))
        raise
    return Registered(fresh, fresh=True)


def unregister(owner: Owner, name: str, *, interrupted: bool = False) -> bool:
    """End the credential and forget its token; the instance id stays. Whether one was live.

    ``interrupted``: a killed run may have left a credential of this name that nobody holds.
    """
    environ = owner.context.environ
    kept = find_installation(name, environ)
    live = None
    if kept is not None and kept.credential_id is not None:
        live = live_credential(owner.credentials(), "id", kept.credential_id)
    elif interrupted:
        live = live_credential(owner.credentials(), "name", name)
    if live is not None:
        owner.revoke(str(live["id"]))
    if kept is not None and (kept.credential is not None or kept.credential_id is not None):
        cleared = dataclasses.replace(kept, credential=None, credential_id=None)
        write_installation(cleared, environ)
    return live is not None


def _agree_to_end(context: Context, name: str, *, replace: bool) -> None:
    if replace:
        return
    if not context.console.as_json and prompts.has_terminal():
        context.console.note(
            f"There is a credential '{name}' whose token is not kept here, maybe made by hand."
        )
        if prompts.agrees("End it and make a new one?"):
            return
    raise CredentialTaken(
        f"There is a credential '{name}' whose token is not kept here.",
        hint=f"Run this with --replace to end it, or: memlocket agent revoke {name}",
    )
