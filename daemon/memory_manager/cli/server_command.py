"""``memlocket server``: the sync server itself, in the foreground, and what its operator does."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import TYPE_CHECKING

from memory_manager.cli.arguments import Commands, WideHelp, add_command, positive
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK
from memory_manager.cli.output import counted, facts, size, table

if TYPE_CHECKING:
    from memory_manager.sync.server.host import Mount, MountFactory, SyncHost
    from memory_manager.sync.server.operator import ServerState
    from memory_manager.sync.server.running import RunningServer
    from memory_manager.sync.server.settings import ServerSettings

_COMPARING = {  # vectors of opted-in rows
    "database": "compared by the database (pgvector)",
    "sqlite": "compared by the server",
    "no_extension": "compared by the server: this PostgreSQL has no pgvector",
    "not_created": "compared by the server until a superuser runs CREATE EXTENSION vector in the"
    " database and the server starts again",
}
_DETAILS = """\
It keeps ciphertext that its clients verify, and knows nothing of your vault on this machine. \
Every option can also stand in the environment: MEMLOCKET_SERVER_DATA, \
MEMLOCKET_SERVER_LISTEN, and so on; a database URL with a password belongs there.

Limits stand in the environment only: MEMLOCKET_SERVER_QUOTA_ROWS, _BYTES, _DEVICES, \
_ENTRIES_PER_MINUTE, _REQUESTS_PER_MINUTE, _LOGINS_PER_MINUTE, _MAILBOXES_PER_IP, \
_MAILBOXES_PER_MINUTE and _NOTIFY_PER_DEVICE.
"""


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    parser = add_command(
        commands, shared, "server", run, "run a sync server for several machines", _DETAILS
    )
    _add_place(parser)
    network = parser.add_argument_group("network")
    network.add_argument(
        "--listen", metavar="HOST:PORT", help="where to answer (default: 127.0.0.1:8443)"
    )
    network.add_argument(
        "--public-host",
        metavar="HOST:PORT",
        help="what stands in the address clients use (default: the listening address)",
    )
    network.add_argument("--tls-cert", metavar="FILE", help="certificate chain in PEM")
    network.add_argument("--tls-key", metavar="FILE", help="its key in PEM, not encrypted")
    network.add_argument(
        "--behind-proxy",
        action="store_true",
        default=None,
        help="a proxy in front does TLS and sets X-Forwarded-For",
    )
    network.add_argument(
        "--metrics", metavar="HOST:PORT", help="serve Prometheus metrics at an address of its own"
    )
    network.add_argument(
        "--open-registration",
        action="store_true",
        default=None,
        help="anybody who reaches the server may make a vault",
    )
    parser.add_argument(
        "--models",
        metavar="DIR",
        help="prepared embedding models: opted-in rows are found by meaning too",
    )
    actions = parser.add_subparsers(metavar="[ACTION]", title="actions", required=False)
    _add_action(
        actions,
        shared,
        "token",
        give_token,
        "print a token that lets one vault be made, for a week",
    )
    _add_action(
        actions, shared, "status", show_status, "what the database holds, and each vault's head"
    )
    quota = _add_action(
        actions,
        shared,
        "quota",
        limit_vault,
        "give one vault limits of its own; those left out are the server's again",
    )
    quota.add_argument("vault", metavar="VAULT", help="its id, as status shows it")
    for what in ("rows", "bytes", "devices"):
        quota.add_argument(f"--{what}", type=positive, metavar="N", help=f"{what} at most")
    backup = _add_action(
        actions,
        shared,
        "backup",
        back_up,
        "copy database and server key into a new folder, also while the server runs",
    )
    backup.add_argument("folder", type=Path, metavar="PATH", help="the folder to make")


def _add_action(
    actions: Commands, shared: argparse.ArgumentParser, name: str, handler: object, summary: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        parents=[shared],
        formatter_class=WideHelp,
    )
    parser.set_defaults(handler=handler, parser=parser)
    _add_place(parser)
    return parser


def _add_place(parser: argparse.ArgumentParser) -> None:
    # suppressed: what stands before an action is not undone by its own default
    parser.add_argument(
        "--data",
        metavar="DIR",
        default=argparse.SUPPRESS,
        help="the server's own folder: its key, and the database",
    )
    parser.add_argument(
        "--database-url",
        metavar="URL",
        default=argparse.SUPPRESS,
        help="PostgreSQL instead of a file in DIR",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    from memory_manager.recall.process_environment import limit_arithmetic_threads

    limit_arithmetic_threads(os.environ)  # before the index imports numpy
    from memory_manager.service.hardening import harden_process
    from memory_manager.service.notify import ServiceNotifier
    from memory_manager.sync.server.run import run_server

    settings = _settings(arguments, context)
    harden_process()

    def ready(server: RunningServer) -> None:
        document = {
            "url": server.url,
            "public_host": server.host.public_host,
            "server_key": server.host.key.public.hex(),
            "server_words": list(server.host.key.words),
            "metrics_port": server.metrics_port,
            "version": server.host.version,
            "pid": os.getpid(),
        }
        text = facts(
            (
                ("sync server", f"ready at {server.url}"),
                ("clients use", server.host.public_host),
                ("server key", " ".join(server.host.key.words)),
                ("registration", "open to anybody" if settings.open_registration else "by token"),
            )
        )
        context.console.result(document, text)
        sys.stdout.flush()  # whoever started us waits for it

    run_server(settings, ServiceNotifier(context.environ), ready, mounts=(_index(settings),))
    return EXIT_OK


def _index(settings: ServerSettings) -> MountFactory:
    """The index of opted-in rows, with meaning where a folder of models was given."""
    from memory_manager.sync.server.index.mount import index_mount

    models = settings.models
    if models is None:
        return index_mount()

    @contextlib.asynccontextmanager
    async def mount(host: SyncHost) -> AsyncGenerator[Mount]:
        from memory_manager.service.index_embedder import index_embedder

        async with index_embedder(models) as embedder, index_mount(embedder)(host) as mounted:
            yield mounted

    return mount


def give_token(arguments: argparse.Namespace, context: Context) -> int:
    from memory_manager.sync.server.operator import add_registration_token

    token, expires_at = add_registration_token(_settings(arguments, context))
    context.console.result({"token": token, "expires_at": expires_at}, token)
    context.console.note(f"It makes one vault, until {expires_at}.")
    return EXIT_OK


def show_status(arguments: argparse.Namespace, context: Context) -> int:
    from memory_manager.sync.server.operator import read_comparing, read_state

    settings = _settings(arguments, context)
    state, usage = read_state(settings)
    comparing = read_comparing(settings)
    summary = facts(
        (
            ("server key", " ".join(state.words)),
            ("vaults", usage.vaults),
            ("devices", usage.devices),
            ("rows", usage.rows),
            ("stored", size(usage.bytes)),
            ("sessions", usage.sessions),
            ("meaning", _COMPARING[comparing.value]),
        )
    )
    context.console.result(
        {
            **state.as_json(),
            "usage": dataclasses.asdict(usage),
            "index": {"vectors": comparing.value},
        },
        "\n\n".join(filter(None, (summary, _heads(state)))),
    )
    return EXIT_OK


def limit_vault(arguments: argparse.Namespace, context: Context) -> int:
    from memory_manager.sync.server.operator import set_quota
    from memory_manager.sync.server.storage import OwnQuota

    quota = OwnQuota(arguments.rows, arguments.bytes, arguments.devices)
    set_quota(_settings(arguments, context), arguments.vault, quota)
    limits = {"rows": quota.rows, "bytes": quota.bytes, "devices": quota.devices}
    shown = facts((what, f"{limit or 'as the server has it'}") for what, limit in limits.items())
    context.console.result({"vault": arguments.vault, **limits}, shown)
    return EXIT_OK


def back_up(arguments: argparse.Namespace, context: Context) -> int:
    from memory_manager.sync.server.operator import back_up as copy_server

    state = copy_server(_settings(arguments, context), arguments.folder)
    done = f"{counted(len(state.heads), 'vault')} copied to {arguments.folder}"
    context.console.result(
        {"folder": str(arguments.folder), **state.as_json()},
        "\n\n".join(filter(None, (done, _heads(state)))),
    )
    context.console.note("Whoever has the copy can pass for this server: keep it private.")
    return EXIT_OK


def _settings(arguments: argparse.Namespace, context: Context) -> ServerSettings:
    from memory_manager.sync.server.settings import read_settings

    return read_settings(vars(arguments), context.environ)


def _heads(state: ServerState) -> str:
    """Rows and head of every vault, in the words that ``memlocket sync status`` shows too."""
    if not state.heads:
        return ""
    rows = [[vault, str(n), " ".join(words)] for vault, n, words in state.head_words()]
    return table(("vault", "rows", "head"), rows)
