"""Small pieces of argument parsing that several commands share."""

from __future__ import annotations

import argparse
import datetime
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from memory_manager.base.errors import InvalidInput
from memory_manager.base.times import now_ms, parse_rfc3339, rfc3339
from memory_manager.cli.context import Context

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # pyright: ignore[reportPrivateUsage]
    Arguments = argparse._ActionsContainer  # pyright: ignore[reportPrivateUsage]
else:
    Commands = Arguments = object


class WideHelp(argparse.RawDescriptionHelpFormatter):
    """Help with the names of commands and options in one column."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)

    def add_argument(self, action: argparse.Action) -> None:
        """As argparse does it, which forgets the deeper indent of sub-commands in the width."""
        super().add_argument(action)
        if action.choices and action.nargs == argparse.PARSER:
            longest = max((len(str(name)) for name in action.choices), default=0)
            self._action_max_length = max(self._action_max_length, longest + 4)


Handler = Callable[[argparse.Namespace, Context], int]
_DURATION = re.compile(r"(\d+)\s*(m|h|d|w)")
_UNIT_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_HELP_COLUMNS = 80
MEMORY_TYPES = ("episodic", "semantic", "procedural", "working", "identity")


def add_command(
    commands: Commands,
    shared: argparse.ArgumentParser,
    name: str,
    handler: Handler,
    summary: str,
    details: str | None = None,
) -> argparse.ArgumentParser:
    """A sub-command with ``--json`` and its handler; ``details`` are paragraphs, filled here."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=_filled(f"{summary[0].upper()}{summary[1:]}.\n\n{details or ''}"),
        parents=[shared],
        formatter_class=WideHelp,
    )
    parser.set_defaults(handler=handler, parser=parser)
    return parser


def _filled(paragraphs: str) -> str:
    filled = (
        textwrap.fill(paragraph, _HELP_COLUMNS, break_long_words=False, break_on_hyphens=False)
        for paragraph in paragraphs.split("\n\n")
    )
    return "\n\n".join(filled).rstrip()


def add_group(
    commands: Commands, shared: argparse.ArgumentParser, name: str, summary: str
) -> Commands:
    """A command that only has sub-commands, such as ``agent``; alone it prints its help."""
    parser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        parents=[shared],
        formatter_class=WideHelp,
    )

    def show_help(arguments: argparse.Namespace, context: Context) -> int:
        parser.print_help()
        return 2

    parser.set_defaults(handler=show_help)
    return parser.add_subparsers(metavar="ACTION", title="actions")


def add_passphrase_fd(parser: argparse.ArgumentParser, name: str = "--passphrase-fd") -> None:
    what = name.removeprefix("--").removesuffix("-fd").replace("-", " ")
    parser.add_argument(name, type=int, metavar="N", help=f"read the {what} from file descriptor N")


def add_start_options(parser: argparse.ArgumentParser) -> None:
    """What a daemon can be started with, in the foreground or not."""
    parser.add_argument(
        "--port", type=positive, metavar="N", help="fixed TCP port instead of a free one"
    )
    parser.add_argument(
        "--insecure-key-file",
        type=Path,
        metavar="PATH",
        help="open the vault with a key file: for tests and sandboxes only",
    )
    parser.add_argument("--no-embeddings", action="store_true", help="recall by words only")
    parser.add_argument(
        "--auto-approve",
        action="store_true",
        help="approve every login by itself: for tests only, until the service stops",
    )


def add_filters(parser: argparse.ArgumentParser) -> None:
    """The filters of search, recall and list."""
    group = parser.add_argument_group("filters")
    group.add_argument("--bucket", help="only this bucket")
    group.add_argument("--scope", help="only this scope")
    group.add_argument("--path", help="this path and below; a trailing * means: starts with")
    add_memory_type(group, "only this type")
    group.add_argument("--since", type=moment, metavar="TIME", help="2026-01-31, RFC 3339, or 7d")
    group.add_argument("--until", type=moment, metavar="TIME", help="before this time")


def add_memory_type(arguments: Arguments, what: str) -> None:
    arguments.add_argument(
        "--type",
        choices=MEMORY_TYPES,
        dest="memory_type",
        metavar="TYPE",
        help=f"{what}: {', '.join(MEMORY_TYPES)}",
    )


def filters_of(arguments: argparse.Namespace) -> dict[str, object]:
    """The given filters as the API names them."""
    names = ("bucket", "scope", "path", "memory_type", "since", "until")
    return {name: value for name in names if (value := getattr(arguments, name, None)) is not None}


def moment(text: str) -> str:
    """RFC 3339 from a date (local midnight), an RFC 3339 time, or an age such as ``7d``."""
    return _moment(text, -1)


def future_moment(text: str) -> str:
    """As ``moment``, but a duration counts from now on: ``30d`` is in thirty days."""
    return _moment(text, +1)


def _moment(text: str, direction: int) -> str:
    text = text.strip()
    try:
        if match := _DURATION.fullmatch(text):
            span_ms = int(match[1]) * _UNIT_SECONDS[match[2]] * 1000
            return rfc3339(now_ms() + direction * span_ms)
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            day = datetime.datetime.fromisoformat(text).astimezone()
            return rfc3339(round(day.timestamp() * 1000))
        return rfc3339(parse_rfc3339(text, "time"))
    except (ValueError, OverflowError, InvalidInput):
        raise argparse.ArgumentTypeError(
            f"{text} is not a time: use 2026-01-31, 2026-01-31T12:00:00Z, or an age such as 7d"
        ) from None


def positive(text: str) -> int:
    """A whole number of at least one."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least 1")
    return number


def ratio(text: str) -> float:
    """A number from 0 to 1."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 to 1")
    return number
