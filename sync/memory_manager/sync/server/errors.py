"""What is refused before the storage is asked, and what keeps a server from starting.

Contract: sync.md 9.5. No message may hold row content, a token or a request body.
"""

from __future__ import annotations

from memory_manager.base.errors import MemlocketError, Outcome
from memory_manager.sync.server.refusals import Refused


class BadRequest(Refused):
    """What arrived is no HTTP request that this server answers."""

    default_message = "The request is not acceptable."
    wire_code = "BAD_REQUEST"


class Malformed(Refused):
    """A body, parameter or header is not of this protocol."""

    default_message = "The request is malformed; nothing of it was stored."
    wire_code = "MALFORMED"


class ClassPolicyBroken(Refused):
    """A row whose header says another class than its policy, or plaintext where none may be."""

    default_message = "The class of a row and its policy disagree; nothing was stored."
    wire_code = "CLASS_POLICY"


class BodyOverLimit(Refused):
    """A request body over the limit of its route."""

    default_message = "The request body is over the limit of this route; nothing was stored."
    wire_code = "TOO_LARGE"


class UnsupportedBody(Refused):
    """A body of a type or encoding that this route does not take."""

    default_message = "The body is of a type this route does not take."
    wire_code = "MEDIA_TYPE"


class SlowRequest(Refused):
    """The body did not arrive in time."""

    outcome = Outcome.RETRY_LATER
    default_message = "The request did not arrive in time; nothing was stored."
    wire_code = "TIMEOUT"


class RateExceeded(Refused):
    """More requests or rows in a time than the quota gives; waiting helps."""

    outcome = Outcome.RETRY_LATER
    default_message = "Too many requests in a short time."
    wire_code = "RATE"

    def __init__(self, retry_after_seconds: float, message: str | None = None) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class LoginRefused(Refused):
    """A login with a used nonce, a wrong signature, or ids that do not belong together."""

    default_message = "The login was refused."
    wire_code = "LOGIN"


class NotADevice(Refused):
    """Recovery words may not do what only a device may."""

    default_message = "Only a device of the vault may do this."
    wire_code = "DEVICE_ONLY"


class UnknownSignature(Refused):
    """A checkpoint or a roster entry that is not signed by whom it names."""

    default_message = "The signature is not that of a member of this vault."
    wire_code = "UNKNOWN_DEVICE"


class NothingHere(Refused):
    """No such thing, or none that this session may see: the same answer for both."""

    default_message = "There is nothing of this name."
    wire_code = "NOT_FOUND"


class WrongMethod(Refused):
    """The route does not take this method."""

    default_message = "This route does not take that method."
    wire_code = "METHOD"


class SettingsRefused(MemlocketError):
    """The server was asked to start in a way that makes no sense or is not safe."""

    code = "sync_server_settings"
    title = "Server settings"
    outcome = Outcome.ASK_USER
    exit_code = 2
    default_message = "The settings of the server do not go together."


class ServerKeyRefused(MemlocketError):
    """The file with the server's key is not 32 bytes, or its database belongs to another key."""

    code = "sync_server_key"
    title = "Server key"
    outcome = Outcome.ASK_USER
    exit_code = 5
    default_message = "The server's key file is damaged; clients would not know this server."
    default_hint = "Put the key file of this server back from its backup."


class ServerAlreadyRunning(MemlocketError):
    """Another server process uses this folder; a SQLite store belongs to one."""

    code = "sync_server_running"
    title = "Server already running"
    outcome = Outcome.ASK_USER
    exit_code = 3
    default_message = "Another server process uses this folder already."
    default_hint = "Several processes can share a PostgreSQL database: --database-url."
