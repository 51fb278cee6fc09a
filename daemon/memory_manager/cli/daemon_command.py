"""``memlocket daemon``: the one command that is the daemon itself, in the foreground."""

from __future__ import annotations

import argparse
import os

from memory_manager.cli.arguments import Commands, add_command, add_start_options
from memory_manager.cli.context import Context


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    parser = add_command(
        commands, shared, "daemon", run, "run the memory service in the foreground"
    )
    parser.add_argument("--service", action="store_true", help="started by a service manager")
    add_start_options(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    from memory_manager.recall.process_environment import limit_arithmetic_threads

    limit_arithmetic_threads(os.environ)  # before the next line imports numpy
    from memory_manager.api.run import DaemonOptions, run_daemon
    from memory_manager.service.embedders import EmbeddingsMode

    return run_daemon(
        DaemonOptions(
            service=arguments.service,
            port=arguments.port or 0,
            insecure_key_file=arguments.insecure_key_file,
            embeddings=EmbeddingsMode.OFF if arguments.no_embeddings else EmbeddingsMode.AUTO,
            auto_approve=arguments.auto_approve,
        )
    )
