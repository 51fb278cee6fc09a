"""Asking for secrets: on the terminal or from a file descriptor, never argv or environment."""

from __future__ import annotations

import contextlib
import getpass
import os
import sys
import warnings
from collections.abc import Generator
from typing import BinaryIO, Final

from memory_manager.cli.errors import NotConfirmed, NoTerminal, Usage

MAX_SECRET_BYTES = 4096
WORD_COUNT = 24


class StoppedAsking(KeyboardInterrupt):
    """Ctrl-C at a question; ``said`` is what is true then."""

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said


NOTHING_CHANGED: Final = "Stopped; nothing was changed."


def has_terminal() -> bool:
    """Whether there is somebody to ask: both sides of the conversation are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def read_descriptor(descriptor: int) -> str:
    """The first line of a descriptor the caller opened for us; Usage if it holds none."""
    with _opened(descriptor) as stream:
        raw = stream.readline(MAX_SECRET_BYTES + 1)
        if len(raw) > MAX_SECRET_BYTES:
            raise Usage(f"More than {MAX_SECRET_BYTES} bytes on file descriptor {descriptor}.")
        text = raw.decode("utf-8").rstrip("\r\n")
    if not text:
        raise Usage(f"Nothing to read on file descriptor {descriptor}.")
    return text


def read_words(descriptor: int) -> str:
    """24 recovery words from a descriptor, on one line or on several; Usage if it holds none."""
    found: list[str] = []
    with _opened(descriptor) as stream:
        while len(found) < WORD_COUNT and (line := stream.readline(MAX_SECRET_BYTES)):
            found += line.decode("utf-8").split()
    if not found:
        raise Usage(f"Nothing to read on file descriptor {descriptor}.")
    return " ".join(found)


@contextlib.contextmanager
def _opened(descriptor: int) -> Generator[BinaryIO]:
    """Usage for one that cannot be read, or holds no UTF-8 text."""
    try:
        with os.fdopen(os.dup(descriptor), "rb") as stream:
            yield stream
    except OSError as error:
        raise Usage(f"File descriptor {descriptor} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise Usage(f"File descriptor {descriptor} does not hold UTF-8 text.") from None


def ask_words(label: str, descriptor: int | None, option: str = "--words-fd") -> str:
    """Recovery words from ``descriptor`` if one is given, else typed without echo."""
    return ask_secret(label, option=option) if descriptor is None else read_words(descriptor)


def ask_secret(
    label: str, descriptor: int | None = None, *, option: str = "--passphrase-fd"
) -> str:
    """A secret from ``descriptor`` if one is given, else typed without echo.

    ``option`` is what NoTerminal names as the way without a terminal.
    """
    if descriptor is not None:
        return read_descriptor(descriptor)
    if not has_terminal():
        raise _no_terminal(label, option)
    with warnings.catch_warnings():
        warnings.simplefilter("error", getpass.GetPassWarning)  # never with echo
        try:
            typed = getpass.getpass(f"{label}: ", stream=sys.stderr)
        except KeyboardInterrupt:
            raise StoppedAsking(NOTHING_CHANGED) from None
        except (getpass.GetPassWarning, EOFError):
            raise _no_terminal(label, option) from None
    if not typed:
        raise NotConfirmed("Nothing was typed; nothing was changed.")
    return typed


def ask_new_passphrase(descriptor: int | None = None) -> str:
    """A new passphrase, typed twice; one from a descriptor is taken as it is."""
    if descriptor is not None:
        return read_descriptor(descriptor)
    first = ask_secret("New passphrase")
    if ask_secret("Again") != first:
        raise NotConfirmed("The two passphrases differ; nothing was changed.")
    return first


def _no_terminal(label: str, option: str) -> NoTerminal:
    if option == "--passphrase-fd":
        return NoTerminal()
    return NoTerminal(
        f"There is no terminal to ask on: {label}.",
        hint=f"Give it on a file descriptor: {option} 3 3<file",
    )


def decides(question: str, otherwise: str) -> bool:
    """Yes or no, Enter is no; whatever else is typed is answered with ``otherwise`` and asked
    again.
    """
    while True:
        typed = ask_line(f"{question} [y/N] ").lower()
        if typed in ("", "n", "no", "y", "yes"):
            return typed in ("y", "yes")
        print(otherwise, file=sys.stderr)


def say(text: str) -> None:
    """A remark between two questions."""
    print(text, file=sys.stderr)


def agrees(question: str) -> bool:
    """Whether somebody on the terminal says yes; anything else is a no."""
    return ask_line(f"{question} [y/N] ").lower() in ("y", "yes")


def require_yes(question: str, unanswered: str) -> None:
    """NotConfirmed unless somebody on the terminal says yes; NoTerminal where nobody can, with
    ``unanswered`` as its message and ``--yes`` as the way out.
    """
    if not has_terminal():
        raise NoTerminal(unanswered, hint="Give --yes.")
    try:
        agreed = agrees(question)
    except StoppedAsking:
        raise StoppedAsking(NOTHING_CHANGED) from None
    if not agreed:
        raise NotConfirmed()


def ask_line(question: str) -> str:
    """One visible line from the terminal."""
    if not has_terminal():
        raise NoTerminal("There is no terminal to ask on.", hint="Run this on a terminal.")
    try:
        print(question, end="", file=sys.stderr, flush=True)
        line = sys.stdin.readline()
    except KeyboardInterrupt:
        raise StoppedAsking("Stopped.") from None
    if not line:
        raise NotConfirmed()
    return line.strip()
