"""``memlocket opt-in``: which memories a server may hold readable, each one by your own word."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from memory_manager.base.errors import NotFound
from memory_manager.cli import prompts
from memory_manager.cli.arguments import (
    Commands,
    add_command,
    add_group,
    add_passphrase_fd,
    positive,
)
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK, NotConfirmed, Usage
from memory_manager.cli.output import counted, entries, hanging, local_time, table
from memory_manager.client.memory_client import MemoryClient
from memory_manager.client.opt_in_acts import OptInActs

_EXCERPT_CHARACTERS: Final = 60
_Entry = Mapping[str, Any]
_STATES: Final = {
    "waiting": "granted, not sent yet",
    "sent": "readable on the server",
    "blocked": "never sent",
    "leaving": "taken back, not removed yet",
}


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    actions = add_group(
        commands, shared, "opt-in", "let hosted agents recall chosen memories through your server"
    )
    request = add_command(
        actions, shared, "request", run_request, "put a memory on the list that waits for you",
        "It grants nothing: 'memlocket opt-in approve' does, with your passphrase.",
    )  # fmt: skip
    request.add_argument("id", metavar="ID", help="id of a memory, or its beginning")
    request.add_argument("--reason", metavar="TEXT", help="why, at most 500 characters")
    add_command(actions, shared, "list", run_list, "what waits for you, and what is opted in")
    approve = add_command(
        actions, shared, "approve", run_approve, "opt memories in, after a look at what leaves",
        "The server, its operator and whoever breaks into it can then read the copy. Your vault's\n"
        "own row stays as it is. Above 50 memories you type how many there are. A memory that is\n"
        "changed later leaves the server and waits for you again.",
    )  # fmt: skip
    approve.add_argument("ids", metavar="ID", nargs="*", help="ids of memories")
    approve.add_argument("--all", action="store_true", help="everything that waits")
    approve.add_argument(
        "--count", type=positive, metavar="N", help="how many there are, instead of typing it"
    )
    add_passphrase_fd(approve)
    for name, run, summary in (
        ("decline", run_decline, "drop requests without opting in"),
        ("out", run_out, "take memories back: from the server's index, at once or when it answers"),
    ):
        command = add_command(actions, shared, name, run, summary)
        command.add_argument("ids", metavar="ID", nargs="+", help="ids of memories")
    search = add_command(
        actions, shared, "search", run_search, "what hosted agents would find for a query",
        "The query goes to the server in plaintext; the text shown is that of your own vault.",
    )  # fmt: skip
    search.add_argument("query", metavar="QUERY", help="what an agent would ask")
    search.add_argument(
        "--limit", type=positive, default=10, metavar="N", help="at most so many (default: 10)"
    )
    add_command(actions, shared, "status", run_status, "counts: waiting, sent, blocked, leaving")
    token = add_command(
        actions, shared, "token", run_token, "give a hosted agent access to what is opted in",
        "The token is printed once, on standard output. It reads opted-in memories, nothing else.",
    )  # fmt: skip
    token.add_argument("name", metavar="NAME", help="your name for the agent")
    token.add_argument("--days", type=positive, default=90, metavar="N", help="default: 90")
    add_passphrase_fd(token)
    add_command(actions, shared, "tokens", run_tokens, "who has such a token")
    revoke = add_command(actions, shared, "revoke-token", run_revoke, "end a token at once")
    revoke.add_argument("token", metavar="NAME", help="its name or id: memlocket opt-in tokens")


def run_request(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        memory_id = client.whole_id(arguments.id)
        answer = _acts(client).request(memory_id, arguments.reason)
    asked = answer.get("status") == "awaiting_owner"
    context.console.result(
        answer, "It waits for you." if asked else "It waits, or is opted in, already."
    )
    context.console.note("Decide: memlocket opt-in approve ID, or: memlocket opt-in decline ID")
    return EXIT_OK


def run_list(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = _acts(client).listing()
    requests, opted_in = entries(answer, "requests"), entries(answer, "opted_in")
    parts: list[str] = []
    if requests:
        rows = [
            (
                str(entry["id"]),
                local_time(entry.get("requested_at")),
                str(entry.get("client") or "-"),
                _excerpt(entry),
            )
            for entry in requests
        ]
        parts.append(table(("WAITS", "ASKED", "BY", "TEXT"), rows))
        parts += [
            hanging(f"{str(e['id'])[:8]}: ", str(e["reason"])) for e in requests if e["reason"]
        ]
    if opted_in:
        rows = [
            (str(entry["id"]), _state(entry), str(entry.get("path") or "-"), _excerpt(entry))
            for entry in opted_in
        ]
        parts.append(table(("OPTED IN", "STATE", "PATH", "TEXT"), rows))
    context.console.result(answer, "\n".join(parts) or "Nothing waits and nothing is opted in.")
    if requests:
        context.console.note("Opt in: memlocket opt-in approve ID, or --all")
    return EXIT_OK


def run_approve(arguments: argparse.Namespace, context: Context) -> int:
    if bool(arguments.ids) == arguments.all:
        raise Usage("Name the ids, or give --all, not both.")
    with context.client() as client:
        acts = _acts(client)
        if arguments.all:
            ids = [str(entry["id"]) for entry in entries(acts.listing(), "requests")]
            if not ids:
                context.console.result({"approved": [], "count": 0}, "Nothing waits for you.")
                return EXIT_OK
        else:
            ids = [client.whole_id(given) for given in arguments.ids]
        seen = acts.preview(ids)
        _show(seen, context)
        count = _typed_count(seen, arguments.count, arguments.passphrase_fd is None)
        passphrase = prompts.ask_secret("Passphrase", arguments.passphrase_fd)
        answer = acts.approve(ids, str(seen["digest"]), count, passphrase)
    shown = counted(cast("int", answer.get("count") or 0), "memory", "memories")
    context.console.result(answer, f"Opted in: {shown}")
    context.console.note("Take one back: memlocket opt-in out ID")
    return EXIT_OK


def run_decline(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = _acts(client).decline([client.whole_id(given) for given in arguments.ids])
    count = cast("int", answer.get("count") or 0)
    context.console.result(answer, f"Declined: {counted(count, 'request')}")
    return EXIT_OK


def run_out(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = _acts(client).out([client.whole_id(given) for given in arguments.ids])
    count = cast("int", answer.get("count") or 0)
    context.console.result(answer, f"Taken back: {counted(count, 'memory', 'memories')}")
    context.console.note("Removed from the server as soon as it answers: memlocket opt-in status")
    return EXIT_OK


def run_search(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = _acts(client).search(arguments.query, arguments.limit)
    if answer.get("alarm"):
        context.console.warn("the server answered with rows you never opted in; they were dropped")
    rows = [
        (f"{hit.get('score', 0):.3f}", str(hit["id"]), str(hit.get("path")), _excerpt(hit))
        for hit in entries(answer, "results")
    ]
    text = table(("SCORE", "ID", "PATH", "TEXT"), rows) if rows else "Nothing is found there."
    context.console.result(answer, text)
    if answer.get("degraded"):
        context.console.note("The server has no embeddings: only shared words are found.")
    return EXIT_OK


def run_status(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = _acts(client).status()
    counts = cast("_Entry", answer.get("opt_in") or {})
    rows = [("requests", str(counts.get("requests", 0)), "wait for you")]
    rows += [(name, str(counts.get(name, 0)), meaning) for name, meaning in _STATES.items()]
    context.console.result(answer, table(("STATE", "COUNT", "MEANING"), rows))
    return EXIT_OK


def run_token(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        acts = _acts(client)
        answer = context.as_admin(
            client,
            lambda: acts.add_token(arguments.name, arguments.days),
            arguments.passphrase_fd,
        )
    context.console.result(answer, str(answer.get("token", "")))
    server = answer.get("server")
    context.console.note(
        "It reads what you opted in, at your server. It is not shown again. Give the agent:\n"
        f"  XMEMO_URL={server}  XMEMO_KEY=<the token>\n"
        f"or, over plain HTTP, {server}/v1/recall/context with the header\n"
        "  X-API-Key: <the token>"
    )
    return EXIT_OK


def run_tokens(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = _acts(client).tokens()
    rows = [
        (
            str(entry["id"]),
            str(entry["name"]),
            local_time(entry.get("expires_at")),
            local_time(entry["last_used_at"]) if entry.get("last_used_at") else "never",
        )
        for entry in entries(answer, "tokens")
    ]
    text = table(("ID", "NAME", "UNTIL", "LAST USED"), rows) if rows else "Nobody has a token."
    context.console.result(answer, text)
    return EXIT_OK


def run_revoke(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        acts = _acts(client)
        answer = acts.revoke_token(_token_id(entries(acts.tokens(), "tokens"), arguments.token))
    context.console.result(answer, "The token is revoked.")
    return EXIT_OK


def _token_id(tokens: Sequence[_Entry], typed: str) -> str:
    """The id of the token with this name or id."""
    fitting = [str(entry["id"]) for entry in tokens if typed in (entry["id"], entry["name"])]
    if not fitting:
        raise NotFound("No token has this name or id.", hint="See: memlocket opt-in tokens")
    if len(fitting) > 1:
        raise Usage("Several tokens have this name; give the id: memlocket opt-in tokens")
    return fitting[0]


def _show(seen: _Entry, context: Context) -> None:
    """What is about to leave, in the owner's words and then byte for byte."""
    count = cast("int", seen["count"])
    note = context.console.note
    note(f"{counted(count, 'memory', 'memories')} would become readable at {seen['server']}:")
    for memory_id in cast("Sequence[str]", seen["ids"]):
        note(f"  {memory_id}")
    for entry in entries(seen, "blocked"):
        rules = ", ".join(cast("Sequence[str]", entry["rules"]))
        context.console.warn(f"{entry['id']} looks like a secret: {rules}")
    samples = cast("Sequence[str]", seen["samples"])
    if samples:
        note("Exactly this leaves" + (f", for the first {len(samples)}:" if count > 1 else ":"))
    for sample in samples:
        context.console.exactly(json.dumps(json.loads(sample), ensure_ascii=False, indent=2))
    note(str(seen["notice"]))


def _typed_count(seen: _Entry, given: int | None, may_ask: bool) -> int | None:
    if not seen["type_count"] or given is not None or not may_ask:
        return given
    typed = prompts.ask_line("Type how many memories you opt in: ")
    if not typed.isdigit():
        raise NotConfirmed("No number was typed; nothing was opted in.")
    return int(typed)


def _acts(client: MemoryClient) -> OptInActs:
    return OptInActs(client.connection)


def _state(entry: _Entry) -> str:
    state = str(entry.get("state"))
    code = f" ({entry['code']})" if entry.get("code") else ""
    return f"{state}{code}"


def _excerpt(entry: _Entry) -> str:
    return " ".join(str(entry.get("content") or "").split())[:_EXCERPT_CHARACTERS]
