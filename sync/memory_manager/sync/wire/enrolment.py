"""Enrolment by a pasted string: what travels through the mailbox and what binds it (sync.md 7.2).

The string is a secret for ten minutes: never logged, never an argument of a process.
"""

from __future__ import annotations

import dataclasses
import itertools
import unicodedata
from typing import Final

from nacl.bindings import crypto_box_NONCEBYTES
from nacl.signing import SigningKey

from memory_manager.sync.errors import MalformedMessage
from memory_manager.sync.wire import labels
from memory_manager.sync.wire.base64url import base64_bytes, base64_text
from memory_manager.sync.wire.log import signature_verifies
from memory_manager.vault.kdf import equal, keyed_hash, labelled_hash

PREFIX: Final = "mlk1:"
SECRET_BYTES: Final = 16
NO_GRANT_KEY: Final = bytes(labels.HASH_BYTES)
MAX_MAILBOX_BYTES: Final = 65_536
MAILBOX_SECONDS: Final = 600
MAX_NAME_CHARACTERS: Final = 64

_VERSION: Final = 1
_FIXED_BYTES: Final = 1 + labels.ID_BYTES + labels.HASH_BYTES + SECRET_BYTES


@dataclasses.dataclass(frozen=True, slots=True)
class NewKeys:
    """The public half of a device that wants to join."""

    device: bytes
    ed25519: bytes
    x25519: bytes
    grant: bytes = NO_GRANT_KEY

    @property
    def hash(self) -> bytes:
        return labelled_hash(self.device + self.ed25519 + self.x25519 + self.grant, labels.NEW_KEYS)

    def possession_bytes(self, mailbox: bytes) -> bytes:
        parts = (labels.POSSESSION, mailbox, self.device, self.ed25519, self.x25519, self.grant)
        return b"".join(parts)


@dataclasses.dataclass(frozen=True, slots=True)
class Invitation:
    """What the pasted string says; ``secret`` never reaches the server."""

    mailbox: bytes
    key_hash: bytes
    secret: bytes = dataclasses.field(repr=False)
    url: str

    def text(self) -> str:
        raw = b"".join(
            (
                _VERSION.to_bytes(1, "big"),
                self.mailbox,
                self.key_hash,
                self.secret,
                self.url.encode(),
            )
        )
        return PREFIX + base64_text(raw)


def read_invitation(text: str) -> Invitation:
    """The invitation in a pasted string, blanks around it allowed; MalformedMessage otherwise."""
    stripped = text.strip()
    if not stripped.startswith(PREFIX):
        raise MalformedMessage("This is not an enrolment string.")
    try:
        raw = base64_bytes(stripped.removeprefix(PREFIX))
        url = raw[_FIXED_BYTES:].decode()
    except ValueError:
        raise MalformedMessage("The enrolment string is damaged.") from None
    if len(raw) <= _FIXED_BYTES or raw[0] != _VERSION:
        raise MalformedMessage("The enrolment string is damaged or of another version.")
    ends = (1, 1 + labels.ID_BYTES, 1 + labels.ID_BYTES + labels.HASH_BYTES, _FIXED_BYTES)
    mailbox, key_hash, secret = (raw[a:b] for a, b in itertools.pairwise(ends))
    return Invitation(mailbox, key_hash, secret, url)


def sign_possession(keys: NewKeys, mailbox: bytes, key: SigningKey) -> bytes:
    return key.sign(keys.possession_bytes(mailbox)).signature


def newcomer_fits(invitation: Invitation, keys: NewKeys, possession: bytes) -> bool:
    """Whether what the mailbox holds is what the pasted string announced."""
    message = keys.possession_bytes(invitation.mailbox)
    return equal(keys.hash, invitation.key_hash) and signature_verifies(
        message, possession, keys.ed25519
    )


def welcome_mac(
    invitation: Invitation, nonce: bytes, box: bytes, ed25519: bytes, x25519: bytes
) -> bytes:
    """Binds the answer of the existing device, its two public keys included, to the string."""
    message = b"".join((nonce, box, invitation.mailbox, invitation.key_hash, ed25519, x25519))
    return keyed_hash(invitation.secret, message, labels.ENROLMENT)


def welcome_fits(
    invitation: Invitation, nonce: bytes, box: bytes, ed25519: bytes, x25519: bytes, mac: bytes
) -> bool:
    """Checked before anything else of an answer is looked at."""
    return len(nonce) == crypto_box_NONCEBYTES and equal(
        welcome_mac(invitation, nonce, box, ed25519, x25519), mac
    )


def printable_name(text: str) -> str:
    """A device name as it may be shown: one line, at most 64 characters, never empty."""
    kept = "".join(c for c in text if unicodedata.category(c)[0] != "C")
    return " ".join(kept.split())[:MAX_NAME_CHARACTERS].strip() or "unnamed device"
