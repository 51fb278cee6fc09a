"""``memlocket conflicts``: memories that two machines changed at once; you decide."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

from memory_manager.cli.arguments import Commands, add_command, positive
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK, Usage
from memory_manager.cli.output import counted, entries, local_time, shortened, table
from memory_manager.client.sync_acts import SyncActs

_Entry = Mapping[str, object]
_EXCERPT_COLUMNS = 60
MAX_STDIN_CHARACTERS = 1_000_000


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    parser = add_command(
        commands, shared, "conflicts", run_list, "memories changed on two machines at once",
        "Nothing was lost: recall shows one revision and the others are kept until you decide.\n"
        "A memory forgotten on one machine while another changed it is no conflict: the change\n"
        "stays, and the forgetting is in its versions.\n"
        "Without an action: the memories in conflict.",
    )  # fmt: skip
    actions = parser.add_subparsers(metavar="ACTION", title="actions")
    show = add_command(actions, shared, "show", run_show, "all revisions of one memory")
    keep = add_command(actions, shared, "keep", run_keep, "one revision becomes the only one")
    merge = add_command(
        actions, shared, "merge", run_merge, "a text of your own becomes the only revision",
        "Reads the text from standard input unless it is given.",
    )  # fmt: skip
    for command in (show, keep, merge):
        command.add_argument("id", metavar="ID", help="an id, or its first eight or more digits")
    keep.add_argument("number", metavar="NUMBER", type=positive, help="as 'show' counts them")
    merge.add_argument("text", metavar="TEXT", nargs="?", help="the merged text")


def run_list(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = SyncActs(client.connection).conflicts()
    found = entries(answer, "conflicts")
    rows = [
        (
            str(record.get("id")),
            str(len(entries(record, "revisions"))),
            shortened(str(entries(record, "revisions")[0].get("content")), _EXCERPT_COLUMNS),
        )
        for record in found
    ]
    text = table(("ID", "REVISIONS", "SHOWN NOW"), rows) if rows else "No memory is in conflict."
    context.console.result(answer, text)
    if rows:
        context.console.note("Decide: memlocket conflicts show ID, then keep or merge")
    return EXIT_OK


def run_show(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = SyncActs(client.connection).conflict(client.whole_id(arguments.id))
    context.console.result(answer, "\n\n".join(_revision(*each) for each in _numbered(answer)))
    return EXIT_OK


def _revision(number: int, revision: _Entry) -> str:
    shown = "  (recall shows this one)" if revision.get("shown") else ""
    by = revision.get("client") or revision.get("agent_id") or "owner"
    device = revision.get("device_name") or str(revision.get("device"))[:8]
    head = f"{number}  {local_time(revision.get('written_at'))}  {by}  device {device}{shown}"
    content = revision.get("content")
    return f"{head}\n{content if content is not None else 'This revision cannot be opened here.'}"


def run_keep(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        acts, memory_id = SyncActs(client.connection), client.whole_id(arguments.id)
        known = dict(_numbered(acts.conflict(memory_id)))
        if arguments.number not in known:
            raise Usage(f"There are {counted(len(known), 'revision')}.")
        answer = acts.keep(memory_id, str(known[arguments.number].get("revision")))
    context.console.result(answer, f"Decided: {memory_id}")
    return EXIT_OK


def run_merge(arguments: argparse.Namespace, context: Context) -> int:
    text = arguments.text
    if text is None:
        if sys.stdin.isatty():
            context.console.note("Type the merged text; end it with Ctrl-D.")
        text = sys.stdin.read(MAX_STDIN_CHARACTERS).strip()
    if not text:
        raise Usage("There is no text to keep.")
    with context.client() as client:
        memory_id = client.whole_id(arguments.id)
        answer = SyncActs(client.connection).merge(memory_id, text)
    context.console.result(answer, f"Decided: {memory_id}")
    return EXIT_OK


def _numbered(answer: _Entry) -> list[tuple[int, _Entry]]:
    return list(enumerate(entries(answer, "revisions"), start=1))
