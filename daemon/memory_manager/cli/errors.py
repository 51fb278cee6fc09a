"""What only a command line can get wrong, and the exit code of every error."""

from __future__ import annotations

import importlib

from memory_manager.base.errors import MemlocketError, Outcome
from memory_manager.client.errors import RemoteError

EXIT_OK = 0
EXIT_INTERRUPTED = 130

EXIT_CODES: dict[int, str] = {
    EXIT_OK: "done",
    1: "a bug, or something nobody expected",
    2: "wrong usage or input; nothing was changed",
    3: "another memory service already uses this vault",
    4: "no such memory, agent, file or model",
    5: "a file was refused: not private, or a bad key file or model",
    6: "the memory service is not running or does not answer",
    7: "a check found problems (doctor), or some records were refused (import)",
    10: "the vault is locked",
    11: "a passphrase or recovery words are needed, or were wrong",
    12: "damaged or unusable files of a vault or server, or a refused backup",
    13: "the vault is read-only or rolled back",
    14: "there is no vault, or there is one already",
    15: "the vault or a server's database was made by another version",
    16: "sync is off, stopped, refused something, or its server is out of reach",
    EXIT_INTERRUPTED: "interrupted with Ctrl-C",
}
"""The one table of exit codes; README prints it and a test compares the two."""

_PACKAGES_WITH_ERRORS = (
    "auth", "capture", "recall", "recall.models", "security", "service", "sync", "sync.engine",
    "sync.membership", "vault",
)  # fmt: skip
_BY_STATUS = {400: 2, 401: 11, 403: 11, 404: 4, 409: 2, 413: 2, 415: 2, 422: 2, 423: 10, 503: 6}


class NoTerminal(MemlocketError):
    """Somebody must be asked and there is no terminal to ask on."""

    code = "no_terminal"
    title = "No terminal"
    outcome = Outcome.ASK_USER
    exit_code = 11
    default_message = "There is no terminal to ask for the passphrase."
    default_hint = "Give it on a file descriptor: --passphrase-fd 3 3<file"


class Usage(MemlocketError):
    """The arguments do not go together."""

    code = "usage"
    title = "Wrong usage"
    outcome = Outcome.ASK_USER
    exit_code = 2
    default_message = "These arguments do not go together."


class NotConfirmed(MemlocketError):
    """The user was asked and did not agree, or typed something else."""

    code = "not_confirmed"
    title = "Not confirmed"
    outcome = Outcome.ASK_USER
    exit_code = 2
    default_message = "Not confirmed; nothing was changed."


class StartFailed(MemlocketError):
    """The memory service did not come up; its own words are in the message."""

    code = "start_failed"
    title = "Memory service did not start"
    exit_code = 6
    default_hint = "Look at: memlocket logs"


class ChecksFailed(MemlocketError):
    """A check found something that needs the owner; the findings were printed before."""

    code = "checks_failed"
    title = "Problems found"
    outcome = Outcome.ASK_USER
    exit_code = 7
    default_message = "Some checks did not pass."


class RecordsRefused(MemlocketError):
    """Some records of an import were not stored; the others were."""

    code = "records_refused"
    title = "Some records were not imported"
    outcome = Outcome.ASK_USER
    exit_code = 7


class BenchStalled(MemlocketError):
    """Embedding a labelled set came to a halt; figures of half an index would mislead."""

    code = "bench_stalled"
    title = "Measuring stopped"
    default_message = "Embedding the labelled set does not go on."
    default_hint = "Measure words alone: --no-embeddings. Check the model: memlocket model status"


class FileProblem(MemlocketError):
    """A file named by the user cannot be read or written."""

    code = "file_problem"
    title = "File problem"
    outcome = Outcome.ASK_USER
    exit_code = 4


class SettingsRefused(MemlocketError):
    """A settings file of another program that we do not understand, or may not touch: untouched."""

    code = "settings_refused"
    title = "Settings file not changed"
    outcome = Outcome.ASK_USER
    exit_code = 2
    default_message = "The client's settings file was not changed."


class ForeignEntry(MemlocketError):
    """The client already has an entry of our name that starts something else."""

    code = "foreign_entry"
    title = "Another entry has this name"
    outcome = Outcome.ASK_USER
    exit_code = 2
    default_message = "The client has an entry of this name that is not ours; it was left alone."


class CredentialTaken(MemlocketError):
    """A live credential has this client's name, but its token is not kept by this installation."""

    code = "credential_taken"
    title = "Credential in use"
    outcome = Outcome.ASK_USER
    exit_code = 2
    default_message = "Another credential has this name."


class ClientCommandFailed(MemlocketError):
    """A client's own command for its list of servers did not do what was asked."""

    code = "client_command_failed"
    title = "The client's own command failed"
    outcome = Outcome.ASK_USER
    exit_code = 2
    default_message = "The client's own command failed."
    default_hint = "Let memlocket edit the file itself: --edit-file"


def code_of(error: MemlocketError) -> str:
    """The stable code: the daemon's own for an error that came over the socket."""
    return error.answer.code if isinstance(error, RemoteError) else error.code


def exit_code_of(error: MemlocketError) -> int:
    """The exit code of an error; one that came over the socket exits like the local one would."""
    if not isinstance(error, RemoteError):
        return error.exit_code
    known = known_errors().get(error.answer.code)
    return known.exit_code if known else _BY_STATUS.get(error.answer.status, 1)


def title_of(error: MemlocketError) -> str:
    """A short noun phrase for people."""
    if isinstance(error, RemoteError):
        known = known_errors().get(error.answer.code)
        return known.title if known else error.title
    return error.title


def known_errors() -> dict[str, type[MemlocketError]]:
    """Every error class by its code; loads the import-light error modules of all packages."""
    for package in _PACKAGES_WITH_ERRORS:
        importlib.import_module(f"memory_manager.{package}.errors")
    found: dict[str, type[MemlocketError]] = {}
    waiting: list[type[MemlocketError]] = [MemlocketError]
    while waiting:
        kind = waiting.pop(0)
        found.setdefault(kind.code, kind)
        waiting += kind.__subclasses__()
    return found
