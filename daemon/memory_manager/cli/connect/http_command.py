"""``memlocket connect`` for what speaks XMemo's HTTP: Hermes, and OpenClaw with its plugin."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Final

from memory_manager.cli.connect import http_client
from memory_manager.cli.connect.clients import Places
from memory_manager.cli.connect.flow import (
    Plan,
    agree,
    registered_for,
    show_plan,
    take_back,
    tell_connected,
)
from memory_manager.cli.connect.journal import read_journal
from memory_manager.cli.connect.registration import Owner
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK
from memory_manager.client.errors import DaemonNotRunning
from memory_manager.client.instance import (
    Installation,
    ensure_installation,
    find_installation,
    installation_path,
)

OPENCLAW: Final = "openclaw"
ADDRESS_VARIABLES: Final = ("XMEMO_URL", "MEMORY_OS_URL", "XMEMO_BASE_URL", "MEMORY_OS_BASE_URL")


def connect_http(name: str, arguments: argparse.Namespace, context: Context) -> int:
    """Address and labels into the client's own file, the key into the file XMemo clients share.

    OpenClaw refuses to start with settings of a plugin that is not installed, so what belongs into
    its file is printed, not written.
    """
    places = Places(context.environ)
    path = http_client.settings_path(places) if name == http_client.NAME else None
    with context.client() as daemon:
        owner = Owner(context, daemon, arguments.passphrase_fd)
        url = _address(name, daemon.connection.address.url)
        found = find_installation(name, context.environ)
        if not arguments.no_file:
            http_client.check_key_place(places, found)
        installation = found or Installation(name, name, "made when it is connected")
        if not (arguments.dry_run or arguments.only_print):
            owner.credentials()  # a closed vault says so before anything is asked
            installation = ensure_installation(name, name, context.environ)
        entry = _entry(name, installation, url)
        if arguments.only_print:
            text = json.dumps(entry, indent=2)
            file = None if path is None else str(path)
            context.console.result({"client": name, "file": file, "entry": entry}, text)
            return EXIT_OK
        plan = Plan()
        if path is not None and not arguments.no_file:
            kept = read_journal(name, context.environ)
            plan = Plan(http_client.plan_values(path, entry, kept))
        if arguments.dry_run:
            show_plan(context, name, plan)
            return EXIT_OK
        agree(arguments, context, plan)
        registered = registered_for(arguments, owner, name, plan)
        try:
            if not arguments.no_file:
                http_client.write_key(places, registered.installation, found)
            if plan.change is not None and plan.is_needed:
                plan.change.apply()
        except BaseException:
            if registered.fresh:
                http_client.remove_key(places, registered.installation)
            take_back(owner, name, registered)
            raise
    tell_connected(context, name, None, None, registered, plan)
    _tell_where(context, name, arguments.no_file, entry, url)
    return EXIT_OK


def _address(name: str, url: str | None) -> str:
    if url is None:
        raise DaemonNotRunning(
            f"{name} speaks HTTP, and the memory service has no port.",
            hint="Start it with one: memlocket restart --port 41234",
        )
    return url


def _entry(name: str, installation: Installation, url: str) -> dict[str, object]:
    if name == http_client.NAME:
        return http_client.values_of(installation, url)
    plugin = {"enabled": True, "config": {"baseUrl": url}}
    return {"plugins": {"slots": {"memory": "xmemo-memory"}, "entries": {"xmemo-memory": plugin}}}


def _tell_where(
    context: Context, name: str, no_file: bool, entry: Mapping[str, object], url: str
) -> None:
    places = Places(context.environ)
    kept = installation_path(name, context.environ)
    if no_file:
        context.console.note(
            f"Set for {name}: XMEMO_URL={url}, and XMEMO_KEY to the 'credential' in {kept}."
        )
    else:
        context.console.note(f"The key is in {http_client.credentials_path(places)}.")
    if name == OPENCLAW:
        context.console.note(
            "With the plugin installed (openclaw plugins install @xmemo/openclaw-memory) put this "
            f"into its openclaw.json:\n{json.dumps(entry, indent=2)}\n"
            "and XMEMO_AGENT_INSTANCE_ID, the 'instance_id' in "
            f"{kept}, into its environment."
        )
    for variable in (*http_client.KEY_VARIABLES, *ADDRESS_VARIABLES):
        if context.environ.get(variable):
            context.console.warn(f"{variable} is set in this environment and goes before.")
    context.console.note(
        f"{url} holds until the service stops: start it with --port {url.rpartition(':')[2]}."
    )
