"""Attribution labels of a caller: which agent, and which installation of it.

Labels explain who wrote a row; they never authorize anything. This module is pure: it must know
neither the network nor the store. Contract: xmemo.md 4.4, 12.1, 12.2.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re

from memory_manager.auth.errors import (
    AgentInstanceIdTooLong,
    EmptyAgentInstanceId,
    InvalidAgentInstanceId,
    MalformedAgentInstanceHash,
)
from memory_manager.base.identifiers import AgentInstanceHash

AGENT_HEADER = "X-Memory-OS-Agent-ID"
INSTANCE_HEADER = "X-Memory-OS-Agent-Instance-ID"
MAX_LABEL_CHARACTERS = 256
HASH_PREFIX = "sha256:"

_PREHASHED = re.compile(r"sha256:[0-9a-f]{64}")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_UNEXPANDED = re.compile(r"\$\{[^{}]*\}")


@dataclasses.dataclass(frozen=True, slots=True)
class AgentIdentity:
    """Client-asserted labels of one caller; None means the label is absent."""

    agent_id: str | None = None
    instance_hash: AgentInstanceHash | None = None


def agent_instance_id_hash(value: str) -> AgentInstanceHash:
    """``sha256:`` + 64 lower-case hex digits for an instance id of 1-256 characters when trimmed.

    A value that already has this form is only normalised to lower case. Raises subclasses of
    InvalidAgentInstanceId (a ValueError) for an empty, overlong or malformed pre-hashed value.
    """
    trimmed = value.strip()
    if not trimmed:
        raise EmptyAgentInstanceId
    if len(trimmed) > MAX_LABEL_CHARACTERS:
        raise AgentInstanceIdTooLong
    folded = trimmed.lower()
    if folded.startswith(HASH_PREFIX):
        if _PREHASHED.fullmatch(folded) is None:
            raise MalformedAgentInstanceHash
        return AgentInstanceHash(folded)
    if _LONE_SURROGATE.search(trimmed):
        # no UTF-8 form; tested first, because the error of encode() would hold the value
        raise InvalidAgentInstanceId
    return AgentInstanceHash(HASH_PREFIX + hashlib.sha256(trimmed.encode("utf-8")).hexdigest())


def identity_from_headers(agent_id: str | None, instance_id: str | None) -> AgentIdentity:
    """The labels of one request; an odd value counts as absent and never fails the request.

    Odd is: blank, over 256 characters, not valid UTF-8 (it arrives with lone surrogates), a whole
    value ``${...}`` that the client did not expand, or a malformed pre-hashed instance id.
    """
    instance = _label(instance_id)
    instance_hash: AgentInstanceHash | None = None
    if instance is not None:
        try:
            instance_hash = agent_instance_id_hash(instance)
        except InvalidAgentInstanceId:
            instance_hash = None
    return AgentIdentity(_label(agent_id), instance_hash)


def _label(value: str | None) -> str | None:
    if value is None:
        return None
    trimmed = value.strip()
    if not trimmed or len(trimmed) > MAX_LABEL_CHARACTERS or _UNEXPANDED.fullmatch(trimmed):
        return None
    if _LONE_SURROGATE.search(trimmed):
        return None
    return trimmed
