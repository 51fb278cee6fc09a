"""``memlocket daemon``: the one command that is the daemon itself, in the foreground."""

from __future__ import annotations

import argparse
from pathlib import Path

from memory_manager.cli.arguments import Commands, add_command
from memory_manager.cli.context import Context


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    parser = add_command(
        commands, shared, "daemon", run, "run the memory service in the foreground"
    )
    parser.add_argument("--service", action="store_true", help="started by a service manager")
    parser.add_argument("--port", type=int, default=0, help="fixed TCP port instead of a free one")
    parser.add_argument(
        "--insecure-key-file",
        type=Path,
        metavar="PATH",
        help="open the vault with a key file: for tests and sandboxes only",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    from memory_manager.api.run import DaemonOptions, run_daemon

    return run_daemon(
        DaemonOptions(
            service=arguments.service,
            port=arguments.port,
            insecure_key_file=arguments.insecure_key_file,
        )
    )
