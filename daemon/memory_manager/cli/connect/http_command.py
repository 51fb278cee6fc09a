"""``memlocket connect`` for what speaks XMemo's HTTP: Hermes, and OpenClaw with its plugin."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Final

from memory_manager.cli.connect import http_client, key_file
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
from memory_manager.cli.connect.key_file import KeyAction, KeyChange
from memory_manager.cli.connect.registration import Owner, Registered
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
        key = None if arguments.no_file else key_file.plan_key(places, found)
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
        plan = Plan(key=key)
        if path is not None and not arguments.no_file:
            kept = read_journal(name, context.environ)
            plan = Plan(http_client.plan_values(path, entry, kept), key=key)
        if arguments.dry_run:
            show_plan(context, name, plan)
            return EXIT_OK
        agree(arguments, context, plan)
        registered = registered_for(arguments, owner, name, plan)
        try:
            if key is not None:
                key_file.write_key(key, registered.installation)
            if plan.change is not None and plan.is_needed:
                plan.change.apply()
        except BaseException:
            if registered.fresh:
                written = key_file.plan_key_removal(places, registered.installation)
                if written is not None:
                    key_file.remove_key(written)
            take_back(owner, name, registered)
            raise
    tell_connected(context, name, None, None, registered, plan)
    _tell_key(context, key, registered)
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


def _tell_key(context: Context, key: KeyChange | None, registered: Registered) -> None:
    if key is None or registered.fresh or not key.is_needed:
        return
    gone = "The key file was gone" if key.action is KeyAction.MAKE else "The key was gone from it"
    context.console.note(f"{gone}; the key was written again: {key.settings.path}")


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
        context.console.note(f"The key is in {key_file.credentials_path(places)}.")
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
