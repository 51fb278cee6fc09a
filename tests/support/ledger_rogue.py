"""A member of a simulated vault whose rows are well sealed and say what no product says."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping
from typing import Any

from ledger_world import LedgerDevice, LedgerWorld

from memory_manager.base.identifiers import MemoryId, memory_id_bytes
from memory_manager.base.times import now_ms
from memory_manager.sync.ledger import revisions
from memory_manager.sync.wire.envelope import Dot, Policy, body_hash, seal_row
from memory_manager.sync.wire.framing import LogRow
from memory_manager.sync.wire.log import Entry
from memory_manager.sync.wire.payload import HybridTime, Kind, encode_payload


class Rogue:
    """Enrolled like any other device; ``say`` pushes one row."""

    def __init__(self, world: LedgerWorld) -> None:
        self.world, self.founded = world, world.founded
        self.keys = self.founded.add()
        self.source = random.Random(5)
        self.head, self.seq = bytes(32), 0
        for device in world.devices:
            device.learn_roster()

    def dot(self, ahead: int = 1) -> Dot:
        """The dot of its next row, or of a later one."""
        return Dot(self.keys.id, self.seq + ahead)

    def says(
        self,
        fields: Mapping[str, Any],
        *,
        kind: Kind = Kind.MEMORY,
        parents: Iterable[Dot] = (),
        record: bytes | None = None,
        time: HybridTime | None = None,
    ) -> Dot:
        """Push one row; by default under a name on the wire that nobody has seen."""
        founded, dot, named = self.founded, self.dot(), tuple(sorted(parents))
        at = time or HybridTime(now_ms(), 0, self.keys.id.hex())
        row = seal_row(
            encode_payload(kind, at, named, fields),
            policy=Policy.TOMBSTONE if kind is Kind.TOMBSTONE else Policy.VAULT,
            vault=founded.vault,
            record=record or b"\x01" + self.source.randbytes(15),
            dot=dot,
            parents=named,
            under=founded.key(founded.roster.epoch),
            cek=self.source.randbytes(32),
            body_nonce=self.source.randbytes(24),
            wrap_nonce=self.source.randbytes(24),
        )
        head = founded.roster.head
        entry = Entry(founded.vault, self.keys.id, dot.seq, self.head, body_hash(row.body), head)
        self.seq, self.head = dot.seq, entry.head
        self.world.server.push([LogRow(entry, row)])
        return dot

    def memory(self, memory_id: MemoryId, content: str = "rogue", **members: Any) -> dict[str, Any]:
        """The members of a memory's payload."""
        at = now_ms()
        return {
            "id": memory_id,
            "record_kind": "memory",
            "content": content,
            "content_sha256": hashlib.sha256(content.encode()).hexdigest(),
            "memory_type": "semantic",
            "path": "notes",
            "bucket": "public",
            "created_at_ms": at,
            "updated_at_ms": at,
            **members,
        }


def on_the_wire(device: LedgerDevice, memory_id: MemoryId) -> tuple[bytes, list[Dot]]:
    """The name of a record, and its current revisions."""
    record_id = memory_id_bytes(memory_id)

    def look(connection: Any) -> tuple[bytes, list[Dot]]:
        (name,) = connection.execute(
            "SELECT record FROM sync_record WHERE id = ?", (record_id,)
        ).fetchone()
        return name, [each.dot for each in revisions.maximal(connection, record_id)]

    return device.read(look)
