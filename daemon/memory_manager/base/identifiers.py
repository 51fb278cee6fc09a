"""Identifier types and UUIDv7 (RFC 9562 section 5.7). Clock and randomness come in as arguments."""

from __future__ import annotations

import os
import re
import time
import uuid
from typing import Final, NewType

MemoryId = NewType("MemoryId", str)
"""Canonical lower-case text form of a UUIDv7; stored as 16 bytes."""
CredentialId = NewType("CredentialId", str)
"""Opaque id of an installation credential; never the token or its hash."""
AgentInstanceHash = NewType("AgentInstanceHash", str)
"""``sha256:`` + 64 lower-case hex digits."""

_ID_BYTES: Final = 16
_CANONICAL: Final = re.compile("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def uuid7(unix_ms: int, random: bytes) -> uuid.UUID:
    """Build a UUIDv7 from milliseconds since 1970 and 10 random bytes."""
    if not 0 <= unix_ms < 1 << 48 or len(random) != 10:
        raise ValueError("uuid7 needs a 48-bit time and 10 random bytes")
    value = (unix_ms << 80) | int.from_bytes(random, "big")
    value = value & ~(0xF << 76) | (0x7 << 76)
    value = value & ~(0x3 << 62) | (0x2 << 62)
    return uuid.UUID(int=value)


def new_uuid7() -> uuid.UUID:
    """A fresh UUIDv7 from the system clock and the system's randomness."""
    return uuid7(time.time_ns() // 1_000_000, os.urandom(10))


def new_memory_id() -> MemoryId:
    """A fresh memory id; ids of one process sort by creation millisecond."""
    return MemoryId(str(new_uuid7()))


def memory_id_bytes(memory_id: MemoryId) -> bytes:
    """The 16 stored bytes of an id; ValueError if it is not a UUID in canonical form."""
    if _CANONICAL.fullmatch(memory_id) is None:
        raise ValueError("not a canonical UUID")
    return bytes.fromhex(memory_id.replace("-", ""))


def memory_id_from_bytes(raw: bytes) -> MemoryId:
    """The text form of 16 stored bytes."""
    if len(raw) != _ID_BYTES:
        raise ValueError("an id has 16 bytes")
    text = raw.hex()
    return MemoryId(f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}")
