"""Who holds a semantic key that records of several devices claim: the latest revision, everywhere.

A record that does not hold its key keeps it in its version; when the holder goes, the next one in
line holds it. Decided by (time, device) alone, so all devices decide alike.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from memory_manager.base.identifiers import memory_id_bytes, memory_id_from_bytes
from memory_manager.sync.wire.versions import Revision
from memory_manager.vault import row_matching
from memory_manager.vault.memories import Memories
from memory_manager.vault.prepared_version import RowContents
from memory_manager.vault.row_codec import encode_json

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

_LIVE_CLAIMS = (
    "SELECT s.id FROM sync_record s JOIN record r ON r.id = s.id"
    " WHERE s.claim = ? AND r.status <> 'deleted'"
    " ORDER BY s.claim_ms DESC, s.claim_counter DESC, s.claim_device DESC, s.id DESC LIMIT 1"
)


def place_of(semantic_key: str | None, bucket: str, scope: str | None, kind: str) -> bytes | None:
    """16 bytes that equal places share; None without a key."""
    if not semantic_key:
        return None
    text = encode_json([semantic_key, bucket, scope or "", kind])
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def of_record(connection: Connection, record_id: bytes) -> bytes | None:
    found = connection.execute(
        "SELECT claim FROM sync_record WHERE id = ?", (record_id,)
    ).fetchone()
    return None if found is None else found[0]


def note(
    connection: Connection, record_id: bytes, place: bytes | None, revision: Revision | None
) -> None:
    """A known record claims this place from now on, with the time of its winning revision."""
    if place is None:
        connection.execute(
            "UPDATE sync_record SET claim = NULL, claim_ms = 0, claim_counter = 0,"
            " claim_device = zeroblob(16) WHERE id = ? AND claim IS NOT NULL",
            (record_id,),
        )
        return
    ms, counter, device = 0, 0, bytes(16)
    if revision is not None:
        ms, counter, device = revision.time.ms, revision.time.counter, revision.dot.device
    connection.execute(
        "UPDATE sync_record SET claim = ?, claim_ms = ?, claim_counter = ?, claim_device = ?"
        " WHERE id = ?",
        (place, ms, counter, device, record_id),
    )


def take(
    transaction: Transaction,
    memories: Memories,
    record_id: bytes,
    contents: RowContents,
    revision: Revision,
) -> bool:
    """Note the claim of a record that is about to be stored, and whether it will hold its key.

    If so, whoever held it until now does not any more.
    """
    connection = transaction.connection
    place = place_of(contents.semantic_key, contents.bucket, contents.scope, contents.kind.value)
    note(connection, record_id, place, revision)
    if place is None:
        return True
    first = connection.execute(
        "SELECT id FROM (SELECT s.id, s.claim_ms, s.claim_counter, s.claim_device"
        " FROM sync_record s LEFT JOIN record r ON r.id = s.id"
        " WHERE s.claim = ? AND (s.id = ? OR r.status <> 'deleted'))"
        " ORDER BY claim_ms DESC, claim_counter DESC, claim_device DESC, id DESC LIMIT 1",
        (place, record_id),
    ).fetchone()
    if first[0] != record_id:
        return False
    holder = row_matching.row_with_semantic_key(connection, contents)
    if holder is not None and memory_id_bytes(holder.id) != record_id:
        memories.set_key(transaction, holder.id, holds=False)
    return True


def reassign(transaction: Transaction, memories: Memories, place: bytes | None) -> None:
    """Give a key whose holder went to the next in line."""
    if place is None:
        return
    found = transaction.connection.execute(_LIVE_CLAIMS, (place,)).fetchone()
    if found is not None:
        memories.set_key(transaction, memory_id_from_bytes(found[0]), holds=True)
