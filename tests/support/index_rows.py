"""Rows of a server's index as its storages take them, without grants and signatures."""

from __future__ import annotations

from index_world import document_of

from memory_manager.sync.server.index.storage import NewRow
from memory_manager.sync.server.index.vectors import pack_words, word_set
from memory_manager.sync.wire.envelope import Dot
from memory_manager.sync.wire.index_document import OPTED_IN

VAULT, OTHER, DEVICE = b"\x01" * 16, b"\x02" * 16, b"\x03" * 16
NOW_MS = 1_764_500_000_000


def new_row(number: int, seq: int = 1, vault: bytes = VAULT, content: str = "falcon") -> NewRow:
    """A row as the server stores it once its grant was checked."""
    document = document_of(content).encode()
    return NewRow(
        vault=vault,
        record=bytes([0x80]) + number.to_bytes(2, "big") + bytes(13),
        device=DEVICE,
        dot=Dot(DEVICE, seq),
        grant=b"grant" + number.to_bytes(2, "big") + bytes((seq,)),
        nonce=number.to_bytes(2, "big") + seq.to_bytes(14, "big"),
        expires=NOW_MS // 1000 + 60,
        document=document,
        envelope=OPTED_IN,
        opted_in=True,
        bucket="work",
        scope=None,
        path="team/db",
        memory_type="semantic",
        created_at_ms=5,
        updated_at_ms=6,
        words=pack_words(word_set(content)),
    )
