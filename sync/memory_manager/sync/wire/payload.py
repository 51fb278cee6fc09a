"""What is inside a row: canonical JSON with everything that has meaning or time (sync.md 3.4)."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from collections.abc import Mapping
from typing import Any, Final

from memory_manager.base.times import MAX_UNIX_MS
from memory_manager.sync.errors import MalformedMessage, RowRefused, SyncCode
from memory_manager.sync.wire import canonical
from memory_manager.sync.wire.canonical import is_count
from memory_manager.sync.wire.envelope import Dot, OpenedRow, dot_from_hex, parents_hash

VERSION: Final = 1
CLEANED: Final = "cleaned"
MAX_COUNTER: Final = (1 << 32) - 1
"""Of a hybrid time; beyond it and the year 9999 there is no later one to write."""


class Kind(enum.StrEnum):
    MEMORY = "memory"
    TOMBSTONE = "tombstone"
    RESOLVE = "resolve"
    ROSTER_MARK = "roster_mark"


class DeletionMode(enum.StrEnum):
    """``tidy`` yields to a concurrent edit, ``forget`` wins always (sync.md 5)."""

    TIDY = "tidy"
    FORGET = "forget"


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class HybridTime:
    """A hybrid logical clock: ordering, not truth. ``ms`` is Unix milliseconds."""

    ms: int
    counter: int
    device: str  # hex, breaks ties

    def as_json(self) -> list[int | str]:
        return [self.ms, self.counter, self.device]


@dataclasses.dataclass(frozen=True, slots=True)
class Payload:
    """``fields`` is the whole document, the members read here included."""

    kind: Kind
    time: HybridTime
    parents: tuple[Dot, ...]
    mode: DeletionMode | None
    fields: Mapping[str, Any] = dataclasses.field(repr=False)

    @property
    def cleans(self) -> bool:
        """Whether it says, cleaned, what its parents say: nobody changed anything."""
        return self.fields.get(CLEANED) is True


def encode_payload(
    kind: Kind,
    time: HybridTime,
    parents: tuple[Dot, ...],
    fields: Mapping[str, Any],
) -> bytes:
    """The bytes of a payload; ``fields`` is what the kind adds to the common members."""
    return canonical.encode(
        {
            **fields,
            "v": VERSION,
            "kind": kind.value,
            "hlc": time.as_json(),
            "parents": [dot.hex() for dot in sorted(parents)],
        }
    )


def read_payload(row: OpenedRow) -> Payload:
    """The payload of an opened row; RowRefused(ROW_AUTH) if it is not what its header promises."""
    try:
        fields = canonical.decode(row.payload)
        payload = _parse(fields)
    except (MalformedMessage, ValueError, TypeError, KeyError):
        raise RowRefused(SyncCode.ROW_AUTH) from None
    if parents_hash(payload.parents) != row.header.parents_hash:
        raise RowRefused(SyncCode.ROW_AUTH)
    return payload


def _parse(fields: Mapping[str, Any]) -> Payload:
    if fields["v"] != VERSION:
        raise ValueError("unknown payload version")
    ms, counter, device = fields["hlc"]
    if not (is_count(ms) and is_count(counter) and isinstance(device, str)):
        raise ValueError("a hybrid time is two counts and a device")
    if ms > MAX_UNIX_MS or counter > MAX_COUNTER:
        raise ValueError("a time that nothing could follow")
    parents = tuple(dot_from_hex(text) for text in fields["parents"])
    if list(parents) != sorted(set(parents)):
        raise ValueError("parents are sorted and distinct")
    kind = Kind(fields["kind"])
    mode = DeletionMode(fields["mode"]) if kind is Kind.TOMBSTONE else None
    content = fields.get("content")
    if content is not None:
        if not isinstance(content, str):
            raise TypeError("content is text")
        if hashlib.sha256(content.encode()).hexdigest() != fields["content_sha256"]:
            raise ValueError("the content is not what its hash says")
    return Payload(kind, HybridTime(ms, counter, device), parents, mode, fields)
