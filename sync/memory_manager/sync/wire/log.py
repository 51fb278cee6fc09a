"""Signed logs: entries, heads, checkpoints and the server's head statement (sync.md 4.2, 9.2)."""

from __future__ import annotations

import dataclasses
import struct
from typing import Final

from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

from memory_manager.sync.errors import MalformedMessage
from memory_manager.sync.wire import labels
from memory_manager.vault.kdf import labelled_hash

ENTRY_BYTES: Final = 137
CHECKPOINT_BYTES: Final = 112
STATEMENT_BYTES: Final = 40
FIRST_GLOBAL_HEAD: Final = labels.ZERO_HASH
LOGIN_ACTION_SESSION: Final = 1
LOGIN_ACTION_DELETE: Final = 2

_VERSION: Final = 1
_ENTRY: Final = struct.Struct(">B16s16sQ32s32s32s")
_CHECKPOINT: Final = struct.Struct(">16s16sQ32sQ32s")
_STATEMENT: Final = struct.Struct(">Q32s")


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """One log position of one device. ``seq`` is contiguous from 1."""

    vault: bytes
    device: bytes
    seq: int
    previous: bytes
    body_hash: bytes
    roster_hash: bytes

    def pack(self) -> bytes:
        """137 bytes."""
        return _ENTRY.pack(
            _VERSION,
            self.vault,
            self.device,
            self.seq,
            self.previous,
            self.body_hash,
            self.roster_hash,
        )

    @property
    def head(self) -> bytes:
        """The device's head after this entry."""
        return labelled_hash(self.pack(), labels.ENTRY)


def unpack_entry(raw: bytes) -> Entry:
    """The entry of 137 bytes; MalformedMessage otherwise."""
    if len(raw) != ENTRY_BYTES or raw[0] != _VERSION:
        raise MalformedMessage
    entry = Entry(*_ENTRY.unpack(raw)[1:])
    _check_positions(entry.seq)
    return entry


def next_global_head(g: bytes, device: bytes, head: bytes) -> bytes:
    """``G_n`` of ``G_(n-1)`` and the entry that the server accepted n-th."""
    return labelled_hash(g + device + head, labels.GLOBAL_HEAD)


@dataclasses.dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a device says of its own log and of the last global head that it verified."""

    vault: bytes
    device: bytes
    seq: int
    head: bytes
    n: int
    g: bytes

    def pack(self) -> bytes:
        """112 bytes; signed with a label in front."""
        return _CHECKPOINT.pack(self.vault, self.device, self.seq, self.head, self.n, self.g)


def unpack_checkpoint(raw: bytes) -> Checkpoint:
    if len(raw) != CHECKPOINT_BYTES:
        raise MalformedMessage
    said = Checkpoint(*_CHECKPOINT.unpack(raw))
    _check_positions(said.seq, said.n)
    return said


@dataclasses.dataclass(frozen=True, slots=True)
class ServerHead:
    """STH: the server's statement that its log of this vault has ``n`` entries and head ``g``."""

    n: int
    g: bytes

    def pack(self) -> bytes:
        """40 bytes, as they travel; the vault is added where it is signed."""
        return _STATEMENT.pack(self.n, self.g)

    def signed_bytes(self, vault: bytes) -> bytes:
        return labels.SERVER_HEAD + vault + self.pack()


def unpack_server_head(raw: bytes) -> ServerHead:
    if len(raw) != STATEMENT_BYTES:
        raise MalformedMessage
    head = ServerHead(*_STATEMENT.unpack(raw))
    _check_positions(head.n)
    return head


def _check_positions(*positions: int) -> None:
    """A signature does not make a number one that a database holds."""
    if max(positions) > labels.MAX_POSITION:
        raise MalformedMessage


def sign_checkpoint(key: SigningKey, checkpoint: Checkpoint) -> bytes:
    return key.sign(labels.CHECKPOINT + checkpoint.pack()).signature


def checkpoint_verifies(checkpoint: Checkpoint, signature: bytes, device_key: bytes) -> bool:
    return signature_verifies(labels.CHECKPOINT + checkpoint.pack(), signature, device_key)


def sign_server_head(key: SigningKey, vault: bytes, statement: ServerHead) -> bytes:
    return key.sign(statement.signed_bytes(vault)).signature


def server_head_verifies(
    vault: bytes, statement: ServerHead, signature: bytes, server_key: bytes
) -> bool:
    return signature_verifies(statement.signed_bytes(vault), signature, server_key)


def signature_verifies(message: bytes, signature: bytes, public_key: bytes) -> bool:
    """Ed25519; False for any malformed key or signature too."""
    try:
        VerifyKey(public_key).verify(message, signature)
    except (BadSignatureError, ValueError, TypeError):
        return False
    return True


def head_words(vault: bytes, n: int, g: bytes) -> tuple[str, ...]:
    """Six words for ``verified up to row n``, to be compared between devices."""
    return labels.words(head_words_hash(vault, n, g))


def head_words_hash(vault: bytes, n: int, g: bytes) -> bytes:
    return labelled_hash(vault + n.to_bytes(8, "big") + g, labels.HEAD_WORDS)


def login_bytes(
    server_key: bytes, host: str, vault: bytes, device: bytes, action: int, nonce: bytes
) -> bytes:
    """What a login signature covers; ``host`` is ``name:port`` as configured (sync.md 9.2)."""
    name = host.lower().encode()
    return b"".join(
        (
            labels.LOGIN,
            server_key,
            len(name).to_bytes(2, "big"),
            name,
            vault,
            device,
            action.to_bytes(1, "big"),
            nonce,
        )
    )
