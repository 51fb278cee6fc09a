"""Errors of the auth package. None of them repeats the value that was refused."""

from __future__ import annotations

from memory_manager.base.errors import InvalidInput, MemlocketError, Outcome


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
    default_message = "A credential needs one or more of the scopes memory:read and memory:write."


class PeerUnknown(MemlocketError):
    """The kernel did not say who is at the other end of a local socket."""

    code = "peer_unknown"
    title = "Unknown peer"
    outcome = Outcome.ASK_USER
    default_message = "The process at the other end of the local socket could not be identified."
