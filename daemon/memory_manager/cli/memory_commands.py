"""Commands on single memories: remember, recall, search, list, get, versions, forget, restore."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import cast

from memory_manager.base.errors import MemlocketError, NotFound
from memory_manager.cli import memory_text
from memory_manager.cli.arguments import (
    Commands,
    add_command,
    add_filters,
    add_memory_type,
    add_passphrase_fd,
    filters_of,
    future_moment,
    positive,
    ratio,
)
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK, Usage, code_of
from memory_manager.cli.memory_text import Item
from memory_manager.cli.output import counted
from memory_manager.cli.prompts import StoppedAsking
from memory_manager.client.memory_client import MemoryClient

DEFAULT_PATH = "notes"
MAX_STDIN_BYTES = 1_000_000
_EVERYTHING = "*"  # what the service takes for a search without words
_ID_HELP = "an id, or its first eight or more digits"


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    _register_remember(add_command(commands, shared, "remember", run_remember, "store one memory"))
    recall = add_command(
        commands, shared, "recall", run_recall, "what is known about a question, ready to read"
    )
    recall.add_argument("query", metavar="QUESTION", help="what you want to know")
    recall.add_argument("--max-items", type=positive, default=8, help="at most this many")
    recall.add_argument("--max-tokens", type=positive, default=1200, help="token budget")
    add_filters(recall)
    search = add_command(commands, shared, "search", run_search, "ranked hits with their scores")
    search.add_argument(
        "query", metavar="QUERY", help="words or a question; * or nothing for everything"
    )
    search.add_argument(
        "--limit", type=positive, default=10, help="at most this many (default: 10)"
    )
    search.add_argument("--explain", action="store_true", help="with --json: why each was found")
    add_filters(search)
    listing = add_command(commands, shared, "list", run_list, "stored memories, newest first")
    listing.add_argument("--limit", type=positive, default=20, help="a page (default: 20)")
    listing.add_argument("--cursor", help="where the page before ended")
    listing.add_argument("--include-deleted", action="store_true", help="forgotten ones too")
    add_filters(listing)
    get = add_command(commands, shared, "get", run_get, "one memory, whole")
    get.add_argument("id", metavar="ID", help=_ID_HELP)
    versions = add_command(commands, shared, "versions", run_versions, "history of one memory")
    versions.add_argument("id", metavar="ID", help=_ID_HELP)
    forget = add_command(
        commands, shared, "forget", run_forget, "forget memories",
        "'memlocket restore' brings a memory back, unless --redact or --hard is given. Where sync\n"
        "is on: another machine that changed the memory without knowing of this keeps its change,\n"
        "and the memory comes back here too; only --hard wins against a change.",
    )  # fmt: skip
    _register_forget(forget)
    restore = add_command(
        commands, shared, "restore", run_restore, "bring back a forgotten memory or an old version"
    )
    restore.add_argument("id", metavar="ID", help=_ID_HELP)
    restore.add_argument("--version", type=positive, dest="number", help="see: memlocket versions")
    restore.add_argument("--reason", help="kept with the new version")


def _register_remember(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", metavar="TEXT", help="what to remember; - reads standard input")
    parser.add_argument("--path", default=DEFAULT_PATH, help=f"default: {DEFAULT_PATH}")
    parser.add_argument("--bucket", help="a compartment, such as a project (default: public)")
    parser.add_argument("--scope", help="whom it concerns, such as a team or a repository")
    add_memory_type(parser, "what kind of memory it is")
    parser.add_argument(
        "--tag", action="append", default=[], dest="tags", metavar="TAG", help="may be repeated"
    )
    parser.add_argument("--importance", type=ratio, metavar="0..1", help="how much it matters")
    parser.add_argument("--confidence", type=ratio, metavar="0..1", help="how sure it is")
    parser.add_argument("--source", help="where it comes from")
    parser.add_argument(
        "--expires", type=future_moment, dest="expires_at", metavar="TIME", help="a time, or 30d"
    )
    parser.add_argument("--key", dest="semantic_key", help="replaces what has the same key")
    parser.add_argument(
        "--allow-duplicate", action="store_true", help="store it even if it is there already"
    )


def _register_forget(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help=_ID_HELP)
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--redact", action="store_true", help="keep the row, remove its text from every version"
    )
    how.add_argument(
        "--hard", action="store_true", help="for good, not restorable; needs the passphrase"
    )
    parser.add_argument("--reason", help="kept with the memory's history")
    add_passphrase_fd(parser)


def run_remember(arguments: argparse.Namespace, context: Context) -> int:
    text = _standard_input() if arguments.text == "-" else arguments.text
    if not text.strip():
        raise Usage("There is nothing to remember: the text is empty.")
    names = ("bucket", "scope", "memory_type", "importance", "confidence", "source")
    memory = {name: value for name in names if (value := getattr(arguments, name)) is not None}
    memory |= {"content": text, "path": arguments.path, "dedupe": not arguments.allow_duplicate}
    if arguments.expires_at:
        memory["expires_at"] = arguments.expires_at
    if arguments.semantic_key:
        memory["semantic_key"] = arguments.semantic_key
    if arguments.tags:
        memory["metadata"] = {"tags": arguments.tags}
    with context.client() as client:
        answer = client.remember(memory)
    context.console.result(answer, memory_text.written(answer))
    if removed := memory_text.redaction_note(answer):
        context.console.warn(removed)
    return EXIT_OK


def _standard_input() -> str:
    raw = sys.stdin.buffer.read(MAX_STDIN_BYTES + 1)
    if len(raw) > MAX_STDIN_BYTES:
        raise Usage(f"Standard input holds more than {MAX_STDIN_BYTES} bytes.")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Usage("Standard input is not UTF-8 text.") from None


def run_recall(arguments: argparse.Namespace, context: Context) -> int:
    question = {
        "query": arguments.query.strip() or _EVERYTHING,
        "max_items": arguments.max_items,
        "max_tokens": arguments.max_tokens,
        **filters_of(arguments),
    }
    with context.client() as client:
        answer = client.recall_context(question)
    text = str(answer.get("context_text") or "")
    context.console.result(answer, text or "Nothing found.")
    _note_degraded(context, answer)
    return EXIT_OK


def run_search(arguments: argparse.Namespace, context: Context) -> int:
    query = {
        "query": arguments.query.strip() or _EVERYTHING,
        "limit": arguments.limit,
        "explain": arguments.explain or None,
        **filters_of(arguments),
    }
    with context.client() as client:
        answer = client.search(query)
    context.console.result(answer, memory_text.hits(_items(answer)) or "Nothing found.")
    _note_degraded(context, answer)
    return EXIT_OK


def run_list(arguments: argparse.Namespace, context: Context) -> int:
    query = {
        "limit": arguments.limit,
        "cursor": arguments.cursor,
        "include_deleted": arguments.include_deleted or None,
        **filters_of(arguments),
    }
    with context.client() as client:
        answer = client.list_memories(query)
    items = _items(answer)
    context.console.result(answer, memory_text.listing(items) or "No memories here.")
    if items:
        total = answer.get("total")
        context.console.note(
            f"{len(items)} of {counted(total, 'memory', 'memories')}"
            if isinstance(total, int)
            else counted(len(items), "memory", "memories")
        )
        if answer.get("next_cursor"):
            context.console.note(f"More with: --cursor {answer['next_cursor']}")
    return EXIT_OK


def run_get(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        memory_id = client.whole_id(arguments.id)
        try:
            answer = client.get(memory_id)
        except MemlocketError as error:
            if code_of(error) != NotFound.code or not _is_forgotten(client, memory_id):
                raise
            hint = f"memlocket restore {memory_id}    all: memlocket list --include-deleted"
            raise NotFound("This memory was forgotten.", hint=hint) from None
    context.console.result(answer, memory_text.whole(answer))
    return EXIT_OK


def _is_forgotten(client: MemoryClient, memory_id: str) -> bool:
    """Whether its history, which outlives it, ends with that."""
    try:
        versions = cast("Sequence[Item]", client.versions(memory_id).get("versions") or [])
    except MemlocketError:
        return False
    newest = max(versions, key=lambda version: cast("int", version["version"]), default={})
    return newest.get("status") == "deleted"


def run_versions(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = client.versions(client.whole_id(arguments.id))
    versions = cast("Sequence[Mapping[str, object]]", answer.get("versions") or [])
    context.console.result(answer, memory_text.history(versions))
    return EXIT_OK


def run_forget(arguments: argparse.Namespace, context: Context) -> int:
    mode = "redact" if arguments.redact else "hard_delete" if arguments.hard else "soft_delete"
    body = {"mode": mode, "reason": arguments.reason}
    with context.client() as client:
        answers: list[Mapping[str, object]] = []
        ids = [client.whole_id(given) for given in arguments.ids]  # before anything is forgotten
        for memory_id in ids:
            try:
                answers.append(client.forget(memory_id, body))
            except MemlocketError:
                # what went before is done and must not be hidden by the error
                for answer in answers:
                    context.console.note(memory_text.forgotten(answer))
                if len(arguments.ids) > 1:
                    context.console.note(f"Stopped at {memory_id}")
                raise
        waiting = [answer for answer in answers if memory_text.awaits_owner(answer)]
        try:
            sure = bool(waiting) and context.confirm_owner(client, arguments.passphrase_fd)
        except StoppedAsking:
            raise StoppedAsking("Stopped; it waits for your word: memlocket destroy") from None
        if sure:
            answers = [client.forget(memory_id, body) for memory_id in ids]
    lines = [memory_text.forgotten(answer) for answer in answers]
    context.console.result({"results": answers}, "\n".join(lines))
    return EXIT_OK


def run_restore(arguments: argparse.Namespace, context: Context) -> int:
    body = {"version": arguments.number, "reason": arguments.reason}
    given = {name: value for name, value in body.items() if value is not None}
    with context.client() as client:
        answer = client.restore(client.whole_id(arguments.id), given)
    context.console.result(answer, memory_text.written(answer))
    return EXIT_OK


def _items(answer: Mapping[str, object]) -> Sequence[Mapping[str, object]]:
    return cast("Sequence[Mapping[str, object]]", answer.get("results") or [])


def _note_degraded(context: Context, answer: Mapping[str, object]) -> None:
    reasons = [str(reason) for reason in cast("Sequence[object]", answer.get("degraded") or [])]
    for reason in reasons:
        context.console.note(f"note: {memory_text.DEGRADED.get(reason, reason)}")
