"""``memlocket client``: settings of one client's access."""

from __future__ import annotations

import argparse

from memory_manager.cli.arguments import Commands, add_command, add_group
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK

PROFILES = ("core", "full")


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    actions = add_group(commands, shared, "client", "settings of one client's access")
    change = add_command(
        actions,
        shared,
        "set",
        run_set,
        "change how a client sees the memory",
        "Every tool stays callable; a longer list costs the client's context.",
    )
    change.add_argument("agent", metavar="ID", help="id or name of its credential")
    change.add_argument(
        "--mcp-profile",
        choices=PROFILES,
        required=True,
        help="MCP tools it sees listed: the eight of core, or full: all",
    )


def run_set(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        body = client.set_mcp_profile(arguments.agent, arguments.mcp_profile)
    context.console.result(body, f"{body['name']} sees the {body['mcp_profile']} list of tools.")
    return EXIT_OK
