"""The whole roster chain of a server, in as many answers as it takes; nothing is verified here."""

from __future__ import annotations

from typing import Final

from memory_manager.sync.engine.client import SyncClient
from memory_manager.sync.engine.errors import SyncUnreachable
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.wire.labels import ZERO_HASH
from memory_manager.sync.wire.roster import SignedEntry

MAX_ENTRIES: Final = 100_000


async def entries_after(
    client: SyncClient, idx: int, head: bytes = ZERO_HASH
) -> tuple[SignedEntry, ...]:
    """What the server has behind position ``idx``, where our chain ends with ``head``.

    SyncRefused(ROSTER_FORK) when it names another head and shows nothing that leads there.
    """
    found: list[SignedEntry] = []
    while True:
        tail = await client.roster(idx + len(found))
        found.extend(tail.entries)
        last = found[-1].hash if found else head
        if last == tail.head:
            return tuple(found)
        if not tail.entries:
            raise SyncRefused(SyncCode.ROSTER_FORK)
        if len(found) > MAX_ENTRIES:
            raise SyncUnreachable("The server's list of devices does not end.")
