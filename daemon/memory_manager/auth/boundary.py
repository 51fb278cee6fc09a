"""How a row relates to its reader: a label for attribution, never a permission.

Contract: xmemo.md 12.3.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Final

from memory_manager.auth.agent_identity import AgentIdentity

BOUNDARY_AUTHORITY: Final = "attribution_only"
CURRENT_AGENT_TRUST: Final = "client_asserted"


class Relation(enum.StrEnum):
    SELF = "self"
    SAME_AGENT_OTHER_INSTANCE = "same_agent_other_instance"
    OTHER_AGENT = "other_agent"
    UNVERIFIED = "unverified"
    UNKNOWN = "unknown"


class Ownership(enum.StrEnum):
    CURRENT_AGENT = "current_agent"
    SAME_AGENT_OTHER_INSTANCE = "same_agent_other_instance"
    OTHER_AGENT = "other_agent"
    UNVERIFIED = "unverified"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True)
class Boundary:
    relation: Relation
    ownership: Ownership

    def as_json(self) -> dict[str, str]:
        """The documented object: relation, ownership and the two constant disclaimers."""
        return {
            "relation": self.relation.value,
            "ownership": self.ownership.value,
            "boundary_authority": BOUNDARY_AUTHORITY,
            "current_agent_trust": CURRENT_AGENT_TRUST,
        }

    def agent_boundary_json(self) -> dict[str, str]:
        """The same object with the key that clients look for first."""
        return {**self.as_json(), "boundary": self.relation.value}

    def item_fields(self) -> dict[str, object]:
        """The three keys every item of a reply carries."""
        return {
            "memory_agent_boundary": self.as_json(),
            "agent_boundary": self.agent_boundary_json(),
            "ownership": self.ownership.value,
        }


_SELF = Boundary(Relation.SELF, Ownership.CURRENT_AGENT)
_OTHER_INSTANCE = Boundary(Relation.SAME_AGENT_OTHER_INSTANCE, Ownership.SAME_AGENT_OTHER_INSTANCE)
_OTHER_AGENT = Boundary(Relation.OTHER_AGENT, Ownership.OTHER_AGENT)
_UNVERIFIED = Boundary(Relation.UNVERIFIED, Ownership.UNVERIFIED)
_UNKNOWN = Boundary(Relation.UNKNOWN, Ownership.UNKNOWN)
_CAUTION: Final = (_UNKNOWN, _UNVERIFIED, _OTHER_AGENT, _OTHER_INSTANCE, _SELF)


def least_trusted_boundary(caller: AgentIdentity, rows: Sequence[AgentIdentity]) -> Boundary:
    """What stands for several rows: the least trusted; without any, the caller's to itself."""
    boundaries = [memory_agent_boundary(caller, row) for row in rows or (caller,)]
    return min(boundaries, key=_CAUTION.index)


def memory_agent_boundary(caller: AgentIdentity, row: AgentIdentity) -> Boundary:
    """Compare the caller's labels with the row's; the first matching line of the contract wins."""
    if row.agent_id is None:
        return _UNKNOWN
    if caller.agent_id is None:
        return _UNVERIFIED
    if caller.agent_id != row.agent_id:
        return _OTHER_AGENT
    if caller.instance_hash is None or row.instance_hash is None:
        return _UNVERIFIED
    return _SELF if caller.instance_hash == row.instance_hash else _OTHER_INSTANCE
