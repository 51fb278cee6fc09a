"""``memlocket logs``: the daemon's log, as short lines or as it is with ``--json``."""

from __future__ import annotations

import argparse
import collections
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from memory_manager.cli.arguments import Commands, add_command, positive
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK, FileProblem
from memory_manager.cli.output import local_time

LOG_NAME = "daemon.log"
POLL_SECONDS = 0.5
_FIXED = ("time", "level", "event", "logger")


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    parser = add_command(commands, shared, "logs", run, "what the memory service did")
    parser.add_argument("-f", "--follow", action="store_true", help="go on until Ctrl-C")
    parser.add_argument(
        "-n", "--lines", type=positive, default=40, help="start with the last LINES (default: 40)"
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    path = context.directories.log / LOG_NAME
    if not path.is_file():
        raise FileProblem(
            f"There is no log yet at {path}.", hint="The memory service writes it: memlocket up"
        )
    lines = _follow(path, arguments.lines) if arguments.follow else _tail(path, arguments.lines)
    for line in lines:
        print(line if context.console.as_json else short_line(line), flush=arguments.follow)
    return EXIT_OK


def short_line(line: str) -> str:
    """``2026-01-02 03:04:05  INFO   event  k=v`` of one JSON line; other lines as they are."""
    try:
        loaded: object = json.loads(line)
    except ValueError:
        return line
    if not isinstance(loaded, dict):
        return line
    entry = cast("Mapping[str, object]", loaded)
    shown = [(k, v) for k, v in entry.items() if k not in _FIXED and v is not None]
    rest = " ".join(f"{key}={value}" for key, value in shown)
    level = str(entry.get("level", "")).upper()
    at = local_time(entry.get("time"), seconds=True)
    return f"{at}  {level:<7}  {entry.get('event', '')}  {rest}".rstrip()


def _tail(path: Path, count: int) -> Iterator[str]:
    with path.open(encoding="utf-8", errors="replace") as stream:
        for line in collections.deque(stream, count):
            yield line.rstrip("\n")


def _follow(path: Path, count: int) -> Iterator[str]:
    """The last lines, then new ones as they come, also after the log was rotated."""
    stream = path.open(encoding="utf-8", errors="replace")
    try:
        for line in collections.deque(stream, count):
            yield line.rstrip("\n")
        while True:
            if line := stream.readline():
                yield line.rstrip("\n")
                continue
            time.sleep(POLL_SECONDS)
            if _rotated(path, stream.fileno()):
                stream.close()
                stream = path.open(encoding="utf-8", errors="replace")
    finally:
        stream.close()


def _rotated(path: Path, descriptor: int) -> bool:
    import os

    try:
        now, opened = path.stat(), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (now.st_dev, now.st_ino) != (opened.st_dev, opened.st_ino)
