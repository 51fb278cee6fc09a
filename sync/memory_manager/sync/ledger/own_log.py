"""Appending to our own log: seal, chain, remember, in one go (vault.md 9.1)."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from memory_manager.base.errors import TooLarge
from memory_manager.sync.ledger import keybag, payload_rows, revisions, sealed_rows
from memory_manager.sync.ledger.state import SyncState, mark_of
from memory_manager.sync.wire import versions
from memory_manager.sync.wire.envelope import (
    MAX_PAYLOAD_BYTES,
    Dot,
    Policy,
    body_hash,
    seal_row,
)
from memory_manager.sync.wire.log import Entry
from memory_manager.sync.wire.payload import CLEANED, DeletionMode, HybridTime, Kind, encode_payload
from memory_manager.sync.wire.versions import Revision
from memory_manager.vault.kdf import KEY_BYTES, NONCE_BYTES, wipe

if TYPE_CHECKING:
    from memory_manager.vault.transaction import Transaction

_RANDOM_BYTES: Final = KEY_BYTES + 2 * NONCE_BYTES


@dataclasses.dataclass(frozen=True, slots=True)
class Said:
    """What one own entry says. ``record_id`` is None for one that speaks of no record here;
    ``beats``: times of revisions that stay beside it and that it shall win over. ``at_ms``: when it
    was said, where that was before the sealing. ``cleans``: the time of what it says anew, cleaned:
    it counts as said then.
    """

    kind: Kind
    fields: Mapping[str, Any] = dataclasses.field(repr=False)
    record: bytes
    record_id: bytes | None
    policy: Policy = Policy.VAULT
    parents: tuple[Dot, ...] = ()
    deletion: DeletionMode | None = None
    beats: tuple[HybridTime, ...] = ()
    at_ms: int | None = None
    cleans: HybridTime | None = None


def append(transaction: Transaction, state: SyncState, said: Said) -> tuple[SyncState, Revision]:
    """Write one entry: the state after it, and the revision. TooLarge over 524 288 bytes."""
    connection = transaction.connection
    seq = state.own_seq + 1
    clock = versions.next_time(state.clock, transaction.now_ms, state.device.hex())
    time = _later_than(clock, said.beats)
    if said.at_ms is not None and said.at_ms < transaction.now_ms:
        time, clock = HybridTime(max(0, said.at_ms), 0, clock.device), state.clock
    fields = said.fields
    if said.cleans is not None:
        time, clock = dataclasses.replace(said.cleans, device=clock.device), state.clock
        fields = {**fields, CLEANED: True}
    payload = encode_payload(said.kind, time, said.parents, fields)
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise TooLarge("A memory with all its fields is too large to be synced.")
    key = keybag.current_key(connection)
    if key is None:
        raise LookupError("sync is on without a key")
    random = os.urandom(_RANDOM_BYTES)
    dot = Dot(state.device, seq)
    try:
        row = seal_row(
            payload,
            policy=said.policy,
            vault=state.vault,
            record=said.record,
            dot=dot,
            parents=said.parents,
            under=key,
            cek=random[:KEY_BYTES],
            body_nonce=random[KEY_BYTES : KEY_BYTES + NONCE_BYTES],
            wrap_nonce=random[KEY_BYTES + NONCE_BYTES :],
        )
    finally:
        wipe(key.key)
    entry = Entry(
        state.vault, state.device, seq, state.own_head, body_hash(row.body), state.roster_hash
    )
    (rowid,) = connection.execute(
        "INSERT INTO entry(device, seq, head, body_hash, entry) VALUES(?, ?, ?, ?, ?)"
        " RETURNING rowid",
        (state.device, seq, entry.head, entry.body_hash, entry.pack()),
    ).fetchone()
    sealed_rows.put(connection, rowid, row)
    revision = Revision(
        dot,
        frozenset(said.parents),
        time,
        said.deletion,
        cleans=said.cleans is not None,
        redacts=payload_rows.is_redacted(fields),
    )
    revisions.add(
        connection,
        revision,
        record=said.record,
        record_id=said.record_id,
        kind=said.kind.value,
    )
    after = dataclasses.replace(state, own_seq=seq, own_head=entry.head, clock=clock)
    connection.execute(
        "UPDATE sync_state SET own_seq = ?, own_head = ?, clock_ms = ?, clock_counter = ?",
        (seq, entry.head, clock.ms, clock.counter),
    )
    transaction.sync_reached(mark_of(after))
    return after, revision


def new_record(*, indexed: bool = False) -> bytes:
    """A random name for a record on the wire, with its privacy class in the top bit."""
    raw = bytearray(os.urandom(16))
    raw[0] = raw[0] | 0x80 if indexed else raw[0] & 0x7F
    return bytes(raw)


def _later_than(time: HybridTime, others: tuple[HybridTime, ...]) -> HybridTime:
    latest = max(others, default=time)
    if (latest.ms, latest.counter) < (time.ms, time.counter):
        return time
    return versions.following(latest, time.device)
