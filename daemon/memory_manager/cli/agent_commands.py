"""``memlocket agent``: credentials of installed agents. A token is printed once and never again."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from typing import cast

from memory_manager.cli.arguments import Commands, add_command, add_group, add_passphrase_fd
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK
from memory_manager.cli.output import counted, local_time, shortened, table

MAX_NAME_COLUMNS = 16
MAX_ACCESS_COLUMNS = 12
_SCOPES = {
    "read": ["memory:read", "ledger:read"],
    "read-write": ["memory:read", "memory:write", "memory:restore", "ledger:read", "ledger:write"],
}


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    actions = add_group(commands, shared, "agent", "give agents access, list them, take it back")
    add = add_command(
        actions, shared, "add", run_add, "make a credential for an agent",
        "The token is printed once. It goes into the agent's own configuration as\n"
        "'Authorization: Bearer TOKEN' or 'X-API-Key: TOKEN'.",
    )  # fmt: skip
    add.add_argument("name", metavar="NAME", help="what you call this agent, e.g. claude-code")
    add.add_argument(
        "--access", choices=sorted(_SCOPES), default="read-write", help="default: read-write"
    )
    add_passphrase_fd(add)
    listing = add_command(
        actions, shared, "list", run_list, "list credentials, without their tokens"
    )
    listing.add_argument("--all", action="store_true", help="revoked ones too")
    revoke = add_command(actions, shared, "revoke", run_revoke, "end a credential at once")
    revoke.add_argument("name", metavar="NAME", help="its name or id")
    add_passphrase_fd(revoke)


def run_add(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        made = context.as_admin(
            client,
            lambda: client.add_agent(arguments.name, _SCOPES[arguments.access]),
            arguments.passphrase_fd,
        )
        url = client.connection.address.url
    context.console.result({**made, "url": url}, str(made.get("token", "")))
    context.console.note(
        f"\nThis token of '{arguments.name}' is shown once. Give it to the agent as\n"
        f"  X-API-Key: {str(made.get('token', ''))[:8]}...   at {url or 'the Unix socket'}\n"
        f"Take it back with: {revoke_command(arguments.name)}"
    )
    return EXIT_OK


def run_list(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = client.agents()
    agents = cast("Sequence[Mapping[str, object]]", answer.get("agents") or [])
    if not agents:
        context.console.result(answer, "No agent has a credential yet: memlocket agent add NAME")
        return EXIT_OK
    shown = [agent for agent in agents if arguments.all or not agent.get("revoked_at")]
    hidden = len(agents) - len(shown)
    rows = [
        (
            shortened(str(agent.get("name", "")), MAX_NAME_COLUMNS),
            access_of(agent),
            local_time(agent.get("created_at")),
            _last_use(agent),
            _seen_as(agent),
        )
        for agent in shown
    ]
    text = table(("NAME", "ACCESS", "SINCE", "LAST USED", "SEEN AS"), rows)
    context.console.result(answer, text if rows else "No agent has access now.")
    more = f"; {hidden} revoked: memlocket agent list --all" if hidden else ""
    context.console.note(f"{counted(len(rows), 'credential')}{more}")
    return EXIT_OK


def _last_use(agent: Mapping[str, object]) -> str:
    if agent.get("revoked_at"):
        return "revoked"
    return local_time(agent["last_used_at"]) if agent.get("last_used_at") else "never"


def access_of(entry: Mapping[str, object]) -> str:
    """``read`` or ``read-write`` for the usual sets of scopes; others are named, shortened."""
    scopes = [str(scope) for scope in cast("Sequence[object]", entry.get("scopes") or [])]
    for access, usual in _SCOPES.items():
        if set(scopes) == set(usual):
            return access
    return shortened(" ".join(scopes), MAX_ACCESS_COLUMNS)


def revoke_command(name: str) -> str:
    """As it can be typed into a shell."""
    return f"memlocket agent revoke {shlex.quote(name)}"


def _seen_as(agent: Mapping[str, object]) -> str:
    """The names it was used under; more than one means that a token is shared."""
    labels = cast("Sequence[Mapping[str, object]]", agent.get("seen_as") or [])
    return ", ".join(sorted({str(each["agent_id"]) for each in labels if each.get("agent_id")}))


def run_revoke(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = context.as_admin(
            client, lambda: client.revoke_agent(arguments.name), arguments.passphrase_fd
        )
    context.console.result(answer, f"Revoked: {arguments.name}")
    return EXIT_OK
