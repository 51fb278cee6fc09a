"""``memlocket connect`` and ``disconnect``: plug a client in with one command, and out again."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

from memory_manager.cli.arguments import Commands, add_command, add_passphrase_fd
from memory_manager.cli.connect import http_client, key_file
from memory_manager.cli.connect.change import entry_of, plan_entry, plan_removal, plan_return, undo
from memory_manager.cli.connect.clients import CLIENTS, TABLE_CHECKED, Client, Launch, Places
from memory_manager.cli.connect.flow import (
    Plan,
    agree,
    registered_for,
    show_plan,
    take_back,
    tell_connected,
)
from memory_manager.cli.connect.http_command import OPENCLAW, connect_http
from memory_manager.cli.connect.journal import Journal, read_journal, remove_journal, write_journal
from memory_manager.cli.connect.launching import launch_of, snippet_of
from memory_manager.cli.connect.own_command import find_program, run_program
from memory_manager.cli.connect.registration import Owner, unregister
from memory_manager.cli.connect.settings_file import drop_backup, keep_backup, read_settings
from memory_manager.cli.connect.status import connection_status
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK, ClientCommandFailed, SettingsRefused, Usage
from memory_manager.cli.output import local_time, table
from memory_manager.client.instance import find_installation, installation_name

GENERIC = "generic"
NAMES = (*CLIENTS, http_client.NAME, GENERIC, "other")


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    connect = add_command(
        commands, shared, "connect", run_connect, "plug an agent in with one command",
        "Gives the client a credential of its own, kept on this machine, and puts one entry\n"
        "into its settings of this user, after showing it. No secret goes into that file.\n\n"
        f"Clients (documentation of {TABLE_CHECKED}): {', '.join(NAMES)}.",
    )  # fmt: skip
    connect.add_argument(
        "client", metavar="CLIENT", nargs="?", choices=NAMES, help="its name, as listed above"
    )
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
    connect.add_argument(
        "--http", action="store_true", help="OpenClaw: for its XMemo plugin instead of MCP"
    )
    add_passphrase_fd(connect)
    disconnect = add_command(
        commands, shared, "disconnect", run_disconnect, "take our entry out, end the credential"
    )
    disconnect.add_argument(
        "client", metavar="CLIENT", choices=NAMES, help="as 'memlocket connect --help' lists it"
    )
    disconnect.add_argument("--yes", action="store_true", help="do not ask")
    disconnect.add_argument(
        "--edit-file", action="store_true", help="do not use the client's own command"
    )
    disconnect.add_argument(
        "--entry-only", action="store_true", help="without the service; the credential stays"
    )
    add_passphrase_fd(disconnect)


def run_connect(arguments: argparse.Namespace, context: Context) -> int:
    if arguments.status:
        return _show_status(context)
    if arguments.client is None:
        raise Usage(f"Name a client: {', '.join(NAMES)}; or --status.")
    name = installation_name(arguments.client)
    if arguments.http and name != OPENCLAW and name != http_client.NAME:
        raise Usage(f"--http is for {http_client.NAME} and {OPENCLAW}; {name} speaks MCP.")
    if arguments.http or name == http_client.NAME:
        return connect_http(name, arguments, context)
    launch = launch_of(name, context.environ)
    client = CLIENTS.get(name)
    if client is None or arguments.only_print:
        snippet = snippet_of(client, launch, context.environ)
        if arguments.only_print or arguments.dry_run:
            context.console.result({"client": name, **snippet}, str(snippet["text"]))
            return EXIT_OK
    places = Places(context.environ)
    plan = Plan()
    if client is not None and not arguments.no_file:
        plan = _planned(client, launch, places, arguments.edit_file)
    if arguments.dry_run:
        show_plan(context, name, plan)
        return EXIT_OK
    with context.client() as daemon:
        owner = Owner(context, daemon, arguments.passphrase_fd)
        owner.credentials()  # a closed vault says so before anything is asked
        agree(arguments, context, plan)
        registered = registered_for(arguments, owner, name, plan)
        if plan.is_needed:
            try:
                _carry_out(client, launch, plan, context)
            except BaseException:
                take_back(owner, name, registered)
                raise
    tell_connected(context, name, client, launch, registered, plan)
    return EXIT_OK


def _planned(client: Client, launch: Launch, places: Places, edit_file: bool) -> Plan:
    kept = read_journal(client.name, places.environ)
    change = plan_entry(client, launch, places, kept)
    own = client.own_command
    if change.is_needed and own is not None and not edit_file:
        program = find_program(own.program, places.environ)
        outdated = entry_of(client, change.settings.path) is not None
        if program is not None and not outdated:
            return Plan(change, (program, *own.add(launch)))
    return Plan(change)


def _carry_out(client: Client | None, launch: Launch, plan: Plan, context: Context) -> None:
    if plan.change is None or client is None:
        return
    if plan.command is None:
        plan.change.apply()
        return
    before = plan.change.settings
    keep_backup(before)
    try:
        run_program(plan.command, context.environ)
    except ClientCommandFailed:
        drop_backup(before, read_settings(before.path).text)
        raise
    if not launch.is_current(entry_of(client, before.path)):
        raise ClientCommandFailed(
            f"{plan.command[0]} reported no error, but {before.path} has no such entry."
        )
    journal = read_journal(client.name, context.environ)
    if journal is not None:
        digest = read_settings(before.path).digest
        noted = dataclasses.replace(journal, after_digest=digest)
        write_journal(client.name, noted, context.environ)


def _planned_removal(name: str, kept: Journal | None, context: Context, edit_file: bool) -> Plan:
    """The way back: the old bytes where nothing else was written since, the client's own command
    where it made the entry, else an edit.
    """
    environ, places = context.environ, Places(context.environ)
    client, launch = CLIENTS.get(name), launch_of(name, environ)
    if name == http_client.NAME:
        return Plan(http_client.plan_values_removal(http_client.settings_path(places), kept))
    if client is None:
        return Plan()
    path = Path(kept.file) if kept is not None and kept.file else client.file(places)
    try:
        change = plan_removal(client, launch, path, kept)
    except SettingsRefused as error:
        hint = f"Mend the file; to end the credential alone: memlocket agent revoke {name}"
        raise SettingsRefused(error.message, hint=hint) from None
    own = client.own_command
    if kept is None or not kept.by_command or edit_file:
        return Plan(change)
    back = plan_return(client, launch, path, kept)
    if back is not None:
        return Plan(back)
    if change.is_needed and own is not None:
        program = find_program(own.program, environ)
        if program is not None:
            return Plan(change, (program, *own.remove))
    return Plan(change)


def run_disconnect(arguments: argparse.Namespace, context: Context) -> int:
    name = installation_name(arguments.client)
    environ = context.environ
    kept = read_journal(name, environ)
    plan = _planned_removal(name, kept, context, arguments.edit_file)
    key = key_file.plan_key_removal(Places(environ), find_installation(name, environ))
    plan = dataclasses.replace(plan, key=key)
    if arguments.entry_only:
        agree(arguments, context, plan)
        _take_out(name, plan, kept, context)
        context.console.result(
            {"client": name, "entry_removed": plan.is_needed, "credential_revoked": False},
            f"Our entry is gone; the credential stays until: memlocket disconnect {name}",
        )
        return EXIT_OK
    with context.client() as daemon:
        owner = Owner(context, daemon, arguments.passphrase_fd)
        owner.credentials()  # a closed vault says so before anything is asked
        agree(arguments, context, plan)
        _take_out(name, plan, kept, context)
        interrupted = kept is not None and kept.registering
        revoked = unregister(owner, name, interrupted=interrupted)
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


def _take_out(name: str, plan: Plan, kept: Journal | None, context: Context) -> None:
    if plan.key is not None:
        key_file.remove_key(plan.key)
    if plan.command is not None:
        run_program(plan.command, context.environ)
    elif plan.change is not None:
        undo(plan.change, kept)


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
        said = f"Which credentials are valid is not known: {service['message']}"
        context.console.note(f"{said} {service['hint'] or ''}".rstrip())
    for row in rows:
        for problem in row["problems"]:
            context.console.warn(problem)
    return EXIT_OK
