"""Entry point of ``memlocket``: parses arguments, runs one command, turns errors into exit codes.

Imports nothing heavy; what a command needs it imports when it runs.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import errno
import io
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from memory_manager.base.errors import InvalidInput, MemlocketError
from memory_manager.cli import (
    agent_commands,
    bench_command,
    client_commands,
    conflict_commands,
    connect_commands,
    daemon_command,
    doctor_command,
    key_commands,
    log_command,
    mcp_command,
    memory_commands,
    model_commands,
    opt_in_commands,
    owner_commands,
    server_command,
    service_commands,
    sync_commands,
    transfer_commands,
    vault_commands,
)
from memory_manager.cli.arguments import WideHelp
from memory_manager.cli.context import Context
from memory_manager.cli.errors import (
    EXIT_CODES,
    EXIT_INTERRUPTED,
    EXIT_OK,
    FileProblem,
    exit_code_of,
)
from memory_manager.cli.output import Console
from memory_manager.cli.prompts import StoppedAsking

Handler = Callable[[argparse.Namespace, Context], int]
_GROUPS = (
    vault_commands,
    key_commands,
    service_commands,
    memory_commands,
    transfer_commands,
    sync_commands,
    conflict_commands,
    opt_in_commands,
    agent_commands,
    owner_commands,
    connect_commands,
    client_commands,
    mcp_command,
    model_commands,
    doctor_command,
    log_command,
    bench_command,
    daemon_command,
    server_command,
)
_DESCRIPTION = "Memlocket: one encrypted memory for all your agents, kept on this machine."
_EXAMPLES = """\
first steps:
  memlocket init                        make the encrypted vault
  memlocket up                          start the memory service
  memlocket remember "deploys run on Thursdays"
  memlocket recall "when do we deploy?"
  memlocket connect claude-code         give an agent its own access and entry
"""


class _Parser(argparse.ArgumentParser):
    """Answers a mistyped command with the nearest one instead of the list of all."""

    def error(self, message: str) -> NoReturn:
        if found := re.match(r"argument (?:COMMAND|ACTION): invalid choice: '(.*?)' \(", message):
            names = re.findall(r"[a-z][a-z-]*", message[found.end() :].partition("from")[2])
            near = difflib.get_close_matches(found[1], names, 1)
            said = f"; did you mean '{near[0]}'?" if near else ""
            message = f"there is no '{found[1]}'{said} (see {self.prog} --help)"
        super().error(message)


def build_parser() -> argparse.ArgumentParser:
    """The whole command line, as ``--help`` and the tests see it."""
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON document"
    )
    parser = _Parser(
        prog="memlocket",
        description=_DESCRIPTION,
        epilog=f"{_EXAMPLES}\n{_exit_code_text()}",
        formatter_class=WideHelp,
        parents=[shared],
    )
    parser.add_argument("--version", action="store_true", help="print the version and exit")
    parser.add_argument(
        "--selftest", action="store_true", help="one round trip in a temporary home, then exit"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for group in _GROUPS:
        group.register(commands, shared)
    return parser


def _exit_code_text() -> str:
    lines = [f"  {number:>3}  {meaning}" for number, meaning in EXIT_CODES.items()]
    return "\n".join(["exit codes:", *lines])


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code of ``cli.errors.EXIT_CODES``."""
    _mend_streams()
    _end_cleanly_on_signals()
    parser = build_parser()
    console = Console(as_json=False)
    try:
        arguments = _parsed(parser, argv)
        console = Console(as_json=getattr(arguments, "json", False))
        context = Context(console)
        if arguments.version:
            return _print_version(console)
        if arguments.selftest:
            from memory_manager.cli.selftest import run_selftest

            return run_selftest(context)
        handler: Handler | None = getattr(arguments, "handler", None)
        if handler is None:
            parser.print_help(sys.stderr)
            return 2
        exit_code = handler(arguments, context)
        sys.stdout.flush()  # here, where a reader that is gone is no error
        return exit_code
    except MemlocketError as error:
        return _refused(console, error)
    except StoppedAsking as stopped:
        with contextlib.suppress(OSError):  # the terminal may be gone
            console.note(f"\n{stopped.said}")
        return EXIT_INTERRUPTED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        _leave_output()
        return EXIT_OK
    except NotADirectoryError as error:
        return console.error(FileProblem(f"{error.filename} is not in a folder."))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        _leave_output()
        return console.error(FileProblem(f"Writing failed: {error.strerror}."))
    except UnicodeEncodeError:
        # what was typed is no text: half a pair, or bytes that are not of the locale's encoding
        return console.error(InvalidInput("An argument is not valid text in this locale."))


def _refused(console: Console, error: MemlocketError) -> int:
    """The exit code stays that of the error, also where nobody reads what is said about it."""
    try:
        exit_code = console.error(error)
        sys.stdout.flush()
    except BrokenPipeError:
        _leave_output()
        return exit_code_of(error)
    return exit_code


def _parsed(parser: argparse.ArgumentParser, argv: Sequence[str] | None) -> argparse.Namespace:
    try:
        arguments, unknown = parser.parse_known_args(argv)
        if unknown:  # said by the command itself, with its own usage
            speaker: argparse.ArgumentParser = getattr(arguments, "parser", parser)
            speaker.error(f"unrecognized arguments: {' '.join(unknown)}")
        return arguments
    except SystemExit:
        sys.stdout.flush()  # a help that could not be written is an error as well
        raise


def _end_cleanly_on_signals() -> None:
    """A closed terminal or a SIGTERM ends a command like Ctrl-C, so that it clears up behind it.

    The daemon installs handlers of its own; a signal that the caller ignores (nohup) stays ignored.
    """
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def _mend_streams() -> None:
    """A standard stream that the caller closed is the null device; a narrow encoding loses
    characters instead of the command.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            # ours until the process ends
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))
        elif name != "stdin" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _leave_output() -> None:
    """Nobody takes our output (``| head``, a full disk): say nothing at exit either."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_version(console: Console) -> int:
    from importlib.metadata import version

    number = version("memlocket")
    console.result({"version": number}, f"memlocket {number}")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(main())
