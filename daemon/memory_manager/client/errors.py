"""What can go wrong between a client and the daemon. Import-light: loaded at every start."""

from __future__ import annotations

import dataclasses

from memory_manager.base.errors import MemlocketError, Outcome


class DaemonNotRunning(MemlocketError):
    """No discovery file, or nobody answers at the address it names."""

    code = "daemon_not_running"
    title = "Memory service is not running"
    outcome = Outcome.RETRY_LATER
    exit_code = 6
    default_message = "The memory service is not running."
    default_hint = "Start it: memlocket up"


class DaemonUnreachable(MemlocketError):
    """The daemon accepted the connection but did not answer in time, or hung up."""

    code = "daemon_unreachable"
    title = "Memory service does not answer"
    outcome = Outcome.RETRY_LATER
    exit_code = 6
    default_message = "The memory service did not answer."
    default_hint = "Look at: memlocket logs; then: memlocket restart"


class ClientTooOld(MemlocketError):
    """The running daemon writes a discovery file or speaks an API this client does not know."""

    code = "client_too_old"
    title = "Client too old"
    outcome = Outcome.ASK_USER
    default_message = "This client is too old for the running memory service."
    default_hint = "Update memlocket, then: memlocket restart"


class ClientNotConnected(MemlocketError):
    """No credential of this client is kept here: it was never connected, or disconnected again."""

    code = "client_not_connected"
    title = "Not connected"
    outcome = Outcome.ASK_USER
    exit_code = 4
    default_message = "This client is not connected."
    default_hint = "Connect it: memlocket connect NAME"


class AwaitsApproval(ClientNotConnected):
    """The client asked for access; the owner has not decided yet."""

    code = "awaits_approval"
    title = "Waits for approval"
    default_message = "This client waits for your approval."
    default_hint = "Approve it: memlocket approve CODE"


class OddAnswer(MemlocketError):
    """Something answered at the daemon's address, but not as the daemon does."""

    code = "odd_answer"
    title = "Unexpected answer"
    default_message = "The memory service gave an answer that this client does not understand."
    default_hint = "Client and service may be of different versions: memlocket restart"


@dataclasses.dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """The error body of xmemo.md 4.9, read in the order in which clients look at it."""

    status: int
    code: str
    message: str
    hint: str | None
    reason: str | None
    request_id: str | None


class RemoteError(MemlocketError):
    """The daemon refused a request and said why; ``answer.code`` is the daemon's stable code."""

    code = "remote_error"
    title = "Refused by the memory service"
    outcome = Outcome.ASK_USER

    def __init__(self, answer: ErrorAnswer) -> None:
        super().__init__(answer.message, hint=answer.hint)
        self.answer = answer


class AmbiguousId(MemlocketError):
    """A shortened id that several memories begin with."""

    code = "ambiguous_id"
    title = "Ambiguous id"
    outcome = Outcome.ASK_USER
    exit_code = 2
    default_message = "More than one memory has an id that begins so."
    default_hint = "Type more of it."
