"""Showing an enrolment string once, and waiting until another machine has read it."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Generator

from memory_manager.base.errors import MemlocketError
from memory_manager.cli.context import Context
from memory_manager.client.memory_client import JsonObject
from memory_manager.client.sync_acts import SyncActs

POLL_SECONDS = 2.0


def show_invitation(context: Context, text: str, arguments: argparse.Namespace) -> None:
    """To the named descriptor, else to standard output; with a picture on a terminal."""
    if arguments.invitation_fd is not None:
        with os.fdopen(os.dup(arguments.invitation_fd), "w", encoding="ascii") as stream:
            stream.write(text + "\n")
        return
    if not arguments.no_qr and sys.stdout.isatty():
        import segno

        picture = segno.make(text, error="l", boost_error=False, micro=False)
        picture.terminal(out=sys.stdout, border=1, compact=True)
    context.console.result({}, f"\n{text}\n")
    context.console.note(
        "Read it on a machine that has the memory: memlocket sync approve\n"
        "It is a secret for ten minutes. Waiting (Ctrl-C gives up) ..."
    )


def wait_for_welcome(context: Context, acts: SyncActs, seconds: int) -> JsonObject:
    """The answer of the join. ``seconds`` is how long the string is good."""
    reached = 0
    with context.console.countdown("waiting", seconds) as advance:
        while True:
            answer = acts.look_for_welcome()
            if answer.get("state") == "joined":
                return answer
            left = answer.get("seconds_left")
            if isinstance(left, int):
                advance(seconds - left - reached)
                reached = seconds - left
            time.sleep(POLL_SECONDS)


@contextlib.contextmanager
def ended_by_ctrl_c(acts: SyncActs) -> Generator[None]:
    """Whoever gives up while the string is shown ends the attempt too."""
    try:
        yield
    except KeyboardInterrupt:
        with contextlib.suppress(MemlocketError):  # the string expires by itself
            acts.stop_waiting()
        raise
