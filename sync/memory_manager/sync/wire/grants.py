"""The grant that lets one revision of one row leave as plaintext: two signatures (sync.md 6)."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Final

from nacl.signing import SigningKey

from memory_manager.sync.errors import MalformedMessage
from memory_manager.sync.wire import canonical, labels
from memory_manager.sync.wire.canonical import hex_bytes, is_count
from memory_manager.sync.wire.envelope import Dot, dot_from_hex, is_indexable
from memory_manager.sync.wire.log import signature_verifies
from memory_manager.sync.wire.roster import Member

VERSION: Final = 1
NONCE_BYTES: Final = 16


@dataclasses.dataclass(frozen=True, slots=True)
class Grant:
    """``sha256`` is of the exact bytes the owner was shown; ``expires`` is Unix seconds."""

    vault: bytes
    record: bytes
    dot: Dot
    sha256: bytes
    fields: tuple[str, ...]
    server: bytes
    nonce: bytes
    expires: int

    def document(self) -> bytes:
        return canonical.encode(
            {
                "v": VERSION,
                "vault": self.vault.hex(),
                "record": self.record.hex(),
                "dot": self.dot.hex(),
                "sha256": self.sha256.hex(),
                "fields": list(self.fields),
                "server": self.server.hex(),
                "nonce": self.nonce.hex(),
                "expires": self.expires,
            }
        )


@dataclasses.dataclass(frozen=True, slots=True)
class SignedGrant:
    grant: Grant
    by_device: bytes
    by_owner: bytes


def sign_grant(grant: Grant, device_key: SigningKey, grant_key: SigningKey) -> SignedGrant:
    """Both signatures; the grant key is there only while the owner's passphrase is fresh."""
    message = labels.GRANT + grant.document()
    return SignedGrant(grant, device_key.sign(message).signature, grant_key.sign(message).signature)


def grant_fits(
    signed: SignedGrant,
    *,
    vault: bytes,
    member: Member,
    server_key: bytes,
    record: bytes,
    dot: Dot,
    shown: bytes,
    now: int,
) -> bool:
    """Whether a grant of this vault's member, for a revision of its own, covers exactly these bytes
    of it, for this server, still now.
    """
    grant = signed.grant
    message = labels.GRANT + grant.document()
    return (
        is_indexable(grant.record)
        and (grant.vault, grant.server) == (vault, server_key)
        and (grant.record, grant.dot) == (record, dot)
        and grant.sha256 == hashlib.sha256(shown).digest()
        and len(grant.nonce) == NONCE_BYTES
        and now < grant.expires
        and member.is_active
        and grant.dot.device == member.id
        and signature_verifies(message, signed.by_device, member.ed25519)
        and signature_verifies(message, signed.by_owner, member.grant)
    )


def read_grant(document: bytes) -> Grant:
    """The grant in canonical bytes; MalformedMessage otherwise."""
    members = canonical.decode(document)
    try:
        fields, expires = members["fields"], members["expires"]
        if not is_count(expires) or not all(isinstance(name, str) for name in fields):
            raise MalformedMessage
        grant = Grant(
            hex_bytes(members["vault"], labels.ID_BYTES),
            hex_bytes(members["record"], labels.ID_BYTES),
            dot_from_hex(members["dot"]),
            hex_bytes(members["sha256"], labels.HASH_BYTES),
            tuple(fields),
            hex_bytes(members["server"], labels.HASH_BYTES),
            hex_bytes(members["nonce"], NONCE_BYTES),
            expires,
        )
    except (KeyError, ValueError, TypeError):
        raise MalformedMessage from None
    if grant.document() != document:
        raise MalformedMessage
    return grant
