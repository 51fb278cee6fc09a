"""``memlocket agent``: credentials of installed agents. A token is printed once and never again."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import cast

from memory_manager.cli.arguments import Commands, add_command, add_group, add_passphrase_fd
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK
from memory_manager.cli.output import counted, local_time, table

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
    add_command(actions, shared, "list", run_list, "list credentials, without their tokens")
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
        f"Take it back with: memlocket agent revoke {arguments.name}"
    )
    return EXIT_OK


def run_list(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = client.agents()
    agents = cast("Sequence[Mapping[str, object]]", answer.get("agents") or [])
    if not agents:
        context.console.result(answer, "No agent has a credential yet: memlocket agent add NAME")
        return EXIT_OK
    rows = [
        (
            str(agent.get("name", "")),
            " ".join(str(scope) for scope in cast("Sequence[object]", agent.get("scopes") or [])),
            local_time(agent.get("created_at")),
            local_time(agent["last_used_at"]) if agent.get("last_used_at") else "never",
            "revoked" if agent.get("revoked_at") else "active",
            _seen_as(agent),
        )
        for agent in agents
    ]
    text = table(("NAME", "SCOPES", "SINCE", "LAST USED", "STATE", "SEEN AS"), rows)
    context.console.result(answer, text)
    context.console.note(counted(len(rows), "credential"))
    return EXIT_OK


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
