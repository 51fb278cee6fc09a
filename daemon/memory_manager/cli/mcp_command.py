"""``memlocket mcp`` as the help shows it; the program itself takes the short way to the shim."""

from __future__ import annotations

import argparse

from memory_manager.cli.arguments import Commands, add_command
from memory_manager.cli.context import Context
from memory_manager.cli.mcp_shim import DEFAULT_CLIENT, ShimArguments, run_shim

_DETAILS = """\
Clients start this themselves; 'memlocket connect' writes it into their settings. It finds the
running memory service and presents the access that 'memlocket connect CLIENT' made."""


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    mcp = add_command(commands, shared, "mcp", run_mcp, "MCP server on stdin and stdout", _DETAILS)
    mcp.add_argument(
        "--client",
        metavar="CLIENT",
        help=f"whose access to use (without: {DEFAULT_CLIENT}, which may ask you for it)",
    )
    mcp.add_argument(
        "--start", action="store_true", help="may start the memory service if it does not run"
    )


def run_mcp(arguments: argparse.Namespace, context: Context) -> int:
    return run_shim(ShimArguments(arguments.client, arguments.start), context.environ)
