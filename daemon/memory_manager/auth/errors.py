"""Errors of the auth package. None of them repeats the value that was refused."""

from __future__ import annotations

from memory_manager.base.errors import InvalidInput, MemlocketError, NotFound, Outcome


class InvalidAgentInstanceId(InvalidInput, ValueError):
    """An agent instance id that cannot be turned into a hash (xmemo.md 12.2)."""

    code = "invalid_agent_instance_id"
    title = "Invalid agent instance id"
    default_message = "The agent instance id is not valid."


class EmptyAgentInstanceId(InvalidAgentInstanceId):
    """Nothing is left after trimming."""

    default_message = "The agent instance id is empty."


class AgentInstanceIdTooLong(InvalidAgentInstanceId):
    """More than 256 characters after trimming."""

    default_message = "The agent instance id is longer than 256 characters."


class MalformedAgentInstanceHash(InvalidAgentInstanceId):
    """It starts with ``sha256:`` but is not followed by 64 hex digits."""

    default_message = "The agent instance id looks like a hash but is not a valid one."


class InvalidScope(InvalidInput, ValueError):
    """A scope name outside the closed list, or none at all."""

    code = "invalid_scope"
    title = "Invalid scope"
    default_message = (
        "A credential needs one or more of the scopes memory:read, memory:write, memory:restore,"
        " ledger:read and ledger:write."
    )


class InvalidRedirectUri(InvalidInput, ValueError):
    """A login would send its answer somewhere that is no program on this machine."""

    code = "invalid_redirect_uri"
    title = "Redirect address refused"
    default_message = "Logins answer to http on this machine or to VS Code only."


class UnknownLogin(NotFound):
    """No login request waits under this code."""

    default_message = "No login request waits under this code; it may have expired."
    default_hint = "See what waits: memlocket approvals"


class TooManyAttempts(MemlocketError):
    """Several codes in a row were wrong."""

    code = "too_many_attempts"
    title = "Too many attempts"
    outcome = Outcome.RETRY_LATER
    default_message = "Too many wrong codes; wait a few minutes."


class PeerUnknown(MemlocketError):
    """The kernel did not say who is at the other end of a local socket."""

    code = "peer_unknown"
    title = "Unknown peer"
    outcome = Outcome.ASK_USER
    default_message = "The process at the other end of the local socket could not be identified."
