"""The device list as the owner sees it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

from memory_manager.sync.membership.calling import id_called
from memory_manager.sync.membership.desk import Standing
from memory_manager.sync.wire import canonical
from memory_manager.sync.wire.roster import Member, Operation, Role, SignedEntry


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceView:
    """``rows`` is the last verified position of its log, ``ended_at`` its cut if it has one, and
    ``ended_by`` the kind of entry that made it.
    """

    id: bytes
    name: str | None
    role: Role
    is_this: bool
    is_active: bool
    rows: int
    ended_at: int | None
    ended_by: Operation | None
    may_grant: bool

    def as_json(self) -> dict[str, object]:
        return {
            "device": self.id.hex(),
            "name": self.name,
            "role": self.role.value,
            "this_device": self.is_this,
            "active": self.is_active,
            "rows": self.rows,
            "ended_at_row": self.ended_at,
            "ended_by": self.ended_by,
            "grant_key": self.may_grant,
        }


def device_views(
    standing: Standing, chain: Sequence[SignedEntry], own: bytes
) -> tuple[DeviceView, ...]:
    """In the order in which they joined."""
    endings = _endings(chain)
    return tuple(
        DeviceView(
            id=member.id,
            name=standing.names.get(member.id),
            role=member.role,
            is_this=member.id == own,
            is_active=member.is_active,
            rows=standing.last_of(member.id)[0],
            ended_at=member.cut,
            ended_by=endings.get(member.id),
            may_grant=any(member.grant),
        )
        for member in sorted(
            standing.roster.members.values(), key=lambda member: (member.joined_idx, member.role)
        )
    )


def _endings(chain: Iterable[SignedEntry]) -> dict[bytes, Operation]:
    """What ended each member that is none any more."""
    found: dict[bytes, Operation] = {}
    for entry in chain:
        document = canonical.decode(entry.document)
        if document["op"] in (Operation.REVOKE, Operation.FORK_CLOSE):
            found[bytes.fromhex(document["target"])] = Operation(document["op"])
        elif document["op"] == Operation.LEAVE:
            found[bytes.fromhex(document["by"])] = Operation.LEAVE
    return found


def rotation_is_due(chain: Iterable[SignedEntry]) -> bool:
    """Whether a device left and still holds the present key (sync.md 8)."""
    due = False
    for entry in chain:
        document = canonical.decode(entry.document)
        if "epoch" in document:
            due = False
        elif document["op"] == Operation.LEAVE:
            due = True
    return due


def member_called(standing: Standing, typed: str) -> Member:
    """The active member with this name, or whose id begins with these digits.

    NotFound for none, InvalidInput for several.
    """
    active = {member.id.hex(): member for member in standing.roster.active()}
    names = {device: standing.names.get(member.id) for device, member in active.items()}
    return active[id_called(names, typed)]
