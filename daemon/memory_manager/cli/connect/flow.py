"""The steps every connection goes through: what is planned, agreed to, registered and told."""

from __future__ import annotations

import argparse
import dataclasses
import shlex

from memory_manager.base.errors import MemlocketError
from memory_manager.cli import prompts
from memory_manager.cli.connect.change import Change
from memory_manager.cli.connect.clients import Client, Launch
from memory_manager.cli.connect.journal import Journal, read_journal, write_journal
from memory_manager.cli.connect.key_file import KeyChange
from memory_manager.cli.connect.launching import snippet_of
from memory_manager.cli.connect.registration import Owner, Registered, register, unregister
from memory_manager.cli.context import Context
from memory_manager.cli.errors import NotConfirmed, NoTerminal, Usage


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What connecting does to the client: edit files, run its own command, or nothing."""

    change: Change | None = None
    command: tuple[str, ...] | None = None
    key: KeyChange | None = None

    @property
    def is_needed(self) -> bool:
        planned = (self.change, self.key)
        return self.command is not None or any(part and part.is_needed for part in planned)

    @property
    def shown(self) -> str:
        if self.command is not None:
            return f"runs: {shlex.join(self.command)}"
        parts = [self.change.diff if self.change is not None else ""]
        parts.append(self.key.shown if self.key is not None else "")
        return "\n".join(filter(None, parts))


def agree(arguments: argparse.Namespace, context: Context, plan: Plan) -> None:
    """Show what will change and ask; nothing to ask where nothing changes."""
    if not plan.is_needed:
        return
    context.console.note(plan.shown)
    if arguments.yes:
        return
    if context.console.as_json:
        raise Usage("With --json nothing is asked: look at it with --dry-run, then use --yes.")
    if not prompts.has_terminal():
        raise NoTerminal(
            "There is no terminal to ask on.", hint="Look at it with --dry-run, then use --yes."
        )
    if not prompts.agrees("Make this change?"):
        raise NotConfirmed()


def registered_for(
    arguments: argparse.Namespace, owner: Owner, name: str, plan: Plan
) -> Registered:
    """The credential; what is about to happen is noted before anything does."""
    environ = owner.context.environ
    before = read_journal(name, environ)
    kept = before or Journal()
    if plan.command is not None and plan.change is not None:
        kept = dataclasses.replace(
            plan.change.journal(),
            edits=(),
            by_command=True,
            before_digest=plan.change.settings.digest,
        )
    elif plan.change is not None and plan.change.is_needed:
        kept = plan.change.journal()
        if before is not None and before.file == kept.file and before.edits:
            kept = dataclasses.replace(  # the file is as it was before our first change
                kept, existed=before.existed, made_folders=before.made_folders
            )
    registered = register(
        owner, name, read_only=arguments.read_only, replace=arguments.replace, note=kept
    )
    write_journal(name, dataclasses.replace(kept, registering=False), environ)
    return registered


def take_back(owner: Owner, name: str, registered: Registered) -> None:
    """After a failure the credential made for it goes again; if that fails too, say so."""
    if not registered.fresh:
        return
    try:
        unregister(owner, name)
    except MemlocketError:
        owner.context.console.warn(
            f"The new credential '{name}' could not be revoked: memlocket agent revoke {name}"
        )


def show_plan(context: Context, name: str, plan: Plan) -> None:
    document = {
        "client": name,
        "changes": plan.is_needed,
        "file": str(plan.change.settings.path) if plan.change is not None else None,
        "diff": plan.change.diff if plan.change is not None else "",
        "command": list(plan.command) if plan.command is not None else None,
        "key_file": str(plan.key.settings.path) if plan.key is not None else None,
        "key_change": plan.key.shown if plan.key is not None else "",
    }
    context.console.result(document, plan.shown or f"Nothing to change for {name}.")


def tell_connected(
    context: Context,
    name: str,
    client: Client | None,
    launch: Launch | None,
    registered: Registered,
    plan: Plan,
) -> None:
    installation = registered.installation
    title = client.title if client is not None else name
    document: dict[str, object] = {
        "client": name,
        "agent_id": installation.agent_id,
        "instance_id": installation.instance_id,
        "credential_id": installation.credential_id,
        "new_credential": registered.fresh,
        "file": str(plan.change.settings.path) if plan.change is not None else None,
        "changed": plan.is_needed,
    }
    if plan.change is None and launch is not None:
        snippet = snippet_of(client, launch, context.environ)
        document |= {"entry": snippet["entry"]}
        context.console.result(document, str(snippet["text"]))
        context.console.note(f"{title} has a credential. Put this entry into its settings.")
    elif plan.is_needed or registered.fresh:
        context.console.result(document, f"{title} is connected.")
        if client is not None:
            context.console.note(client.afterwards)
    else:
        context.console.result(document, f"{title} was connected already; nothing changed.")
    context.console.note(f"Take it back with: memlocket disconnect {name}")
