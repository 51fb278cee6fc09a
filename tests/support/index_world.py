"""Opted-in rows with real grants of a simulated vault, and ways to spoil them."""

from __future__ import annotations

import dataclasses
import hashlib
import random
from typing import Any

from nacl.signing import SigningKey
from sync_world import Founded, Keys

from memory_manager.sync.wire import canonical
from memory_manager.sync.wire.envelope import Dot
from memory_manager.sync.wire.grants import Grant, SignedGrant, sign_grant
from memory_manager.sync.wire.index_document import IndexDocument

NOW = 1_764_500_000
HOUR = 3_600


@dataclasses.dataclass
class IndexWorld:
    """One vault with its first device; ``server_key`` is what grants name."""

    server_key: bytes
    source: random.Random = dataclasses.field(default_factory=lambda: random.Random(7))
    now: int = NOW

    def __post_init__(self) -> None:
        self.vault = Founded(self.source)
        self.seq = 0

    @property
    def device(self) -> Keys:
        return self.vault.first

    def record(self) -> bytes:
        """A random id of the indexable class."""
        raw = bytearray(self.source.randbytes(16))
        raw[0] |= 0x80
        return bytes(raw)

    def grant(self, document: IndexDocument, **changes: Any) -> Grant:
        """What the owner would sign for this document, then changed."""
        self.seq += 1
        raw = document.encode()
        grant = Grant(
            vault=self.vault.vault,
            record=self.record(),
            dot=Dot(self.device.id, self.seq),
            sha256=hashlib.sha256(raw).digest(),
            fields=document.fields,
            server=self.server_key,
            nonce=self.source.randbytes(16),
            expires=self.now + HOUR,
        )
        return dataclasses.replace(grant, **changes)

    def sign(
        self, grant: Grant, device: SigningKey | None = None, owner: SigningKey | None = None
    ) -> SignedGrant:
        return sign_grant(grant, device or self.device.signing, owner or self.device.grant)

    def offer(self, document: IndexDocument, **changes: Any) -> dict[str, Any]:
        """A request body that is right, but for ``changes`` of its grant."""
        return offer_of(self.sign(self.grant(document, **changes)), document.encode())


def offer_of(signed: SignedGrant, document: bytes) -> dict[str, Any]:
    return {
        "grant": canonical.decode(signed.grant.document()),
        "sig_device": signed.by_device.hex(),
        "sig_grant": signed.by_owner.hex(),
        "document": document.decode(),
    }


def document_of(content: str, path: str = "team/db", **members: Any) -> IndexDocument:
    """A document with made-up times and labels."""
    given: dict[str, Any] = {
        "bucket": "work",
        "memory_type": "semantic",
        "created_at_ms": 1_764_000_000_000,
        "updated_at_ms": 1_764_000_000_000,
        "tags": ("ops",),
        "agent_id": "codex",
        **members,
    }
    return IndexDocument(content=content, path=path, **given)
