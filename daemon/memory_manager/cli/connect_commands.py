"""``memlocket connect`` and ``disconnect``: plug a client in with one command, and out again."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
from pathlib import Path

from memory_manager.base.errors import MemlocketError
from memory_manager.cli import prompts
from memory_manager.cli.arguments import Commands, add_command, add_passphrase_fd
from memory_manager.cli.connect import http_client
from memory_manager.cli.connect.change import (
    Change,
    entry_of,
    plan_entry,
    plan_removal,
    undo,
)
from memory_manager.cli.connect.clients import (
    CLIENTS,
    TABLE_CHECKED,
    Client,
    Launch,
    Places,
)
from memory_manager.cli.connect.journal import (
    Journal,
    read_journal,
    remove_journal,
    write_journal,
)
from memory_manager.cli.connect.launching import launch_of, snippet_of
from memory_manager.cli.connect.own_command import find_program, run_program
from memory_manager.cli.connect.registration import (
    Owner,
    Registered,
    unregister,
)
from memory_manager.cli.connect.registration import (
    register as register_client,
)
from memory_manager.cli.connect.status import connection_status
from memory_manager.cli.context import Context
from memory_manager.cli.errors import (
    EXIT_OK,
    ClientCommandFailed,
    NotConfirmed,
    NoTerminal,
    Usage,
)
from memory_manager.cli.output import local_time, table
from memory_manager.client.errors import DaemonNotRunning
from memory_manager.client.instance import find_installation, installation_name, installation_path

GENERIC = "generic"
NAMES = (*CLIENTS, http_client.NAME, GENERIC, "other")


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    connect = add_command(
        commands, shared, "connect", run_connect, "plug an agent in with one command",
        "Gives the client a credential of its own, kept on this machine, and puts one entry\n"
        "into its settings of this user, after showing it. No secret goes into that file.\n"
        f"Clients (documentation of {TABLE_CHECKED}): {', '.join(NAMES)}.",
    )  # fmt: skip
    connect.add_argument("client", metavar="CLIENT", nargs="?", choices=NAMES)
    connect.add_argument("--status", action="store_true", help="which clients are connected")
    connect.add_argument("--yes", action="store_true", help="do not ask")
    what = connect.add_mutually_exclusive_group()
    what.add_argument("--print", action="store_true", dest="only_print", help="print the entry")
    what.add_argument("--dry-run", action="store_true", help="show the change, make none")
    what.add_argument(
        "--no-file", action="store_true", help="only the credential; the entry is yours to make"
    )
    connect.add_argument(
        "--edit-file", action="store_true", help="do not use the client's own command"
    )
    connect.add_argument("--read-only", action="store_true", help="it may recall, not remember")
    connect.add_argument(
        "--replace", action="store_true", help="end a credential of this name made elsewhere"
    )
    add_passphrase_fd(connect)
    disconnect = add_command(
        commands, shared, "disconnect", run_disconnect, "take our entry out, end the credential"
    )
    disconnect.add_argument("client", metavar="CLIENT", choices=NAMES)
    disconnect.add_argument("--yes", action="store_true", help="do not ask")
    disconnect.add_argument(
        "--edit-file", action="store_true", help="do not use the client's own command"
    )
    add_passphrase_fd(disconnect)


@dataclasses.dataclass(frozen=True, slots=True)
class _Plan:
    """What connecting does to the client: edit a file, run its own command, or nothing."""

    change: Change | None = None
    command: tuple[str, ...] | None = None

    @property
    def is_needed(self) -> bool:
        return self.command is not None or (self.change is not None and self.change.is_needed)

    @property
    def shown(self) -> str:
        if self.command is not None:
            return f"runs: {shlex.join(self.command)}"
        return self.change.diff if self.change is not None else ""


def run_connect(arguments: argparse.Namespace, context: Context) -> int:
    if arguments.status:
        return _show_status(context)
    if arguments.client is None:
        raise Usage(f"Name a client: {', '.join(NAMES)}; or --status.")
    name = installation_name(arguments.client)
    if name == http_client.NAME:
        return _connect_hermes(arguments, context)
    launch = launch_of(name, context.environ)
    client = CLIENTS.get(name)
    if client is None or arguments.only_print:
        snippet = snippet_of(client, launch, context.environ)
        if arguments.only_print or arguments.dry_run:
            context.console.result({"client": name, **snippet}, str(snippet["text"]))
            return EXIT_OK
    places = Places(context.environ)
    plan = _Plan()
    if client is not None and not arguments.no_file:
        plan = _planned(client, launch, places, arguments.edit_file)
    if arguments.dry_run:
        _show(context, name, plan)
        return EXIT_OK
    with context.client() as daemon:
        owner = Owner(context, daemon, arguments.passphrase_fd)
        _agree(arguments, context, plan)
        registered = _registered(arguments, owner, name, plan)
        if plan.is_needed:
            try:
                _carry_out(client, launch, plan, context)
            except BaseException:
                _take_back(owner, name, registered)
                raise
    _tell_connected(context, name, client, launch, registered, plan)
    return EXIT_OK


def _registered(arguments: argparse.Namespace, owner: Owner, name: str, plan: _Plan) -> Registered:
    """The credential; what is about to happen is noted before anything does."""
    environ = owner.context.environ
    before = read_journal(name, environ)
    kept = before or Journal()
    if plan.command is not None and plan.change is not None:
        kept = Journal(file=str(plan.change.settings.path), by_command=True)
    elif plan.change is not None and plan.change.is_needed:
        kept = plan.change.journal()
        if before is not None and before.file == kept.file and before.edits:
            kept = dataclasses.replace(  # the file is as it was before our first change
                kept, existed=before.existed, made_folders=before.made_folders
            )
    registered = register_client(
        owner, name, read_only=arguments.read_only, replace=arguments.replace, note=kept
    )
    write_journal(name, dataclasses.replace(kept, registering=False), environ)
    return registered


def _take_back(owner: Owner, name: str, registered: Registered) -> None:
    """After a failure the credential made for it goes again; if that fails too, say so."""
    if not registered.fresh:
        return
    try:
        unregister(owner, name)
    except MemlocketError:
        owner.context.console.warn(
            f"The new credential '{name}' could not be revoked: memlocket agent revoke {name}"
        )


def _planned(client: Client, launch: Launch, places: Places, edit_file: bool) -> _Plan:
    kept = read_journal(client.name, places.environ)
    change = plan_entry(client, launch, places, kept)
    own = client.own_command
    if change.is_needed and own is not None and not edit_file:
        program = find_program(own.program, places.environ)
        outdated = entry_of(client, change.settings.path) is not None
        if program is not None and not outdated:
            return _Plan(change, (program, *own.add(launch)))
    return _Plan(change)


def _carry_out(client: Client | None, launch: Launch, plan: _Plan, context: Context) -> None:
    if plan.change is None or client is None:
        return
    if plan.command is None:
        plan.change.apply()
        return
    run_program(plan.command, context.environ)
    path = plan.change.settings.path
    if not launch.is_current(entry_of(client, path)):
        raise ClientCommandFailed(f"{plan.command[0]} said nothing, but {path} has no such entry.")


def run_disconnect(arguments: argparse.Namespace, context: Context) -> int:
    name = installation_name(arguments.client)
    environ, places = context.environ, Places(context.environ)
    kept = read_journal(name, environ)
    client, launch = CLIENTS.get(name), launch_of(name, environ)
    plan = _Plan()
    if name == http_client.NAME:
        plan = _Plan(http_client.plan_values_removal(http_client.settings_path(places), kept))
    elif client is not None:
        path = Path(kept.file) if kept is not None and kept.file else client.file(places)
        plan = _Plan(plan_removal(client, launch, path, kept))
        own = client.own_command
        by_command = kept is not None and kept.by_command and not arguments.edit_file
        if plan.is_needed and own is not None and by_command:
            program = find_program(own.program, environ)
            if program is not None:
                plan = _Plan(plan.change, (program, *own.remove))
    with context.client() as daemon:
        owner = Owner(context, daemon, arguments.passphrase_fd)
        _agree(arguments, context, plan)
        installation = find_installation(name, environ)
        if name == http_client.NAME and installation is not None:
            http_client.remove_key(places, installation)
        if plan.command is not None:
            run_program(plan.command, environ)
        elif plan.change is not None:
            undo(plan.change, kept)
        revoked = unregister(owner, name)
    remove_journal(name, environ)
    document = {
        "client": name,
        "entry_removed": plan.is_needed,
        "credential_revoked": revoked,
        "file": str(plan.change.settings.path) if plan.change is not None else None,
    }
    gone = "our entry is gone" if plan.is_needed else "no entry of ours was in its settings"
    parts = [gone if name != GENERIC else "remove its entry where you put it"]
    parts.append("its credential is revoked" if revoked else "it had no valid credential")
    context.console.result(document, f"Disconnected {name}: {', '.join(parts)}.")
    return EXIT_OK


def _connect_hermes(arguments: argparse.Namespace, context: Context) -> int:
    name, places = http_client.NAME, Places(context.environ)
    path = http_client.settings_path(places)
    with context.client() as daemon:
        owner = Owner(context, daemon, arguments.passphrase_fd)
        url = daemon.connection.address.url
        if url is None:
            raise DaemonNotRunning(
                "Hermes speaks HTTP, and the memory service has no port.",
                hint="Start it with one: memlocket restart --port 41234",
            )
        found = find_installation(name, context.environ)
        if not arguments.no_file:
            http_client.check_key_place(places, found)
        from memory_manager.client.instance import Installation, ensure_installation

        installation = found or Installation(name, name, "made when it is connected")
        if not (arguments.dry_run or arguments.only_print):
            installation = ensure_installation(name, name, context.environ)
        values = http_client.values_of(installation, url)
        if arguments.only_print:
            text = json.dumps(values, indent=2)
            context.console.result({"client": name, "file": str(path), "entry": values}, text)
            return EXIT_OK
        kept = read_journal(name, context.environ)
        plan = _Plan() if arguments.no_file else _Plan(http_client.plan_values(path, values, kept))
        if arguments.dry_run:
            _show(context, name, plan)
            return EXIT_OK
        _agree(arguments, context, plan)
        registered = _registered(arguments, owner, name, plan)
        try:
            if not arguments.no_file:
                http_client.write_key(places, registered.installation)
            if plan.change is not None and plan.is_needed:
                plan.change.apply()
        except BaseException:
            if registered.fresh:
                http_client.remove_key(places, registered.installation)
            _take_back(owner, name, registered)
            raise
    _tell_connected(context, name, None, None, registered, plan)
    credential = installation_path(name, context.environ)
    if arguments.no_file:
        context.console.note(
            f"Set for Hermes: XMEMO_URL={url}, and XMEMO_KEY to the 'credential' in {credential}."
        )
    else:
        context.console.note(
            f"Address and labels are in {path}, the key in {http_client.credentials_path(places)}."
        )
    for variable in (*http_client.KEY_VARIABLES, "XMEMO_URL", "MEMORY_OS_URL"):
        if context.environ.get(variable):
            context.console.warn(f"{variable} is set in this environment and goes before.")
    context.console.note(
        f"{url} holds until the service stops: start it with --port {url.rpartition(':')[2]}."
    )
    return EXIT_OK


def _agree(arguments: argparse.Namespace, context: Context, plan: _Plan) -> None:
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
    if prompts.ask_line("Make this change? [y/N] ").lower() not in ("y", "yes"):
        raise NotConfirmed()


def _show(context: Context, name: str, plan: _Plan) -> None:
    document = {
        "client": name,
        "changes": plan.is_needed,
        "file": str(plan.change.settings.path) if plan.change is not None else None,
        "diff": plan.change.diff if plan.change is not None else "",
        "command": list(plan.command) if plan.command is not None else None,
    }
    context.console.result(document, plan.shown or f"Nothing to change for {name}.")


def _tell_connected(
    context: Context,
    name: str,
    client: Client | None,
    launch: Launch | None,
    registered: Registered,
    plan: _Plan,
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


def _show_status(context: Context) -> int:
    launches = {name: launch_of(name, context.environ) for name in CLIENTS}
    document = connection_status(context, launches)
    service = document["service"]
    rows = document["clients"]
    if not isinstance(service, dict) or not isinstance(rows, list):
        raise TypeError("connection_status gives a service and a list of clients")
    lines = [
        (
            str(row["client"]),
            str(row["credential"]),
            local_time(row["last_seen"]) if row["last_seen"] else "never",
            str(row["entry"]),
            str(row["file"] or ""),
        )
        for row in rows
    ]
    text = table(("CLIENT", "CREDENTIAL", "LAST SEEN", "ENTRY", "FILE"), lines) if lines else ""
    if not lines:
        text = "No client is connected yet: memlocket connect CLIENT"
    context.console.result(document, text)
    if not service["reachable"]:
        context.console.note("The memory service is not running: memlocket up")
    elif service["problem"]:
        context.console.note(f"The memory service could not tell: {service['problem']}")
    return EXIT_OK
